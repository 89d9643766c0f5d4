"""Times to frames, exactly: asked times become rational ticks, pts never become floats.

Frame i of a range is shown from pts[i] until pts[i + 1], the last one for its own duration. Of frames with the same pts
the last is shown (the others for no time at all). A range whose times fall has no answer to "which frame is shown".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers import checks

if TYPE_CHECKING:
    from vidprep.records import Timeline
    from vidprep.timebase import IntArray

__all__ = ["Clock", "Grid", "Seconds", "clock_of", "frames_between"]

#: A float is taken to mean the shortest decimal that is this float, and the pts whose float it is.
Seconds = float | int | str | Fraction
#: Products up to here are safe in int64.
SAFE = 1 << 62
#: Times further out are no times (73 years in nanoseconds); sums of two stay inside int64.
FAR = 1 << 61


@dataclass(frozen=True, slots=True)
class Grid:
    """Times (first + k·step)/den ticks, k = 0 .. count−1, step >= 0; all ints, so that no time is rounded."""

    first: int
    step: int
    den: int
    count: int

    @classmethod
    def of(cls, ticks: Fraction) -> Grid:
        """One time."""
        return cls(ticks.numerator, 0, ticks.denominator, 1)

    @property
    def last(self) -> int:
        """Numerator of the last time."""
        return self.first + (self.count - 1) * self.step

    def whole(self) -> IntArray:
        """int64[count]: the times rounded down, at most ±SAFE."""
        return _floor_div(self.numerators(), self.den)

    def numerators(self, factor: int = 1) -> IntArray:
        """First + k·step, times `factor`: int64, or Python ints in an object array where int64 is too small."""
        k = np.arange(self.count)
        if factor * (abs(self.first) + self.count * self.step) >= SAFE:
            k = k.astype(object)
        return factor * (self.first + k * self.step)


def _floor_div(numerators: IntArray, den: int) -> IntArray:
    quotient = numerators // den
    if quotient.dtype == np.int64:
        return quotient
    return np.clip(quotient, -SAFE, SAFE).astype(np.int64)  # no pts lies that far out


@dataclass(frozen=True, slots=True)
class Clock:
    """The times of frames low .. high−1, in ticks."""

    pts: IntArray
    """int64[high − low], never falling"""
    low: int
    end: int
    """tick at which the last of them stops being shown; above pts[-1]"""
    time_base: Fraction

    @property
    def first(self) -> int:
        """Tick at which the first of them is shown."""
        return int(self.pts[0])

    @property
    def duration(self) -> int:
        """Ticks from the first frame's start to the last one's end; > 0."""
        return self.end - self.first

    def grid(self, origin: Fraction | int, fps: Fraction, count: int) -> Grid:
        """`count` times from tick `origin`, 1/fps seconds apart."""
        step, den = fps.denominator * self.time_base.denominator, fps.numerator * self.time_base.numerator
        common, scale = math.gcd(step, den), origin.denominator
        step, den = step // common, den // common
        return Grid(origin.numerator * den, step * scale, den * scale, count)

    def ticks(self, time_seconds: Fraction) -> Fraction:
        """A presentation time in ticks; exactly a frame's pts where it is that pts as float64 or float32."""
        exact = time_seconds / self.time_base
        after = int(np.searchsorted(self.pts, math.floor(exact), side="right"))
        for near in self.pts[max(after - 1, 0) : after + 1].tolist():
            if _is_float_of(time_seconds, near * self.time_base):
                return Fraction(near)
        return exact

    def first_at_or_after(self, time_seconds: Fraction | float) -> int:
        """The first frame with pts >= a time; `high` if there is none. Infinities mean the ends."""
        if isinstance(time_seconds, float):
            return self.low if time_seconds < 0 else self.low + len(self.pts)
        ticks = math.ceil(self.ticks(time_seconds))
        return self.low + int(np.searchsorted(self.pts, ticks, side="left"))

    def places(self, grid: Grid, rule: str) -> IntArray:
        """int64[count]: frame of each time of the grid; outside [low, high) where the time is.

        Past its ends the range is thought to go on at its average rate, so that every padding has something to fold.

        Args:
            grid: times in ticks.
            rule: "shown" (the frame on screen), "nearest" (earlier one of a tie), "after" (first at or after).
        """
        if rule == "shown":
            inner = self.pts.searchsorted(grid.whole(), side="right") - 1
        elif rule == "after":
            inner = self.pts.searchsorted(-_floor_div(-grid.numerators(), grid.den), side="left")
        else:
            middles = self.pts[1:] + self.pts[:-1]
            inner = middles.searchsorted(-_floor_div(-grid.numerators(2), grid.den), side="left")
        if not self.holds(grid, rule):
            wanted = grid.numerators()
            begins, ends = self._bounds(grid, rule)
            outside = (wanted < begins) | (wanted >= ends)
            inner = np.where(outside, self._beyond(grid, rule), np.minimum(inner, len(self.pts) - 1))
        return self.low + inner.astype(np.int64, copy=False)

    def holds(self, grid: Grid, rule: str) -> bool:
        """Whether every time of the grid has a frame."""
        begins, ends = self._bounds(grid, rule)
        return begins <= grid.first and grid.last < ends

    def _bounds(self, grid: Grid, rule: str) -> tuple[int, int]:
        """Numerators from and below which a time has a frame."""
        if rule == "after":  # whatever comes before the first frame waits for it
            return min(grid.first, self.first * grid.den), int(self.pts[-1]) * grid.den + 1
        return self.first * grid.den, self.end * grid.den

    def _beyond(self, grid: Grid, rule: str) -> IntArray:
        """Frame numbers of a video that goes on at the average rate, n frames to `duration` ticks."""
        n = len(self.pts)
        steps = Grid((grid.first - self.first * grid.den) * n, grid.step * n, grid.den * self.duration, grid.count)
        whole = _floor_div(steps.numerators(), steps.den)
        if rule == "shown":
            return np.where(whole >= 0, np.maximum(whole, n), whole)
        if rule == "after":
            return np.maximum(-_floor_div(-steps.numerators(), steps.den), n)
        nearest = -_floor_div(steps.den - steps.numerators(2), 2 * steps.den)
        return np.where(whole >= 0, np.maximum(nearest, n), nearest)  # reaches half a frame to the front


