"""From DALI's RGB back to the pictures that were decoded, as far as one byte a channel allows.

`fn.decoders.video` gives RGB only: by the BT.601 matrix, with chroma interpolated linearly on the CPU (swscale's
bilinear+accurate_rnd+full_chroma_int) and repeated over 2x2 pixels on a GPU. Both are linear maps of more numbers than
samples, so that least squares undoes them, up to rounding, and the true samples are the nearest integers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from vidprep.loaders.colour import conversion

if TYPE_CHECKING:
    import numpy.typing as npt

    Plane = npt.NDArray[np.uint8]
    Floats = npt.NDArray[np.float32]

#: Rounds in which channels that were cut off at 0 or 255 take what the others say.
CLIPPING_ROUNDS = 3


def planes_of(rgb: Plane, colour_range: str | None, *, device: str) -> tuple[Plane, Plane, Plane]:
    """Y (H, W), Cb and Cr (H/2, W/2, rounded up) of one picture (H, W, 3) that DALI converted.

    Args:
        rgb: uint8 picture.
        colour_range: the stream's; None = limited.
        device: "cpu", or where else it was converted.
    """
    table = conversion("bt601", colour_range)
    inverse = np.linalg.inv(table.matrix.astype(np.float64)).astype(np.float32)
    rows, columns = (_upsampling(n, is_linear=device == "cpu") for n in rgb.shape[:2])
    levels = rgb.astype(np.float32)
    for _ in range(CLIPPING_ROUNDS):
        ycc = levels @ inverse.T
        chroma = np.rint(np.einsum("ih,hwc,jw->ijc", rows.inverse, ycc[..., 1:], columns.inverse, optimize=True))
        spread = np.einsum("hi,ijc,wj->hwc", rows.matrix, chroma, columns.matrix, optimize=True)
        luma = (levels - spread @ table.matrix[:, 1:].T).mean(-1) / table.matrix[0, 0]
        levels = _beyond_the_cut(rgb, np.concatenate((luma[..., None], spread), -1) @ table.matrix.T)
    return _bytes(luma + table.offset[0]), _bytes(chroma[..., 0] + 128), _bytes(chroma[..., 1] + 128)


class _Upsampling:
    """An axis: samples to pixels, and back by least squares."""

    def __init__(self, matrix: npt.NDArray[np.float64]) -> None:
        self.matrix = matrix.astype(np.float32)
        self.inverse = np.linalg.pinv(matrix).astype(np.float32)


@lru_cache(maxsize=16)
def _upsampling(num_out: int, *, is_linear: bool) -> _Upsampling:
    num_in = (num_out + 1) // 2
    centre = (np.arange(num_out) + 0.5) * num_in / num_out - 0.5
    first = np.floor(centre).astype(np.int64) if is_linear else np.arange(num_out) // 2
    share = centre - first if is_linear else np.zeros(num_out)
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
