"""Times to frames, exactly: asked times become rational ticks, pts never become floats.

Frame i of a range is shown from pts[i] until pts[i + 1], the last one for its own duration. Of frames with the same pts
the last is shown (the others for no time at all). A range whose times fall has no answer to "which frame is shown".
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers import checks
from vidprep.samplers.draws import FEW

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


class Grid(NamedTuple):
    """Times (first + k·step)/den ticks, k = 0 .. num−1, step >= 0; all ints, so that no time is rounded."""

    first: int
    step: int
    den: int
    num: int

    @classmethod
    def of(cls, ticks: Fraction) -> Grid:
        """One time."""
        return cls(ticks.numerator, 0, ticks.denominator, 1)

    def moved(self, ticks: Fraction | int) -> Grid:
        """All times so many ticks later."""
        if isinstance(ticks, int):
            return Grid(self.first + ticks * self.den, self.step, self.den, self.num)
        den = ticks.denominator
        return Grid(self.first * den + ticks.numerator * self.den, self.step * den, self.den * den, self.num)

    @property
    def last(self) -> int:
        """Numerator of the last time."""
        return self.first + (self.num - 1) * self.step

    def whole(self) -> IntArray:
        """int64[num]: the times rounded down, at most ±SAFE."""
        return _floor_div(self.numerators(), self.den)

    def numerators(self, factor: int = 1) -> IntArray:
        """First + k·step, times `factor`: int64, or Python ints in an object array where int64 is too small."""
        k = np.arange(self.num)
        if factor * (abs(self.first) + self.num * self.step) >= SAFE:
            k = k.astype(object)
        return factor * (self.first + k * self.step)


def _floor_div(numerators: IntArray, den: int) -> IntArray:
    quotient = numerators // den
    if quotient.dtype == np.int64:
        return quotient
    return np.clip(quotient, -SAFE, SAFE).astype(np.int64)  # no pts lies that far out


class Clock(NamedTuple):
    """The times of frames low .. high−1, in ticks."""

    pts: IntArray
    """int64[high − low], never falling"""
    low: int
    first: int
    """tick at which the first of them is shown"""
    last: int
    """tick at which the last of them is shown"""
    end: int
    """tick at which the last of them stops being shown; above pts[-1]"""
    time_base: Fraction
    step: int = 0
    """ticks from each frame to the next where they are all alike and above 0, else 0"""

    @property
    def duration(self) -> int:
        """Ticks from the first frame's start to the last one's end; > 0."""
        return self.end - self.first

    def grid(self, fps: Fraction, count: int) -> Grid:
        """`count` times from tick 0, 1/fps seconds apart."""
        base = self.time_base
        step, den = _pace(fps.numerator, fps.denominator, base.numerator, base.denominator)
        return Grid(0, step, den, count)

    def tick(self, frame: int) -> int:
        """When a frame is shown, counted from the range's first."""
        return self.first + frame * self.step if self.step else int(self.pts[frame])

    def num_before(self, ticks: int) -> int:
        """How many frames come before a tick."""
        if self.step:
            return min(max(-((self.first - ticks) // self.step), 0), len(self.pts))
        return int(self.pts.searchsorted(min(max(ticks, -SAFE), SAFE), side="left"))

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

    def places(self, grid: Grid, rule: str) -> tuple[IntArray, bool]:
        """int64[num]: frame of each time of the grid; outside [low, high) where the time is.

        Past its ends the range is thought to go on at its average rate, so that every padding has something to fold.

        Args:
            grid: times in ticks.
            rule: "shown" (the frame on screen), "nearest" (earlier one of a tie), "after" (first at or after).

        Returns:
            the frames, and whether all of them lie inside.
        """
        begins, ends = self._bounds(grid, rule)
        if not begins <= grid.first <= grid.last < ends:
            return self._places_beyond(grid, rule), False
        if self.step and grid.num <= FEW:
            return self._places_on_steps(grid, rule), True
        return self.low + np.minimum(self._search(grid, rule), len(self.pts) - 1), True

    def _places_on_steps(self, grid: Grid, rule: str) -> IntArray:
        """`places` of a few times inside a range of constant rate: divisions do."""
        factor = 2 if rule == "nearest" else 1
        den = self.step * grid.den
        wanted, step = factor * (grid.first - self.first * grid.den), factor * grid.step
        wanted, den = wanted + (0 if rule == "shown" else den - 1), factor * den
        low, last = self.low, len(self.pts) - 1
        inner = [(wanted + i * step) // den for i in range(grid.num)]
        if inner[-1] > last or inner[0] < 0:
            inner = [min(max(place, 0), last) for place in inner]
        return np.array([low + place for place in inner] if low else inner, np.int64)

    def _places_beyond(self, grid: Grid, rule: str) -> IntArray:
        wanted = grid.numerators()
        begins, ends = self._bounds(grid, rule)
        outside = (wanted < begins) | (wanted >= ends)
        inner = np.minimum(self._search(grid, rule), len(self.pts) - 1)
        places: IntArray = self.low + np.where(outside, self._beyond(grid, rule), inner).astype(np.int64, copy=False)
        return places

    def _search(self, grid: Grid, rule: str) -> IntArray:
        """Numbers of frames from the range's first; past its ends 0 at least, or nonsense."""
        if rule == "shown":
            return self.pts.searchsorted(grid.whole(), side="right") - 1
        if rule == "after":
            return self.pts.searchsorted(-_floor_div(-grid.numerators(), grid.den), side="left")
        middles = self.pts[1:] + self.pts[:-1]
        return middles.searchsorted(-_floor_div(-grid.numerators(2), grid.den), side="left")

    def _bounds(self, grid: Grid, rule: str) -> tuple[int, int]:
        """Numerators from and below which a time has a frame."""
        if rule == "after":  # whatever comes before the first frame waits for it
            return min(grid.first, self.first * grid.den), self.last * grid.den + 1
        return self.first * grid.den, self.end * grid.den

    def _beyond(self, grid: Grid, rule: str) -> IntArray:
        """Frame numbers of a video that goes on at the average rate, n frames to `duration` ticks."""
        n = len(self.pts)
        steps = Grid((grid.first - self.first * grid.den) * n, grid.step * n, grid.den * self.duration, grid.num)
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
    if not timeline.is_rising:
        _check_rising(pts, low)
    first, last = pts.item(0), pts.item(-1)
    if first < -FAR or last > FAR:
        raise SamplingError(f"frames are shown from tick {first} to {last}: expected times within ±{FAR}")
    follows = high < len(timeline.pts)
    end = timeline.pts.item(high) if follows else last + (timeline.last_duration_ticks or _mean_delta(pts))
    return Clock(pts, low, first, last, max(end, last + 1), timeline.time_base, timeline.step_ticks)


def _check_rising(pts: IntArray, low: int) -> None:
    falls = pts[1:] < pts[:-1]
    if np.count_nonzero(falls):
        at = low + 1 + int(falls.argmax())
        raise SamplingError(f"frame {at} is shown before frame {at - 1}: times that fall choose no frames; use indices")


@lru_cache(maxsize=256)
def _pace(fps_num: int, fps_den: int, base_num: int, base_den: int) -> tuple[int, int]:
    """Ticks from one time of a grid to the next, as a fraction in lowest terms."""
    step, den = fps_den * base_den, fps_num * base_num
    common = math.gcd(step, den)
    return step // common, den // common


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
