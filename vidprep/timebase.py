"""Ticks and seconds, exactly: integers in `time_base` (seconds per tick) everywhere, floats only at the edge.

Also the timing facts of a video, which are arithmetic over its ticks and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
_T = TypeVar("_T")

#: A delta longer than this many median deltas is a gap.
GAP_FACTOR = 3


def to_seconds(ticks: int | IntArray, time_base: Fraction) -> FloatArray:
    """Ticks as float64 seconds: ticks·num/den, one rounding for the product and one for the quotient."""
    return np.asarray(ticks, dtype=np.float64) * time_base.numerator / time_base.denominator


def parse_time_base(text: str) -> Fraction:
    """A time base from its "num/den" form."""
    num, _, den = text.partition("/")
    return Fraction(int(num), int(den or 1))


def format_time_base(time_base: Fraction) -> str:
    """The "num/den" form, which the index stores."""
    return f"{time_base.numerator}/{time_base.denominator}"


#: From this length on, times on a regular grid are ordered by their place on it instead of by sorting.
_LONG = 2048
_BLOCK = 8192


def presentation_order(pts: IntArray) -> IntArray:
    """int64[n]: rows by ascending time, those of one time in row order."""
    n = len(pts)
    if n >= _LONG and (by_grid := _grid_order(pts)) is not None:
        return by_grid
    return pts.argsort(kind="stable")


def _grid_order(pts: IntArray) -> IntArray | None:
    """The order of times that stand at every place of a regular grid; None if these do not."""
    first, n = int(pts.min()), len(pts)
    step, rest = divmod(int(pts.max()) - first, n - 1)
    if rest or not step:
        return None
    order = np.full(n, -1, np.int64)
    for start in range(0, n, _BLOCK):  # in memory that stays in the cache and is used again
        place = pts[start : start + _BLOCK] - first
        place //= step
        order[place] = np.arange(start, start + len(place))
    return order if order.item(order.argmin()) >= 0 else None  # a place that is left empty: another has two


def unchecked(cls: type[_T], **fields: Any) -> _T:
    """An instance of a frozen dataclass without slots, its fields set at once and not one by one.

    Left out fields keep their defaults, `__post_init__` is not run: for values that are right by construction.
    """
    made = _new(cls)
    _set(made, "__dict__", fields)
    return made


_new, _set = object.__new__, object.__setattr__


def altered(value: _T, **fields: Any) -> _T:
    """As `dataclasses.replace`, for values that `unchecked` may make: a copy with other values in some fields."""
    made = _new(type(value))
    _set(made, "__dict__", value.__dict__ | fields)
    return made


def even_step(pts: IntArray) -> int:
    """Ticks from each time to the next where they are all alike and above 0, else 0."""
    if len(pts) < 2:
        return 0
    step, rest = divmod(int(pts[-1]) - int(pts[0]), len(pts) - 1)
    return step if step > 0 and not rest and _delta_extremes(pts) == (step, step) else 0


@dataclass(frozen=True, kw_only=True)
class TimingFacts:
    """What the presentation times of one video say."""

    duration_seconds: float
    """last pts + its duration − first pts"""
    avg_fps: float
    """(n−1) / (last − first pts); 0.0 where that is undefined"""
    is_vfr: bool
    """deltas differ by more than one tick"""
    vfr_class: str
    """"cfr" (all deltas equal), "quantised_cfr" (differ by at most one tick), "vfr" """
    num_gaps: int
    """deltas longer than GAP_FACTOR medians"""
    num_duplicates: int
    """deltas of zero"""
    num_backward: int
    """deltas below zero"""
    jitter_seconds: float
    """standard deviation of the deltas"""


def timing_facts(pts: IntArray, last_duration_ticks: int, time_base: Fraction) -> TimingFacts:
    """Timing facts of presentation times.

    Args:
        pts: int64[n] ticks in presentation order.
        last_duration_ticks: how long the last frame is shown.
        time_base: seconds per tick.
    """
    count = len(pts) - 1
    if count < 0:
        return TimingFacts(
            duration_seconds=0.0, avg_fps=0.0, is_vfr=False, vfr_class="cfr",
            num_gaps=0, num_duplicates=0, num_backward=0, jitter_seconds=0.0,
        )  # fmt: skip
    tick = time_base.numerator / time_base.denominator
    span = pts.item(-1) - pts.item(0)
    deltas = pts[1:] - pts[:-1] if count < _BLOCK else None
    low, high = (0, 0) if not count else _delta_extremes(pts) if deltas is None else _extremes(deltas)
    spread = high - low
    if deltas is None:
        deltas = pts[1:] - pts[:-1] if spread else pts[:0]
    return unchecked(
        TimingFacts,
        duration_seconds=(span + last_duration_ticks) * tick,
        avg_fps=count / (span * tick) if span > 0 else 0.0,
        is_vfr=spread > 1,
        vfr_class="cfr" if spread == 0 else "quantised_cfr" if spread == 1 else "vfr",
        num_gaps=0 if high <= GAP_FACTOR * low else _num_gaps(deltas, low, high),
        num_duplicates=0 if low > 0 else _num_duplicates(deltas, low, high, count),
        num_backward=0 if low >= 0 else int(np.count_nonzero(deltas < 0)) if spread else count,
        jitter_seconds=_deviation(deltas, span, low, spread) * tick if spread else 0.0,
    )


def _delta_extremes(pts: IntArray) -> tuple[int, int]:
    """Least and greatest step from one time to the next."""
    if len(pts) <= _BLOCK:
        return _extremes(pts[1:] - pts[:-1])
    parts = [
        _extremes(pts[start + 1 : start + _BLOCK + 1] - pts[start : min(start + _BLOCK, len(pts) - 1)])
        for start in range(0, len(pts) - 1, _BLOCK)
    ]
    return min(low for low, _ in parts), max(high for _, high in parts)


def _extremes(values: IntArray) -> tuple[int, int]:
    return values.item(values.argmin()), values.item(values.argmax())


def _num_duplicates(deltas: IntArray, low: int, high: int, count: int) -> int:
    if high < 0:
        return 0
    return count if low == high else int(np.count_nonzero(deltas == 0))


def _num_gaps(deltas: IntArray, low: int, high: int) -> int:
    if high <= GAP_FACTOR * max(low, 1):  # the median lies between them
        return 0
    return int(np.count_nonzero(deltas > GAP_FACTOR * max(float(np.median(deltas)), 1.0)))


def _deviation(deltas: IntArray, span: int, low: int, spread: int) -> float:
    """Standard deviation of deltas whose sum is `span`, from exact sums: of the deltas, or how far they are above one.

    n·Σ(d−a)² − (Σ(d−a))² is the same for every a.
    """
    count = len(deltas)
    total = span - count * low
    if total == spread:  # one step is longer than the others
        return spread * math.sqrt(count - 1) / count
    if spread == 1:
        squares = total
    elif spread * spread * count >= _EXACT:
        return float(deltas.std())
    elif max(low + spread, -low) ** 2 * count < _EXACT:
        total, squares = span, int(deltas.dot(deltas))
    else:
        squared = deltas - low
        squares = int(squared.dot(squared))
    return math.sqrt(count * squares - total * total) / count


#: Sums below it are exact in int64.
_EXACT = 1 << 62
