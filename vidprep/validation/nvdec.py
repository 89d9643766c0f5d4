"""Which GPU generations' NVDEC decodes what the index calls "some".

Source: NVIDIA's "Video Encode and Decode Support Matrix", NVDEC columns by GPU family; the same table that
`vidprep.containers.nvdec_support` condenses to yes, some and no.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["generations"]


class Since(NamedTuple):
    """Streams of `codec` with one of `chroma` and at most `max_depth` bits, and the NVDECs that decode them."""

    codec: str
    chroma: tuple[str, ...]
    max_depth: int
    generations: str


#: The first row that fits decides.
SINCE: tuple[Since, ...] = (
    Since("h264", ("4:2:0", "4:2:2"), 10, "Blackwell and later"),
    Since("hevc", ("4:2:2",), 12, "Blackwell and later"),
    Since("hevc", ("4:2:0",), 12, "Pascal (GP102 and later) and later, 12 bits not on all"),
    Since("hevc", ("4:4:4",), 12, "Turing and later"),
    Since("vp9", ("4:2:0",), 12, "Pascal (GP102 and later) and later, 12 bits not on all"),
    Since("av1", ("4:2:0", "4:0:0"), 10, "Ampere (but not A100) and later"),
)


def generations(codec: str, chroma: str | None, bit_depth: int | None) -> str:
    """The GPU generations, in words."""
    for row in SINCE:
        if row.codec == codec and chroma in row.chroma and (bit_depth or 0) <= row.max_depth:
            return row.generations
    return "newer GPUs only"
