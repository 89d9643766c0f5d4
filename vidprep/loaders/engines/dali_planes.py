"""From DALI's RGB back to the pictures that were decoded, as far as one byte a channel allows.

`fn.decoders.video` gives RGB only: by the BT.601 matrix, with chroma interpolated linearly between samples in the
middle of their 2x2 pixels (on the CPU swscale's bilinear+accurate_rnd+full_chroma_int, on a GPU DALI's own kernel:
dali/operators/video/color_space.cu). That is a linear map of more numbers than samples, so that least squares undoes
it, up to rounding, and the true samples are the nearest integers. The GPU kernel's constants are rounded to three
digits and its zeros are 1/16 and 1/2 of 255: half a level off in chroma.

What a channel cut off at 0 or 255 is lost, and then another decoder is needed. That is so for one such pixel in the
picture, and a looser rule does not pay: cut-off channels lie side by side, in areas whose colour RGB cannot hold, where
each pixel tells one of the two dimensions of chroma and no more. Taking a cut-off channel for a bound, and giving up only
where a chroma sample has less than two whole pixels of its own four, gave 3 of 97 such pictures of real files, at twice
the time for all; with less than that, samples are no longer determined.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from vidprep.loaders.colour import Conversion, conversion

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.timebase import IntArray

    Plane = npt.NDArray[np.uint8]
    Floats = npt.NDArray[np.float32]

#: What DALI's GPU kernel converts with, by range (dali/kernels/imgproc/color_manipulation/,
#: color_space_conversion_impl.h, itu_r_bt_601 and jpeg).
GPU_CONVERSIONS = {
    "limited": Conversion(
        np.array([[1.164, 0, 1.596], [1.164, -0.392, -0.813], [1.164, 2.017, 0]], np.float32),
        np.array([255 / 16, 127.5, 127.5], np.float32),
    ),
    "full": Conversion(
        np.array([[1, 0, 1.402], [1, -0.34413629, -0.71413629], [1, 1.772, 0]], np.float32),
        np.array([0, 127.5, 127.5], np.float32),
    ),
}


#: RGB is this near to what the samples give; swscale's fixed-point sums add to the half level of rounding.
ROUNDING_LEVELS = 0.505

#: Samples that were rounded to the wrong integers are put right round after round: by moves within square blocks of so
#: many a side, of so many samples at most.
ROUNDS = ((1, 1), (1, 1), (2, 2), (2, 4), (3, 3))

#: By side: where a larger share of blocks does not fit, RGB was not made from samples as is thought here, and looking
#: further would be long and vain.
MAX_MISFITS = {1: 0.1, 2: 0.05, 3: 0.005}
FEW_BLOCKS = 100
#: Numbers that are worked on at a time.
MAX_NUMBERS = 20_000_000


def planes_of(rgb: Plane, colour_range: str | None, *, device: str) -> tuple[Plane, Plane, Plane] | None:
    """Y (H, W), Cb and Cr (H/2, W/2) of one picture (H, W, 3) that DALI converted.

    Args:
        rgb: uint8 picture.
        colour_range: the range by which it was converted; None = limited.
        device: "cpu", or where else it was converted.

    Returns:
        samples that give each pixel of the picture; None where none are found, where channels were cut off, so that
        many samples may give it, and for odd sizes, whose chroma swscale spreads in its own way.
    """
    if rgb.min() == 0 or rgb.max() == 255 or rgb.shape[0] % 2 or rgb.shape[1] % 2:
        return None
    table = conversion("bt601", colour_range) if device == "cpu" else GPU_CONVERSIONS[colour_range or "limited"]
    inverse = np.linalg.inv(table.matrix.astype(np.float64)).astype(np.float32)
    rows, columns = (_upsampling(n) for n in rgb.shape[:2])
    ycc = rgb.astype(np.float32) @ inverse.T
    chroma = np.einsum("ih,hwc,jw->ijc", rows.inverse, ycc[..., 1:], columns.inverse, optimize=True) + table.offset[1:]
    chroma = np.rint(chroma)
    spread = np.einsum("hi,ijc,wj->hwc", rows.matrix, chroma - table.offset[1:], columns.matrix, optimize=True)
    rest = rgb - spread @ table.matrix[:, 1:].T + table.matrix[0, 0] * table.offset[0]
    for side, num_samples in ROUNDS:
        if not _misfit(rest, table).any():
            break
        _repair(chroma, rest, table, (rows.blocks(side), columns.blocks(side)), _moves(side, num_samples))
    if _misfit(rest, table).any() or chroma.min() < 0 or chroma.max() > 255:
        return None
    return _luma(rest, table).astype(np.uint8), chroma[..., 0].astype(np.uint8), chroma[..., 1].astype(np.uint8)


def _luma(rest: Floats, table: Conversion) -> Floats:
    """The whole luma that explains best what chroma leaves over in the three channels of each pixel."""
    middle = (rest.max(-1) + rest.min(-1)) / 2
    luma: Floats = np.clip(np.rint(middle / table.matrix[0, 0]), 0, 255)
    return luma


def _misfit(rest: Floats, table: Conversion) -> Floats:
    """By how much each pixel is further than rounding from what its samples would give."""
    beyond = np.abs(rest - table.matrix[0, 0] * _luma(rest, table)[..., None]).max(-1) - ROUNDING_LEVELS
    misfit: Floats = np.maximum(beyond, 0)
    return misfit


def _repair(chroma: Floats, rest: Floats, table: Conversion, axes: tuple[_Blocks, _Blocks], moves: Floats) -> None:
    """Move chroma samples, in place, where that explains the pixels around them better.

    Blocks that share no pixel are moved at once.
    """
    rows, columns = axes
    apart = rows.side + 2
    misfit = _misfit(rest, table) > 0
    places = np.argwhere(rows.reaching.T @ misfit.astype(np.float32) @ columns.reaching > 0)
    if len(places) > max(FEW_BLOCKS, MAX_MISFITS[rows.side] * chroma.size / 2):
        return
    levels = moves @ table.matrix[:, 1:].T
    at_once = max(MAX_NUMBERS // (len(moves) * 3 * rows.pixels.shape[1] ** 2), 1)
    for colour in range(apart**2):
        here = places[places[:, 0] % apart * apart + places[:, 1] % apart == colour]
        for start in range(0, len(here), at_once):
            i, j = here[start : start + at_once].T
            best = _best_moves(rest, table, (rows, columns), (i, j), levels)
            for a, b in np.ndindex(rows.side, rows.side):
                there = np.minimum(i + a, len(chroma) - 1), np.minimum(j + b, chroma.shape[1] - 1)
                np.add.at(chroma, there, moves[best, a, b])


def _best_moves(
    rest: Floats, table: Conversion, axes: tuple[_Blocks, _Blocks], places: tuple[IntArray, IntArray], levels: Floats
) -> IntArray:
    """Which of the moves fits each block best; `rest` follows, in place."""
    (rows, columns), (i, j) = axes, places
    pixels = rows.pixels[i][:, :, None], columns.pixels[j][:, None, :]
    change = np.einsum("nah,nbw,mabc->mnhwc", rows.weights[i], columns.weights[j], levels, optimize=True)
    inside = rows.inside[i][:, :, None] & columns.inside[j][:, None, :]
    cost = (_misfit(rest[pixels] - change, table) ** 2 * inside).sum((2, 3))
    best: IntArray = cost.argmin(0)
    np.subtract.at(rest, pixels, change[best, np.arange(len(i))])
    return best


@lru_cache(maxsize=8)
def _moves(side: int, num_samples: int) -> Floats:
    """float32 (m, side, side, 2): steps of (Cb, Cr) of the samples of a block, the first of which is none.

    By one up or down, of up to `num_samples` samples: in Cb alone, in Cr alone, or in both alike or oppositely.
    """
    signs = []
    for count in range(1, num_samples + 1):
        for cells in combinations(range(side * side), count):
            for steps in product((-1, 1), repeat=count):
                sign = np.zeros(side * side)
                sign[list(cells)] = steps
                signs.append(sign.reshape(side, side, 1))
    moves = [np.stack(signs) * np.array(step) for step in ((1, 0), (0, 1), (1, 1), (1, -1))]
    return np.concatenate((np.zeros((1, side, side, 2)), *moves)).astype(np.float32)


class _Blocks:
    """Runs of `side` samples along an axis, by the first, and the pixels that they reach."""

    def __init__(self, matrix: Floats, side: int) -> None:
        num_out, num_in = matrix.shape
        self.side = side
        self.reaching = (matrix > 0).astype(np.float32)
        reached = (matrix > 0).argmax(0)[:, None] + np.arange(2 * side + 2)
        self.inside = reached < num_out
        self.pixels = np.minimum(reached, num_out - 1)
        samples = np.arange(num_in)[:, None] + np.arange(side)
        padded = np.pad(matrix, ((0, 0), (0, side)))
        self.weights = padded[self.pixels[:, None, :], samples[:, :, None]] * self.inside[:, None, :]


class _Upsampling:
    """An axis: samples to pixels, and back by least squares."""

    def __init__(self, matrix: npt.NDArray[np.float64]) -> None:
        self.matrix = matrix.astype(np.float32)
        self.inverse = np.linalg.pinv(matrix).astype(np.float32)
        self._blocks: dict[int, _Blocks] = {}

    def blocks(self, side: int) -> _Blocks:
        """Its runs of samples."""
        if side not in self._blocks:
            self._blocks[side] = _Blocks(self.matrix, side)
        return self._blocks[side]


@lru_cache(maxsize=16)
def _upsampling(num_out: int) -> _Upsampling:
    num_in = (num_out + 1) // 2
    centre = (np.arange(num_out) + 0.5) * num_in / num_out - 0.5
    first = np.floor(centre).astype(np.int64)
    share = centre - first
    matrix = np.zeros((num_out, num_in))
    for shift, weight in ((0, 1 - share), (1, share)):
        np.add.at(matrix, (np.arange(num_out), np.clip(first + shift, 0, num_in - 1)), weight)
    return _Upsampling(matrix)


def _bytes(plane: Floats) -> Plane:
    return np.clip(np.rint(plane), 0, 255).astype(np.uint8)
