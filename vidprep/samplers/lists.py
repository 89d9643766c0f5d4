"""Frames that are not evenly spaced: FrameList, Uniform, Segments, Keyframes, Delta."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers import checks
from vidprep.samplers.checks import LIMIT
from vidprep.samplers.draws import FEW, Draw, ManyDraws, key_table, states_of
from vidprep.samplers.indexed import Draws, IndexPolicy, Number, masks_of, positive, specs_of, steps
from vidprep.samplers.many import are_whole
from vidprep.samplers.padding import resolve
from vidprep.samplers.policy import Key, Places, Policy, Within
from vidprep.samplers.ranges import COUNT, First, RandomClip, Strided
from vidprep.samplers.timeline import Grid, Seconds, clock_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.records import Timeline
    from vidprep.samplers.spec import BoolArray, DecodeSpec
    from vidprep.timebase import IntArray

__all__ = ["Delta", "FrameList", "Keyframes", "Segments", "Uniform"]

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


def torch_linspace(last: Number, count: int) -> IntArray:
    """torch.linspace(0, last, count).long(), bit for bit: float32, the second half counted back from the end.

    As PyTorch's CPU kernel computes it (aten/src/ATen/native/cpu/RangeFactoriesKernel.cpp); np.linspace is one-sided
    float64 and differs after truncation.
    """
    end = np.asarray(last).astype(np.float32)
    i = steps(count).astype(np.float32)
    step = end / np.float32(max(count - 1, 1))
    values = np.where(i < count // 2, step * i, end - step * (np.float32(count - 1) - i))
    return values.astype(np.int64) if count > 1 else np.zeros_like(values, dtype=np.int64)


def _uniform(mode: str, n: Number, k: int) -> IntArray:
    i, gaps = steps(k), max(k - 1, 1)
    if mode == "torch":
        return torch_linspace(n - 1, k)
    if mode == "trunc":
        return i * (n - 1) // gaps
    if mode == "start":
        return i * n // k
    if mode == "center" or k == 1:
        return (2 * i + 1) * n // (2 * k)
    return (2 * i * (n - 1) + gaps) // (2 * gaps)


@dataclass(frozen=True, kw_only=True)
class Uniform(IndexPolicy):
    """F frames spread evenly over the whole video; a video of fewer frames repeats some.

        frames=4, 15 frames
        mode="round"  (default)     |a....b...c....d|     floor(i·(n−1)/(F−1) + 1/2); F = 1: the middle one, floor(n/2)
        mode="trunc"                |a...b....c....d|     floor(i·(n−1)/(F−1))
        mode="center"               |.a...b...c...d.|     floor((i + 1/2)·n/F), the middles of F equal parts
        mode="start"                |a..b...c...d...|     floor(i·n/F), their first frames
        mode="torch"                as "trunc" in the arithmetic of torch.linspace(0, n−1, F).long()

    Args:
        frames: F, how many.
        mode: see the picture.
    """

    name = "uniform"
    INTEGERS: ClassVar = {"frames": COUNT}
    CHOICES: ClassVar = {"mode": ("round", "trunc", "center", "start", "torch")}

    frames: int = field(default=1, kw_only=False)
    mode: str = "round"

    def _clips(self, n: int) -> int:
        return 1

    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        return _uniform(self.mode, n, self.frames)

    def _is_inside(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class Segments(IndexPolicy):
    """The video in F equal parts, a frame (or a short run of frames) of each: TSN's sampling.

        frames=3, 15 frames
        mode="random" (default)     |..a..'.b...'...c.|   part i is [floor(i·n/F), floor((i+1)·n/F)), one of it at random
        mode="center"               |..a..'..b..'..c..|   floor((i + 1/2)·n/F)
        length=2                    |.aa..'bb...'..cc.|   runs of 2; the parts then divide their possible starts

    A video of fewer than F frames repeats some.

    Args:
        frames: F, the number of parts.
        mode: "random" or "center".
        length: frames of each run; the clip has F·length frames, run after run.
        stride: distance of neighbours in a run.
        clips: clips per video, drawn independently.
    """

    name = "segments"
    INTEGERS: ClassVar = {"frames": COUNT, "length": COUNT, "stride": COUNT, "clips": COUNT}
    CHOICES: ClassVar = {"mode": ("random", "center")}

    frames: int = field(default=1, kw_only=False)
    mode: str = "random"
    length: int = 1
    stride: int = 1
    clips: int = 1

    def _check(self) -> None:
        if self.frames * self.length > LIMIT:
            raise SamplingError(
                f"Segments: frames={self.frames}, length={self.length}: expected at most {LIMIT} in all"
            )

    def _clips(self, n: int) -> int:
        return self.clips

    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        starts = self._starts(positive(n - 1 - (self.length - 1) * self.stride) + 1, draws)
        if self.length == 1:
            return starts
        runs = starts[..., None] + steps(self.length, self.stride)
        return runs.reshape(*starts.shape[:-1], -1)

    def _starts(self, room: Number, draws: Draws) -> IntArray:
        if self.mode == "center":
            return _uniform("center", room, self.frames)
        if isinstance(draws, Draw) and self.frames <= FEW:
            return np.array(draws.in_parts(int(room), self.frames), np.int64)
        bounds = steps(self.frames + 1) * room // self.frames
        first = bounds[..., :-1]
        return first + draws.below_each(np.maximum(bounds[..., 1:] - first, 1))

    def _is_inside(self) -> bool:
        return self.length == 1


@dataclass(frozen=True, kw_only=True)
class Keyframes(Policy):
    """Key frames and nothing else: what can be decoded alone.

        keys at 0 4 8 12, 15 frames
        frames=None                         |a...b...c...d..|     all of them
        every=2                             |a.......b......|     every second
        frames=2, mode="first"              |a...b..........|
        frames=2, mode="uniform" (default)  |a...........b..|     Uniform over the list of key frames
        frames=2, mode="random"             |....a...b......|     neighbours, from a random start

    `pad` counts key frames here: with three of them and frames=5, mode="first", pad="edge" repeats the third. Which
    frames are key frames is what the index says (`Timeline.keyframes`).

    Args:
        frames: F, how many; None = all.
        mode: which, where fewer than all are wanted.
        every: every how-manieth key frame; not with mode="uniform" and a number of frames.
    """

    name = "keyframes"
    INTEGERS: ClassVar = {"frames": COUNT, "every": COUNT}
    CHOICES: ClassVar = {"mode": ("uniform", "first", "random")}

    frames: int | None = field(default=None, kw_only=False)
    mode: str = "uniform"
    every: int = 1

    def _check(self) -> None:
        if self.frames is not None and self.mode == "uniform" and self.every != 1:
            raise SamplingError(
                f"Keyframes: every={self.every}: expected 1 with mode='uniform' and frames={self.frames}"
            )

    @cached_property
    def _inner(self) -> IndexPolicy:
        """The policy that picks from the list of key frames."""
        if self.frames is None:
            return Strided(self.every)
        if self.mode == "uniform":
            return Uniform(self.frames)
        return (First if self.mode == "first" else RandomClip)(self.frames, stride=self.every)

    def _count(self, timeline: Timeline, low: int, high: int) -> int:
        return 1

    def _place(self, timeline: Timeline, low: int, high: int, draw: Draw, clip: int) -> Places:
        keys = _keys(timeline, low, high)
        return Places(self._inner._relative(len(keys), clip, draw))  # noqa: SLF001  # a policy of our own making

    def _filled(self, timeline: Timeline, places: Places, low: int, high: int) -> tuple[IntArray, BoolArray | None]:
        keys = _keys(timeline, low, high)
        numbers, is_padding = super()._filled(timeline, places, 0, len(keys))
        index = keys[numbers]
        if is_padding is not None:
            index[numbers < 0] = -1
        return index, is_padding

    def choose_many(
        self,
        timelines: Sequence[Timeline],
        keys: Sequence[Key] | IntArray,
        within: Sequence[Within | None] | None = None,
        clips: Sequence[int] | None = None,
    ) -> list[DecodeSpec]:
        """As `Policy.choose_many`; clips of fixed length from whole videos are picked all at once."""
        special = self.frames is None or self.snap or self.compat or self.pad in ("none", "drop", "error")
        if special or not are_whole(within) or (clips is not None and np.any(clips)) or not len(timelines):
            return super().choose_many(timelines, keys, within, clips)
        lists = [timeline.keyframes for timeline in timelines]
        if not all(len(row) and row[0] >= 0 and row[-1] < len(t.pts) for row, t in zip(lists, timelines, strict=True)):
            return super().choose_many(timelines, keys, within, clips)
        counts = np.fromiter(map(len, lists), np.int64, len(lists))[:, None]
        draws = ManyDraws(states_of(key_table(keys), np.zeros(len(lists), np.int64))[:, None])
        places = self._inner._relative(counts, 0, draws)  # noqa: SLF001  # a policy of our own making
        numbers, is_padding = resolve(np.broadcast_to(places, (len(lists), places.shape[1])), 0, counts, self.pad)
        index = np.concatenate(lists)[numbers + (np.cumsum(counts) - counts[:, 0])[:, None]]
        index[numbers < 0] = -1
        return specs_of(timelines, index, masks_of(is_padding), fill_value=self.fill_value)

    def _fits(self, timeline: Timeline, low: int, high: int, clip: int) -> bool:
        count = len(_within(timeline.keyframes, low, high))
        return count > 0 and bool(self._inner._relative(count, clip, Draw(0)).max() < count)  # noqa: SLF001  # as above


def _keys(timeline: Timeline, low: int, high: int) -> IntArray:
    keys = _within(timeline.keyframes, low, high)
    if not len(keys):
        raise SamplingError(f"keyframes: no key frame among frames {low} .. {high - 1}")
    return keys


def _within(keys: IntArray, low: int, high: int) -> IntArray:
    """Those of ascending numbers that lie in [low, high)."""
    if len(keys) and keys.item(0) >= low and keys.item(-1) < high:
        return keys
    return keys[keys.searchsorted(low) : keys.searchsorted(high)]


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
