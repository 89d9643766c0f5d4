"""What one coded sample says about itself: picture type, random access, hidden, referred to. Bytes in, facts out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vidprep.containers import frame_pictures
from vidprep.containers.nal_pictures import h264_facts, hevc_facts, vvc_facts
from vidprep.containers.samplefacts import UNKNOWN, SampleFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from vidprep.records import StreamInfo

__all__ = ["SampleFacts", "head_bytes", "is_understood", "pair_fields", "sample_facts"]

#: Codecs that code every picture by itself: each sample is a key frame and none refers to another.
INTRA_ONLY = frozenset((
    "aic", "ayuv", "bmp", "cfhd", "cllc", "cljr", "dnxhd", "dpx", "dvvideo", "dxv", "exr", "ffvhuff", "hap", "hq_hqa",
    "huffyuv", "hymt", "jpeg2000", "jpegls", "jpegxl", "ljpeg", "magicyuv", "mjpeg", "mjpegb", "notchlc", "photocd",
    "png", "prores", "prores_raw", "r10k", "r210", "rawvideo", "speedhq", "targa", "tiff", "utvideo", "v210", "v308",
    "v408", "v410", "webp", "y41p", "yuv4",
))  # fmt: skip

INTRA_FACTS = SampleFacts(key=True, shown=True, has_picture=True, disposable=True, picture_type="I")

READERS: dict[str, Callable[..., SampleFacts]] = {
    "vp8": frame_pictures.vp8_facts,
    "vp9": frame_pictures.vp9_facts,
    "av1": frame_pictures.av1_facts,
    "mpeg4": frame_pictures.mpeg4_facts,
    "mpeg1video": frame_pictures.mpeg12_facts,
    "mpeg2video": frame_pictures.mpeg12_facts,
    "h263": frame_pictures.h263_facts,
    "msmpeg4v1": partial(frame_pictures.msmpeg4_facts, bits_before=32 + 5),  # a start code and a frame number
    "msmpeg4v2": frame_pictures.msmpeg4_facts,
    "msmpeg4v3": frame_pictures.msmpeg4_facts,
    "wmv1": frame_pictures.msmpeg4_facts,
    "wmv2": partial(frame_pictures.msmpeg4_facts, type_bits=1),
    "theora": frame_pictures.theora_facts,
    "dirac": frame_pictures.dirac_facts,
}

NAL_CODECS = frozenset(("h264", "hevc", "vvc"))

#: First bytes of a sample that usually hold its first slice or frame header: parameter sets and x264's settings
#: (about 700 bytes) stand before the first one.
HEAD_BYTES: dict[str, int] = {
    "h264": 1024, "hevc": 1024, "vvc": 1024, "vp8": 80, "vp9": 64, "av1": 256, "mpeg4": 256, "mpeg1video": 512,
    "mpeg2video": 512, "h263": 16, "msmpeg4v1": 8, "msmpeg4v2": 8, "msmpeg4v3": 8, "wmv1": 8, "wmv2": 8, "theora": 16,
    "dirac": 256,
}  # fmt: skip


def is_understood(codec: str) -> bool:
    """`sample_facts` can tell key pictures of this codec (FFmpeg's name)."""
    return codec in NAL_CODECS or codec in READERS or codec in INTRA_ONLY


def head_bytes(info: StreamInfo) -> int:
    """How many first bytes of a sample normally suffice for `sample_facts`; 0 where none are needed."""
    return HEAD_BYTES.get(info.codec, 0)


def sample_facts(info: StreamInfo, payload: bytes, *, complete: bool = True) -> SampleFacts:
    """Facts of one sample.

    Args:
        info: codec, codec_config and nal_length_size of the stream.
        payload: the sample's bytes, or its first ones.
        complete: False if `payload` is only the head; facts that would need more are None.

    Never raises for bad bytes: what cannot be read is None.
    """
    codec, config = info.codec, info.codec_config
    if codec == "h264":
        return h264_facts(config, payload, info.nal_length_size, complete=complete)
    if codec == "hevc":
        return hevc_facts(config, payload, info.nal_length_size, complete=complete)
    if codec == "vvc":
        return vvc_facts(payload, info.nal_length_size, complete=complete)
    reader = READERS.get(codec)
    if reader is not None:
        return reader(config, payload, complete=complete)
    return INTRA_FACTS if codec in INTRA_ONLY else UNKNOWN


def pair_fields(first: SampleFacts, second: SampleFacts) -> bool:
    """`second` is the other field of the frame whose first field is `first`, in samples one after the other.

    H.264 clauses 3.30 and 3.31: opposite parity, the same frame_num, both reference or both non-reference, the
    second one no IDR picture.
    """
    return (
        first.field is not None
        and second.field is not None
        and first.field != second.field
        and not first.second_field
        and first.frame_num == second.frame_num
        and first.reference == second.reference
    )
