"""Pictures to RGB by swscale, with the matrix and range that the stream states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from av.video.reformatter import Colorspace, Interpolation, VideoReformatter

from vidprep.errors import DecodeError

if TYPE_CHECKING:
    import numpy.typing as npt

#: The conversion that every engine is held to.
RGB_FLAGS = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT

#: AVColorSpace (ITU-T H.273 MatrixCoefficients) values that swscale converts with the right coefficients;
#: 0 = RGB, 2 = unspecified, 3 = reserved, which are untagged.
SUPPORTED_MATRICES = frozenset({0, 1, 2, 3, 4, 5, 6, 7, 9})
UNTAGGED = frozenset({2, 3})

DEFAULT_MATRICES = {
    "bt601": Colorspace.ITU601,
    "bt709": Colorspace.ITU709,
    "bt2020": Colorspace.BT2020,
}


class RgbConverter:
    """Frames to RGB uint8 (H, W, 3); not for several threads at once.

    Args:
        size: (height, width) to resize to, by swscale's bicubic filter; None = as they are.
        colour_default: matrix of untagged pictures, a key of DEFAULT_MATRICES; None = "bt601".
    """

    def __init__(self, *, size: tuple[int, int] | None = None, colour_default: str | None = None) -> None:
        self._size = size
        self._default = DEFAULT_MATRICES[colour_default or "bt601"]
        self._to_planes, self._to_rgb = VideoReformatter(), VideoReformatter()

    def __call__(self, frame: Any) -> npt.NDArray[np.uint8]:
        """Raises DecodeError for a matrix that swscale does not know."""
        if frame.colorspace not in SUPPORTED_MATRICES:
            raise DecodeError(f"colour matrix {frame.colorspace} (ITU-T H.273) is not supported")
        height, width = self._size or (frame.height, frame.width)
        if frame.format.is_rgb or len(frame.format.components) < 3:
            return _pixels(self._to_rgb.reformat(frame, width, height, "rgb24", interpolation=RGB_FLAGS, threads=1))
        # To planes first: the same sums, which swscale has in SIMD only for planar output (5x faster, bit for bit equal).
        planes = self._to_planes.reformat(
            frame,
            width,
            height,
            "gbrp",
            src_colorspace=self._default if frame.colorspace in UNTAGGED else None,
            interpolation=RGB_FLAGS,
            threads=1,
        )
        return _pixels(self._to_rgb.reformat(planes, format="rgb24", interpolation=RGB_FLAGS, threads=1))


def _pixels(frame: Any) -> npt.NDArray[np.uint8]:
    """A view of an rgb24 frame's pixels, without the padding at the end of its lines."""
    plane = frame.planes[0]
    lines = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: frame.height]
    return lines[:, : frame.width * 3].reshape(frame.height, frame.width, 3)