def _is_float_of(asked: Fraction, exact: Fraction) -> bool:
    """Whether `asked` is what is left of `exact` seconds after a trip through float64 or float32."""
    if asked == exact or abs(asked - exact) <= abs(exact) / (1 << 51):
        return True
    single = np.float32(float(asked))
    came_as_single = float(single) == float(asked) or Fraction(str(single)) == asked
    return came_as_single and single == np.float32(float(exact))


def clock_of(timeline: Timeline, low: int, high: int) -> Clock:
    """The clock of frames low .. high−1 (low < high).

    Raises:
        SamplingError: their times fall somewhere.
    """
    pts = timeline.pts[low:high]
    falls = pts[1:] < pts[:-1]
    if np.count_nonzero(falls):
        at = low + 1 + int(falls.argmax())
        raise SamplingError(f"frame {at} is shown before frame {at - 1}: times that fall choose no frames; use indices")
    if int(pts[0]) < -FAR or int(pts[-1]) > FAR:
        raise SamplingError(f"frames are shown from tick {pts[0]} to {pts[-1]}: expected times within ±{FAR}")
    if high < timeline.num_frames:
        end = int(timeline.pts[high])
    else:
        end = int(pts[-1]) + (timeline.last_duration_ticks or _mean_delta(pts))
    return Clock(pts, low, max(end, int(pts[-1]) + 1), timeline.time_base)


def _mean_delta(pts: IntArray) -> int:
    """Stands for the duration of a last frame whose container does not tell it."""
    return round((int(pts[-1]) - int(pts[0])) / max(len(pts) - 1, 1))


def frames_between(timeline: Timeline, start_seconds: Seconds | None, end_seconds: Seconds | None) -> tuple[int, int]:
    """First frame and one past the last with start_seconds <= pts < end_seconds (None = open); (a, a) if there is none.

    Times are presentation times, as `Timeline.pts_seconds` counts them (a stream may start at 7 s).

    Raises:
        SamplingError: a time is no number, the end lies before the start, or the video's times fall.
    """
    low = -math.inf if start_seconds is None else checks.seconds("range", "start_seconds", start_seconds)
    high = math.inf if end_seconds is None else checks.seconds("range", "end_seconds", end_seconds)
    if high < low:
        raise SamplingError(f"range: end_seconds={end_seconds!r}: expected a time not before {start_seconds!r}")
    if timeline.num_frames == 0:
        return 0, 0
    clock = clock_of(timeline, 0, timeline.num_frames)
    return clock.first_at_or_after(low), clock.first_at_or_after(high)
