"""Pictures resized after decoding: one definition for all engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import DecodeError

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.loaders.cut import Cut
    from vidprep.loaders.engines import Engine


def resized(picture: npt.NDArray[Any], size: tuple[int, int]) -> npt.NDArray[Any]:
    """An RGB picture (H, W, 3) at another (height, width), by Pillow's bicubic filter, which averages when shrinking."""
    from PIL import Image

    height, width = size
    if picture.shape[:2] == (height, width):
        return picture
    if picture.dtype == np.uint8:
        return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))
    # Pillow has no colour images of 16 bits.
    out = np.empty((height, width, 3), picture.dtype)
    for channel in range(3):
        floats = Image.fromarray(picture[..., channel].astype(np.float32)).resize(
            (width, height), Image.Resampling.BICUBIC
        )  # fmt: skip
        out[..., channel] = np.clip(np.rint(np.asarray(floats)), 0, np.iinfo(picture.dtype).max)
    return out


class ResizingEngine:
    """Another engine's pictures, resized. Clips that it cannot decode, as those whose size changes, go to the cpu engine.

    Args:
        engine: decodes; closed with this one.
        size: (height, width) of what comes out.
        colour_default: for the cpu engine.
    """

    def __init__(self, engine: Engine, size: tuple[int, int], *, colour_default: str | None = None) -> None:
        self.name, self.dtype = engine.name, getattr(engine, "dtype", "uint8")
        self._engine, self._size, self._colour_default = engine, size, colour_default

    def decode(self, cut: Cut) -> Any:
        """As the engine's, as numpy (len(cut.frames), height, width, 3)."""
        try:
            pictures = self._engine.decode(cut)
        except DecodeError:
            from vidprep.loaders.engines.cpu import CpuEngine

            return CpuEngine(size=self._size, dtype=self.dtype, colour_default=self._colour_default).decode(cut)
        pictures = pictures if isinstance(pictures, np.ndarray) else np.asarray(pictures.cpu())
        out = np.empty((len(pictures), *self._size, 3), self.dtype)
        for place, picture in enumerate(pictures):
            out[place] = resized(picture, self._size)
        return out

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
