"""What one coded sample says about itself: picture type, random access, hidden, referred to. Bytes in, facts out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vidprep.records import StreamInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFacts:
    """Facts of one coded sample. None = this codec (or these bytes) do not tell."""

    key: bool | None = None
    """decoding can truly start here: IDR, CRA/BLA, H.264 recovery point with recovery_frame_cnt 0, VP8/VP9/AV1 key"""
    recovery_frames: int | None = None
    """frames after which a gradual recovery point is exact; None = not a recovery point"""
    shown: bool | None = None
    """False: a hidden picture (VP8/VP9 alt-ref, AV1 show_frame 0), or no picture at all"""
    has_picture: bool | None = None
    """False: parameter sets, SEI or delimiters only"""
    disposable: bool | None = None
    """True: no other picture refers to it"""
    picture_type: str | None = None
    """ "I", "P" or "B" """
    second_field: bool = False
    """the second field of a frame whose first field is in the sample before"""
    leading: bool | None = None
    """HEVC RASL/RADL: shown before the key picture that it follows in decode order"""


def sample_facts(info: StreamInfo, payload: bytes, *, complete: bool = True) -> SampleFacts:
    """Facts of one sample.

    Args:
        info: codec, codec_config and nal_length_size of the stream.
        payload: the sample's bytes, or its first ones.
        complete: False if `payload` is only the head; facts that would need more are None.
    """
    del info, payload, complete
    return SampleFacts()
