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
    from vidprep.timebase import IntArray

__all__ = ["Clocks", "are_whole", "distinct"]


def are_whole(within: Sequence[Within | None] | None) -> bool:
    """Whether every clip may use its whole video."""
    return within is None or all(window is None for window in within)


def distinct(timelines: Sequence[Timeline]) -> tuple[list[Timeline], IntArray]:
    """The D timelines that differ (by identity), and int64[V]: which of them each one is."""
    ids = [id(timeline) for timeline in timelines]
    by_id = dict(zip(ids, timelines, strict=True))
    numbers = {key: d for d, key in enumerate(by_id)}
    return list(by_id.values()), np.fromiter(map(numbers.__getitem__, ids), np.int64, len(ids))


@dataclass(frozen=True, slots=True)
class Clocks:
    """The times of D whole videos in one ascending row: video d's, counted from its first frame, moved on by d·apart."""

    times: IntArray
    """int64[all frames], ascending"""
    offset: IntArray
    """int64[D]: where each video begins in `times`"""
    lasting: IntArray
    """int64[D]: ticks from the first frame's start to the last one's end"""
    apart: int

    @classmethod
    def of(cls, clocks: Sequence[Clock]) -> Clocks | None:
        """None where int64 is too small for the row."""
        apart = max(clock.duration for clock in clocks) + 1
        if apart * (len(clocks) + 1) >= SAFE:
            return None
        counts = [len(clock.pts) for clock in clocks]
        times = np.concatenate([clock.pts + (d * apart - clock.first) for d, clock in enumerate(clocks)])
        lasting = np.array([clock.duration for clock in clocks], np.int64)
        return cls(times, np.cumsum([0, *counts[:-1]], dtype=np.int64), lasting, apart)

    def ticks(self, video: IntArray, frame: IntArray) -> IntArray:
        """Time of a frame, from its video's first; broadcast."""
        times: IntArray = self.times[self.offset[video] + frame]
        return times - video * self.apart

    def shown(self, video: IntArray, ticks: IntArray) -> IntArray:
        """Frame on screen at 0 <= ticks < lasting; broadcast."""
        rank: IntArray = self.times.searchsorted(ticks + video * self.apart, side="right")
        return rank - 1 - self.offset[video]
