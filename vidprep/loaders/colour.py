"""YCbCr 4:2:0 to RGB as swscale does it (`bicubic+accurate_rnd+full_chroma_int`), as tables for any array library.

The conversion is three facts: which four chroma samples make one pixel's chroma and with what weights (along each
axis), the offsets and matrix that take Y, Cb, Cr to R, G, B, and where intermediate values are cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vidprep.errors import DecodeError

if TYPE_CHECKING:
    from vidprep.records import StreamInfo

FloatTable = npt.NDArray[np.float32]
IndexTable = npt.NDArray[np.int32]

#: Luma weights (Kr, Kb) by matrix name: ITU-T H.273 table 4 (BT.709, BT.601, BT.2020, SMPTE 240M, FCC).
LUMA_WEIGHTS = {
    "bt709": (0.2126, 0.0722),
    "bt601": (0.299, 0.114),
    "smpte170m": (0.299, 0.114),
    "bt470bg": (0.299, 0.114),
    "bt2020": (0.2627, 0.0593),
    "bt2020nc": (0.2627, 0.0593),
    "smpte240m": (0.212, 0.087),
    "fcc": (0.30, 0.11),
}
#: What an untagged stream is taken for, as swscale does.
DEFAULT_MATRIX = "bt601"
DEFAULT_RANGE = "limited"

#: swscale's default bicubic is Keys' cubic with a = -0.6 (libswscale/utils.c, SWS_BICUBIC param defaults 0, 0.6).
CUBIC_A = -0.6
#: swscale keeps horizontally scaled samples in 15 bits and cuts off what is above.
HORIZONTAL_LIMIT = 256 - 1 / 128

#: Chroma siting along an axis, in chroma samples from the edge of the picture.
CENTRE, FIRST_PIXEL, LAST_PIXEL = 0.5, 0.25, 0.75
#: Chroma sample location types (ITU-T H.264 and H.265, figure E-1) → horizontally, vertically.
CHROMA_LOCATIONS: dict[int | None, tuple[float, float]] = {
    0: (FIRST_PIXEL, CENTRE), 1: (CENTRE, CENTRE), 2: (FIRST_PIXEL, FIRST_PIXEL), 3: (CENTRE, FIRST_PIXEL),
    4: (FIRST_PIXEL, LAST_PIXEL), 5: (CENTRE, LAST_PIXEL),
}  # fmt: skip
#: Codecs whose pictures FFmpeg takes to be sited left (ITU-T H.273, chroma sample location type 0: horizontally at the
#: first pixel, vertically between) where the stream says nothing else; of other codecs it knows nothing, and swscale
#: then takes the centre.
LEFT_SITED_CODECS = frozenset({"h264", "hevc", "mpeg2video", "mpeg4"})


@dataclass(frozen=True, slots=True)
class Conversion:
    """rgb = matrix @ (ycc - offset), in units of 8-bit levels."""

    matrix: FloatTable
    """float32 (3, 3), rows R G B, columns Y Cb Cr"""
    offset: FloatTable
    """float32 (3,): black and the two chroma zeros"""


@lru_cache(maxsize=64)
def conversion(matrix: str | None, colour_range: str | None) -> Conversion:
    """The matrix of a stream's tags; untagged = BT.601 limited.

    Raises:
        DecodeError: a matrix that is not one of LUMA_WEIGHTS (RGB, YCgCo, ICtCp, constant luminance).
    """
    name = matrix or DEFAULT_MATRIX
    if name not in LUMA_WEIGHTS:
        raise DecodeError(f"colour matrix {name!r} is not one of {', '.join(sorted(LUMA_WEIGHTS))}")
    full = (colour_range or DEFAULT_RANGE) == "full"
    kr, kb = LUMA_WEIGHTS[name]
    kg = 1 - kr - kb
    luma, chroma = (1.0, 1.0) if full else (255 / 219, 255 / 224)
    table = np.array(
        [
            [luma, 0, 2 * (1 - kr) * chroma],
            [luma, -2 * (1 - kb) * kb / kg * chroma, -2 * (1 - kr) * kr / kg * chroma],
            [luma, 2 * (1 - kb) * chroma, 0],
        ],
        np.float32,
    )
    return Conversion(table, np.array([0 if full else 16, 128, 128], np.float32))


def conversion_of(info: StreamInfo) -> Conversion:
    """The conversion of a stream by its tags."""
    is_full = (info.pix_fmt or "").startswith("yuvj")
    return conversion(info.colour_matrix, info.colour_range or ("full" if is_full else None))


def chroma_siting(info: StreamInfo, location: int | None = None) -> tuple[float, float]:
    """Where the first chroma sample lies horizontally and vertically, for `upsample_taps`.

    Args:
        info: the stream; its codec decides where it states no location.
        location: chroma sample location type of H.264 and HEVC (figure E-1); None = not stated.
    """
    if location in CHROMA_LOCATIONS:
        return CHROMA_LOCATIONS[location]
    return (FIRST_PIXEL if info.codec in LEFT_SITED_CODECS else CENTRE), CENTRE


def _keys_cubic(distance: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Keys, "Cubic convolution interpolation for digital image processing", 1981, equation 14, with a = CUBIC_A."""
    a, t = CUBIC_A, np.abs(distance)
    near = (a + 2) * t**3 - (a + 3) * t**2 + 1
    far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


@lru_cache(maxsize=64)
def upsample_taps(num_in: int, num_out: int, first: float = CENTRE) -> tuple[IndexTable, FloatTable]:
    """Four source samples and weights for each output sample, edges repeated.

    Args:
        num_in: chroma samples along the axis.
        num_out: pixels along the axis.
        first: where the first chroma sample lies, CENTRE of its two pixels or at the FIRST_PIXEL.

    Returns:
        int32 (num_out, 4) indices, float32 (num_out, 4) weights that sum to 1.
    """
    centre = (np.arange(num_out) + 0.5) * (num_in / num_out) - first
    taps = np.floor(centre).astype(np.int64)[:, None] + np.arange(-1, 3)
    weights = _keys_cubic(taps - centre[:, None])
    weights /= weights.sum(axis=1, keepdims=True)
    # swscale's border repair gives the weight that output 2 has outside to the second sample, not to the first.
    if num_out > 2 and taps[2, 0] == -1:
        weights[2] += [-weights[2, 0], 0, weights[2, 0], 0]
    return np.clip(taps, 0, num_in - 1).astype(np.int32), weights.astype(np.float32)
