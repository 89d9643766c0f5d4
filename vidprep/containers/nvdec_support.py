"""Which NVDEC generations decode a stream, as data.

Source: NVIDIA's "Video Encode and Decode Support Matrix" and the "NVDEC Video Decoder API Programming Guide"
(table of codecs, sizes and chroma formats by generation). "yes" = every NVDEC since Pascal, "some" = newer
generations only (AV1 from Ampere; HEVC 4:4:4 from Turing; 4:2:2 and 10-bit H.264 from Blackwell), "no" = none.
"""

from __future__ import annotations

from typing import NamedTuple


class Support(NamedTuple):
    """Streams of `codec` with one of `chroma` and at most `max_depth` bits and `max_side` rows and columns."""

    codec: str
    chroma: tuple[str, ...]
    max_depth: int
    min_width: int
    min_height: int
    max_side: int
    answer: str


#: The first row that fits decides; a codec that has rows and fits none is "no".
SUPPORT: tuple[Support, ...] = (
    Support("mpeg1video", ("4:2:0",), 8, 48, 16, 4080, "yes"),
    Support("mpeg2video", ("4:2:0",), 8, 48, 16, 4080, "yes"),
    Support("mpeg4", ("4:2:0",), 8, 48, 16, 2032, "yes"),
    Support("vc1", ("4:2:0",), 8, 48, 16, 2048, "yes"),
    Support("wmv3", ("4:2:0",), 8, 48, 16, 2048, "yes"),
    Support("h264", ("4:2:0",), 8, 48, 16, 4096, "yes"),
    Support("h264", ("4:2:0", "4:2:2"), 10, 48, 16, 8192, "some"),
    Support("hevc", ("4:2:0",), 10, 144, 144, 8192, "yes"),
    Support("hevc", ("4:2:0", "4:2:2", "4:4:4"), 12, 144, 144, 8192, "some"),
    Support("vp8", ("4:2:0",), 8, 48, 16, 4096, "yes"),
    Support("vp9", ("4:2:0",), 8, 128, 128, 8192, "yes"),
    Support("vp9", ("4:2:0",), 12, 128, 128, 8192, "some"),
    Support("av1", ("4:2:0", "4:0:0"), 10, 128, 128, 8192, "some"),
)

CODECS = frozenset(row.codec for row in SUPPORT)


def nvdec_class(codec: str, chroma: str | None, bit_depth: int | None, width: int, height: int) -> str:
    """The capability class: "yes", "some", "no", or "unknown" for an NVDEC codec whose format is not known."""
    if codec not in CODECS:
        return "no"
    if chroma is None or bit_depth is None or not width or not height:
        return "unknown"
    for row in SUPPORT:
        if (
            row.codec == codec
            and chroma in row.chroma
            and bit_depth <= row.max_depth
            and row.min_width <= width <= row.max_side
            and row.min_height <= height <= row.max_side
        ):
            return row.answer
    return "no"
