"""Times of many videos, looked up at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vidprep.samplers.timeline import SAFE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.records import Timeline
    from vidprep.samplers.policy import Within
    from vidprep.samplers.timeline import Clock
    from vidprep.timebase import FloatArray, IntArray

__all__ = ["Clocks", "SharedTimes", "are_whole", "distinct"]


def are_whole(within: Sequence[Within | None] | None) -> bool:
    """Whether every clip may use its whole video."""
    return within is None or all(window is None for window in within)


def distinct(timelines: Sequence[Timeline]) -> tuple[list[Timeline], IntArray]:
    """The D timelines that differ (by identity), and int64[V]: which of them each one is."""
    ids = [id(timeline) for timeline in timelines]
    by_id = dict(zip(ids, timelines, strict=True))
    numbers = {key: d for d, key in enumerate(by_id)}
    return list(by_id.values()), np.fromiter(map(numbers.__getitem__, ids), np.int64, len(ids))


class SharedTimes:
    """Presentation times of V clips, worked out all at once when the first of them is asked for."""

    __slots__ = ("_index", "_seconds", "_timelines")

    def __init__(self, timelines: Sequence[Timeline], index: IntArray) -> None:
        self._timelines = timelines
        self._index = index
        self._seconds: FloatArray | None = None

    def of(self, clip: int) -> FloatArray:
        """float64[F]: times of one clip's frames; nan for index -1."""
        if self._seconds is None:
            self._seconds = _all_seconds(self._timelines, self._index)
        row: FloatArray = self._seconds[clip]
        return row


def _all_seconds(timelines: Sequence[Timeline], index: IntArray) -> FloatArray:
    """float64[V, F], by the arithmetic of `vidprep.timebase.to_seconds`."""
    ticks = np.empty(index.shape, np.int64)
    for row, frames, timeline in zip(ticks, index, timelines, strict=True):
        row[:] = timeline.pts[frames]
    bases = [timeline.time_base for timeline in timelines]
    num = np.array([base.numerator for base in bases], np.float64)[:, None]
    den = np.array([base.denominator for base in bases], np.float64)[:, None]
    seconds: FloatArray = ticks * num / den
    seconds[index < 0] = np.nan
    return seconds


@dataclass(frozen=True, slots=True)
class Clocks:
    """The times of D whole videos, each video's counted from its first frame.

    Where all have constant rates divisions tell the frames, else a search in one ascending row of all times, in which
    video d's are moved on by d·apart.
    """

    counts: IntArray
    """int64[D]: frames of each video"""
    lasting: IntArray
    """int64[D]: ticks from the first frame's start to the last one's end"""
    apart: int
    """more than any video lasts"""
    steps: IntArray | None
    """int64[D]: ticks from each frame to the next, where all have one"""
    times: IntArray
    """int64[all frames], ascending; empty where all have steps"""
    offset: IntArray
    """int64[D]: where each video begins in `times`"""

    @classmethod
    def of(cls, clocks: Sequence[Clock]) -> Clocks | None:
        """None where int64 is too small for the row."""
        apart = max(clock.duration for clock in clocks) + 1
        even = all(clock.step for clock in clocks)
        if apart * (2 if even else len(clocks) + 1) >= SAFE:
            return None
        counts = np.array([len(clock.pts) for clock in clocks], np.int64)
        lasting = np.array([clock.duration for clock in clocks], np.int64)
        offset = np.cumsum(counts) - counts
        if even:
            steps = np.array([clock.step for clock in clocks], np.int64)
            return cls(counts, lasting, apart, steps, offset[:0], offset)
        times = np.concatenate([clock.pts + (d * apart - clock.first) for d, clock in enumerate(clocks)])
        return cls(counts, lasting, apart, None, times, offset)

    def ticks(self, video: IntArray, frame: IntArray) -> IntArray:
        """Time of a frame, from its video's first; broadcast."""
        if self.steps is not None:
            even: IntArray = frame * self.steps[video]
            return even
        times: IntArray = self.times[self.offset[video] + frame]
        return times - video * self.apart

    def shown(self, video: IntArray, ticks: IntArray) -> IntArray:
        """Frame on screen at 0 <= ticks < lasting; broadcast."""
        if self.steps is not None:
            even: IntArray = np.minimum(ticks // self.steps[video], self.counts[video] - 1)
            return even
        rank: IntArray = self.times.searchsorted(ticks + video * self.apart, side="right")
        return rank - 1 - self.offset[video]

    def num_before(self, ticks: IntArray) -> IntArray:
        """int64[D]: how many frames of each video come before a tick (int64[D], below apart)."""
        ticks = np.maximum(ticks, 0)
        if self.steps is not None:
            even: IntArray = np.minimum(-(-ticks // self.steps), self.counts)
            return even
        rank: IntArray = self.times.searchsorted(ticks + np.arange(len(ticks)) * self.apart, side="left")
        return rank - self.offset
