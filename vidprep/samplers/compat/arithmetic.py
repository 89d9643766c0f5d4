"""The number tricks of the peers' libraries, which decide between neighbouring frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vidprep.samplers.draws import Draw, word

if TYPE_CHECKING:
    from vidprep.timebase import FloatArray, IntArray

__all__ = ["integers", "linspace_f32", "linspace_int", "linspace_np", "uniform_int", "uniform_real"]


def linspace_f32(first: float, last: float, count: int) -> FloatArray:
    """torch.linspace of float32: step in float32, the second half counted back from `last`."""
    a, b = np.float32(first), np.float32(last)
    if count == 1:
        return np.array([a], dtype=np.float64)
    i = np.arange(count, dtype=np.float32)
    step = np.float32((b - a) / np.float32(count - 1))
    values = np.where(i < count // 2, a + step * i, b - step * (np.float32(count - 1) - i))
    return values.astype(np.float64)  # exact; the values stay those of float32


def linspace_int(first: int, last: int, count: int) -> IntArray:
    """torch.linspace(dtype=int64): as above with a float64 step, truncated."""
    if count == 1:
        return np.array([first], dtype=np.int64)
    i, step = np.arange(count), (last - first) / (count - 1)
    return np.where(i < count // 2, first + step * i, last - step * (count - 1 - i)).astype(np.int64)


def linspace_np(first: float, last: float, count: int) -> FloatArray:
    """np.linspace: float64, one-sided."""
    return np.linspace(first, last, count)


def integers(values: FloatArray) -> IntArray:
    """Truncated, as `.long()`, `int()` and `astype(int)` do."""
    return values.astype(np.int64)


def uniform_int(draw: Draw, low: int, high: int, lane: int = 0) -> int:
    """Uniform in low .. high, both included."""
    return low + draw.below(high - low + 1, lane)


def uniform_real(draw: Draw, low: float, high: float, lane: int = 0) -> float:
    """Uniform in [low, high), 53 bits."""
    return low + (high - low) * ((word(draw.state, lane) >> 11) / (1 << 53))
