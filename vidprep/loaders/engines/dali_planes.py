"""From DALI's RGB back to the pictures that were decoded, as far as one byte a channel allows.

`fn.decoders.video` gives RGB only: by the BT.601 matrix, with chroma interpolated linearly between samples in the
middle of their 2x2 pixels (on the CPU swscale's bilinear+accurate_rnd+full_chroma_int, on a GPU DALI's own kernel:
dali/operators/video/color_space.cu). That is a linear map of more numbers than samples, so that least squares undoes
it, up to rounding, and the true samples are the nearest integers. The GPU kernel's constants are rounded to three
digits and its zeros are 1/16 and 1/2 of 255: half a level off in chroma.

What a channel cut off at 0 or 255 is lost. Where that is so next to another colour, chroma can only be estimated: in
test patterns of saturated colours, half of whose values are cut off, 0.2 to 1.2 % of the RGB values then differ by more
than 2 levels, up to 30; in camera clips 0.04 to 0.41 %. (Of DALI's GPU conversion simulated on a CPU.)
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from vidprep.loaders.colour import Conversion, conversion

if TYPE_CHECKING:
    import numpy.typing as npt

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

#: Changes below this end the rounds.
SETTLED_LEVELS = 0.25
#: Rounds in which channels that were cut off at 0 or 255 take what the others say.
CLIPPING_ROUNDS = 12


def planes_of(rgb: Plane, colour_range: str | None, *, device: str) -> tuple[Plane, Plane, Plane]:
    """Y (H, W), Cb and Cr (H/2, W/2, rounded up) of one picture (H, W, 3) that DALI converted.

    Args:
        rgb: uint8 picture.
        colour_range: the stream's; None = limited.
        device: "cpu", or where else it was converted.
    """
    table = conversion("bt601", colour_range) if device == "cpu" else GPU_CONVERSIONS[colour_range or "limited"]
    inverse = np.linalg.inv(table.matrix.astype(np.float64)).astype(np.float32)
    rows, columns = (_upsampling(n) for n in rgb.shape[:2])
    zeros = table.offset[1:]
    levels = rgb.astype(np.float32)
    for _ in range(CLIPPING_ROUNDS):
        ycc = levels @ inverse.T
        chroma = _bytes(np.einsum("ih,hwc,jw->ijc", rows.inverse, ycc[..., 1:], columns.inverse, optimize=True) + zeros)
        spread = np.einsum("hi,ijc,wj->hwc", rows.matrix, chroma - zeros, columns.matrix, optimize=True)
        luma = (levels - spread @ table.matrix[:, 1:].T).mean(-1) / table.matrix[0, 0]
        found = _beyond_the_cut(rgb, np.concatenate((luma[..., None], spread), -1) @ table.matrix.T)
        if np.abs(found - levels).max() < SETTLED_LEVELS:
            break
        levels = found
    return _bytes(luma + table.offset[0]), chroma[..., 0], chroma[..., 1]


class _Upsampling:
    """An axis: samples to pixels, and back by least squares."""

    def __init__(self, matrix: npt.NDArray[np.float64]) -> None:
        self.matrix = matrix.astype(np.float32)
        self.inverse = np.linalg.pinv(matrix).astype(np.float32)


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


def _beyond_the_cut(rgb: Plane, predicted: Floats) -> Floats:
    """The picture's levels, but what is predicted where they were cut off and the prediction lies beyond."""
    levels: Floats = rgb.astype(np.float32)
    beyond = ((rgb == 0) & (predicted < 0)) | ((rgb == 255) & (predicted > 255))
    return np.where(beyond, predicted, levels)


def _bytes(plane: Floats) -> Plane:
    return np.clip(np.rint(plane), 0, 255).astype(np.uint8)
