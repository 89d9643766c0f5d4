"""What decoded pictures show: luma thumbnails, and stretches that are black, blank or frozen."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from vidprep.timebase import FloatArray
    from vidprep.validation.rules import Thresholds

    Luma = npt.NDArray[np.uint8]

__all__ = ["SIDE", "Stretch", "Stretches", "thumbnails"]

SIDE = 32
#: Pixels that a thumbnail's pixel is the mean of, in each direction.
TAPS = 4
#: Shortest run that counts where it fills a sampled clip.
MIN_CLIP_FRAMES = 8


@lru_cache(maxsize=1024)
def _grid(num_pixels: int) -> tuple[int, ...]:
    """Places of the pixels that are looked at, along one side of a picture."""
    num = SIDE * TAPS
    return tuple((2 * i + 1) * num_pixels // (2 * num) for i in range(num))


def _pixels_at(pictures: Any, rows: tuple[int, ...], columns: tuple[int, ...]) -> Any:
    return pictures[:, rows][:, :, columns]


def thumbnails(pictures: Any, pixels_at: Callable[[Any, tuple[int, ...], tuple[int, ...]], Any] = _pixels_at) -> Luma:
    """uint8 (F, 32, 32) luma of uint8 (F, H, W, 3) RGB pictures: means of a grid of 128 x 128 pixels.

    Takes numpy arrays, and torch tensors with a `pixels_at` for them (only `.reshape` and `.sum` are asked of what it
    gives), so that pictures on a GPU are reduced there: `pixels_at(pictures, rows, columns)` is (F, rows, columns, 3).
    Luma is (77 R + 150 G + 29 B) / 256, ITU-R BT.601-7 2.5.1 in 8-bit integers.
    """
    _, height, width, _ = pictures.shape
    taken = pixels_at(pictures, _grid(height), _grid(width)).reshape(-1, SIDE, TAPS, SIDE, TAPS, 3).sum((2, 4))
    sums = np.asarray(taken if isinstance(taken, np.ndarray) else taken.cpu()).astype(np.int64)
    luma: Luma = ((sums @ np.array([77, 150, 29])) // (256 * TAPS * TAPS)).astype(np.uint8)
    return luma


class Stretch(NamedTuple):
    """A run of frames that show nothing of use."""

    check: str
    first: int
    last: int
    seconds: float


class Stretches:
    """Finds stretches among frames as they are decoded; keeps one thumbnail.

    Args:
        thresholds: what black, blank and frozen mean, and how long a stretch must last.
        pts_seconds: float64[num_frames]: when each frame is shown.
        end_seconds: when the last one ends.
    """

    def __init__(self, thresholds: Thresholds, pts_seconds: FloatArray, end_seconds: float) -> None:
        self._limits, self._times = thresholds, np.append(pts_seconds, end_seconds)
        self._least = {
            "black": thresholds.black_seconds,
            "blank": thresholds.blank_seconds,
            "frozen": thresholds.frozen_seconds,
        }
        self._since: dict[str, int] = {}
        self._run_start = self._frame = -1
        self._luma: Any = None

    def feed(self, frame: int, luma: Luma) -> Iterator[Stretch]:
        """Take the next decoded frame; gives stretches that ended before it."""
        if frame != self._frame + 1 or self._luma is None:
            yield from self.finish()
            self._run_start = frame
        states = self._states(luma)
        for check in [check for check in self._since if check not in states]:
            yield from self._ended(check)
        for check in states:
            # What is frozen began with the frame that this one repeats.
            self._since.setdefault(check, frame - 1 if check == "frozen" else frame)
        self._frame, self._luma = frame, luma

    def finish(self) -> Iterator[Stretch]:
        """No neighbour follows: gives the stretches that are still open."""
        for check in list(self._since):
            yield from self._ended(check, run_ends=True)
        self._luma = None

    def _states(self, luma: Luma) -> tuple[str, ...]:
        values = luma.ravel().astype(np.float64)
        mean = float(values.sum()) / len(values)
        deviation = math.sqrt(max(float(values @ values) / len(values) - mean * mean, 0.0))
        if mean < self._limits.black_luma and deviation < self._limits.black_luma / 2:
            return ("black",)
        if deviation < self._limits.blank_deviation:
            return ("blank",)
        if (
            self._luma is not None
            and np.abs(values - self._luma.ravel()).sum() / len(values) < self._limits.frozen_difference
        ):
            return ("frozen",)
        return ()

    def _ended(self, check: str, *, run_ends: bool = False) -> Iterator[Stretch]:
        first, last = self._since.pop(check), self._frame
        seconds = float(self._times[last + 1] - self._times[first])
        fills = run_ends and first == self._run_start and last - first + 1 >= MIN_CLIP_FRAMES
        if seconds >= self._least[check] or fills:
            yield Stretch(check, first, last, seconds)
