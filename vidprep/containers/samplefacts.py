"""The value that says what one coded sample is."""

from __future__ import annotations

from dataclasses import dataclass


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
    """True: no other picture refers to it, and no later sample depends on anything it carries"""
    picture_type: str | None = None
    """ "I", "P" or "B" """
    second_field: bool = False
    """the second field of a frame whose first field is in the sample before"""
    leading: bool | None = None
    """HEVC RASL/RADL: shown before the key picture that it follows in decode order"""
    needs_gop_before: bool | None = None
    """a leading picture that may refer to pictures before its key picture (HEVC and VVC RASL)"""
    broken_link: bool = False
    """HEVC BLA: pictures that need those before it are not shown, although they are there"""
    closed_gop: bool | None = None
    """MPEG-1/2: what follows this key picture and is shown before it needs nothing from before"""
    field: str | None = None
    """ "top" or "bottom" where the sample holds one field only"""
    frame_num: int | None = None
    """H.264 frame_num of a single field: what makes two fields a pair"""
    reference: bool | None = None
    """H.264 nal_ref_idc != 0"""
    num_pictures: int | None = None
    """coded pictures in the sample where there may be several (MPEG-4 packed B-frames)"""


UNKNOWN = SampleFacts()
"""of a codec that is not understood, or a head that is too short"""

NO_PICTURE = SampleFacts(key=False, shown=False, has_picture=False)
"""headers, delimiters or metadata only"""
