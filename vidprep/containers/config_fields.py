"""Pieces that the readers of codec configurations share: named fields, pixel formats, chroma."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from vidprep.containers import colours
from vidprep.containers.bits import OutOfBitsError
from vidprep.containers.nal_units import MAX_PARAMETER_SETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Parsed = TypeVar("Parsed")

#: Arguments of CodecFacts that a reader found.
Fields = dict[str, Any]

CHROMA: tuple[str, ...] = ("4:0:0", "4:2:0", "4:2:2", "4:4:4")
"""by chroma_format_idc"""

#: horizontal and vertical factor of luma over chroma -> chroma.
SUBSAMPLING: dict[tuple[int, int], str] = {(1, 1): "4:4:4", (2, 1): "4:2:2", (2, 2): "4:2:0", (1, 2): "4:4:0"}


def pix_fmt(chroma: str, depth: int, *, rgb: bool = False, full_range: bool = False) -> str:
    """FFmpeg's name of a planar format; its `yuvj` names are 8-bit full range."""
    deep = "" if depth == 8 else f"{depth}le"
    if chroma == "4:0:0":
        return "gray" + deep
    if rgb and chroma == "4:4:4":
        return "gbrp" + deep
    return f"yuv{'j' if full_range and depth == 8 else ''}{chroma.replace(':', '')}p{deep}"


def size_fields(width: int, height: int) -> Fields:
    """The size of a codec that has no cropping of its own."""
    return {"width": width, "height": height, "coded_width": width, "coded_height": height}


def colour_fields(primaries: int, transfer: int, matrix: int, full_range: int | None) -> Fields:
    """Names of the code points of ITU-T H.273; range 0 is limited, 1 full."""
    return {
        "colour_primaries": colours.PRIMARIES.get(primaries),
        "colour_transfer": colours.TRANSFER.get(transfer),
        "colour_matrix": colours.MATRIX.get(matrix),
        "colour_range": None if full_range is None else colours.RANGE[full_range],
    }


def first_parsed(parse: Callable[[bytes], Parsed], units: Iterable[bytes]) -> Parsed | None:
    """The first unit that can be read."""
    for unit in islice(units, MAX_PARAMETER_SETS):
        with suppress(OutOfBitsError):
            return parse(unit)
    return None


def level_text(tenths: int) -> str:
    """41 → 4.1."""
    return f"{tenths // 10}.{tenths % 10}"


def subsampled(x: int, y: int) -> str:
    """Chroma of subsampling flags across and down."""
    return SUBSAMPLING[1 + x, 1 + y]
