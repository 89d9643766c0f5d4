"""Frames by name: FrameList, and Delta about an anchor."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers import checks
from vidprep.samplers.checks import LIMIT
from vidprep.samplers.indexed import Draws, IndexPolicy, Number
from vidprep.samplers.policy import Places
from vidprep.samplers.timeline import Grid, Seconds, clock_of

if TYPE_CHECKING:
    from vidprep.records import Timeline
    from vidprep.samplers.draws import Draw
    from vidprep.timebase import IntArray

__all__ = ["Delta", "FrameList"]

RULES = ("shown", "nearest", "after")


@dataclass(frozen=True, kw_only=True)
class FrameList(IndexPolicy):
    """Frames by name: any order, repeats, negative from the end; or the frames at given times.

        frames=(9, 0, 4, 4, -2)     |b...c....a...e.|     a b c d e in this order, d = c again
        seconds=(0.5, 1.25)         the frames on screen at these presentation times

    An entry that is not in the video is an error, or is filled as `pad` says. With a range (`within`), indices count from
    its first frame; times are presentation times still.

    Args:
        frames: indices, 0-based.
        seconds: presentation times instead; a time that is a frame's pts as float64 or float32 gives that frame.
        mode: "shown" (the frame on screen), "nearest" (the earlier one of a tie), "after" (the first at or after).
    """

    name = "list"
    is_list: ClassVar[bool] = True
    CHOICES: ClassVar = {"mode": RULES}

    frames: tuple[int, ...] = field(default=(), kw_only=False)
    seconds: tuple[Seconds, ...] = ()
    mode: str = "shown"

    def _check(self) -> None:
        if bool(self.frames) == bool(self.seconds):
            raise SamplingError(
                f"FrameList: frames={self.frames!r}, seconds={self.seconds!r}: expected one of them, with an entry at least"
            )
        frames = tuple(checks.integer("FrameList", "frames", entry, -LIMIT, LIMIT) for entry in self.frames)
        seconds = tuple(checks.seconds("FrameList", "seconds", entry) for entry in self.seconds)
        object.__setattr__(self, "frames", frames)
        object.__setattr__(self, "seconds", seconds)

    def _clips(self, n: int) -> int:
        return 1

    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        entries = np.array(self.frames, dtype=np.int64)
        return entries + n * (entries < 0)

    def _place(self, timeline: Timeline, low: int, high: int, draw: Draw, clip: int) -> Places:
        if self.frames:
            return super()._place(timeline, low, high, draw, clip)
        clock = clock_of(timeline, low, high)
        asked = (clock.ticks(Fraction(time)) for time in self.seconds)
        return Places(np.concatenate([clock.places(Grid.of(ticks), self.mode)[0] for ticks in asked]))

    def _is_rectangular(self) -> bool:
        return bool(self.frames)


@dataclass(frozen=True, kw_only=True)
class Delta(IndexPolicy):
    """Frames around a frame: a window of offsets about an anchor, as world models and robot policies want it.

        offsets=(-4, -2, 0, 1), at=7    |...a.b.Cd......|     anchor C = 7; frame offset + anchor
        seconds=(-0.1, 0, 0.1)          the frames nearest to pts[anchor] + delta

    Every frame of the video is an anchor, and makes a clip of its own (clip number = anchor), unless `at` or
    mode="random" says otherwise. At the ends places are repeated and marked (pad="edge", the default); with pad="drop" only
    anchors whose whole window lies inside are offered.

    Args:
        offsets: in frames, any order.
        seconds: in seconds instead, counted from the anchor's presentation time.
        at: the one anchor; negative from the end.
        mode: "every" frame is an anchor, or one at "random".
        tolerance_seconds: refuse a video in which the nearest frame inside it is further away than this.
    """

    name = "delta"
    is_list: ClassVar[bool] = True
    INTEGERS: ClassVar = {"at": (-LIMIT, LIMIT)}
    CHOICES: ClassVar = {"mode": ("every", "random")}

    offsets: tuple[int, ...] = field(default=(), kw_only=False)
    seconds: tuple[Seconds, ...] = ()
    at: int | None = None
    mode: str = "every"
    tolerance_seconds: Seconds | None = None
    pad: str = "edge"

    def _check(self) -> None:
        if bool(self.offsets) == bool(self.seconds):
            raise SamplingError(
                f"Delta: offsets={self.offsets!r}, seconds={self.seconds!r}: expected one of them, with an entry at least"
            )
        offsets = tuple(checks.integer("Delta", "offsets", entry, -LIMIT, LIMIT) for entry in self.offsets)
        seconds = tuple(checks.seconds("Delta", "seconds", entry) for entry in self.seconds)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "seconds", seconds)
        if self.tolerance_seconds is not None:
            tolerance = checks.seconds("Delta", "tolerance_seconds", self.tolerance_seconds)
            object.__setattr__(self, "tolerance_seconds", tolerance)

    def _clips(self, n: int) -> int:
        return n if self.at is None and self.mode == "every" else 1

    def num_clips(self, timeline: Timeline, within: tuple[int, int] | None = None) -> int:
        """How many anchors the video gives."""
        if self.pad != "drop" or self.at is not None or not timeline.num_frames:
            return super().num_clips(timeline, within)
        low, high = within or (0, timeline.num_frames)
        first, end = self._anchors(timeline, low, high)
        return max(end - first, 0) if self.mode == "every" else int(end > first)

    def _anchors(self, timeline: Timeline, low: int, high: int) -> tuple[int, int]:
        """First and one past the last anchor (from `low`) that may be taken: all, or with "drop" those that fit."""
        if self.pad != "drop":
            return 0, high - low

        def at(anchor: int) -> IntArray:
            return self._around(timeline, low, high, anchor)

        anchors = range(high - low)  # windows move on with their anchors, so both ends can be searched
        first = bisect_left(anchors, True, key=lambda anchor: bool(at(anchor).min() >= low))  # searched for
        end = bisect_left(anchors, True, key=lambda anchor: bool(at(anchor).max() >= high))  # as above
        return first, end

    def _around(self, timeline: Timeline, low: int, high: int, anchor: int) -> IntArray:
        if self.offsets:
            return low + anchor + np.array(self.offsets, dtype=np.int64)
        clock = clock_of(timeline, low, high)
        base = int(timeline.pts[min(max(low + anchor, low), high - 1)])
        asked = [base + Fraction(delta) / timeline.time_base for delta in self.seconds]
        places = np.concatenate([clock.places(Grid.of(ticks), "nearest")[0] for ticks in asked])
        if self.tolerance_seconds is not None:
            self._check_near(timeline, low, high, places, asked)
        return places

    def _check_near(self, timeline: Timeline, low: int, high: int, places: IntArray, asked: list[Fraction]) -> None:
        limit = Fraction(self.tolerance_seconds or 0) / timeline.time_base
        for place, ticks in zip(places.tolist(), asked, strict=True):
            if low <= place < high and abs(int(timeline.pts[place]) - ticks) > limit:
                away = float(abs(int(timeline.pts[place]) - ticks) * timeline.time_base)
                raise SamplingError(
                    f"delta: frame {place}, the nearest, is {away:g} s away; tolerance_seconds={self.tolerance_seconds}"
                )

    def _anchor(self, timeline: Timeline, low: int, high: int, draw: Draw, clip: int) -> int:
        n = high - low
        if self.at is not None:
            return self.at + n * (self.at < 0)
        first, end = self._anchors(timeline, low, high)
        if clip >= end - first:
            raise SamplingError(f"delta: clip={clip}: {max(end - first, 0)} frames have their whole window inside")
        return first + (clip if self.mode == "every" else draw.below(end - first))

    def _place(self, timeline: Timeline, low: int, high: int, draw: Draw, clip: int) -> Places:
        return Places(self._around(timeline, low, high, self._anchor(timeline, low, high, draw, clip)))

    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        if self.at is not None:
            anchor = self.at + n * (self.at < 0)
        elif self.mode == "every":
            anchor = clip
        else:
            anchor = draws.below(n)
        return np.array(self.offsets, dtype=np.int64) + (anchor + n * 0)

    def _is_rectangular(self) -> bool:
        return bool(self.offsets) and self.pad != "drop"
