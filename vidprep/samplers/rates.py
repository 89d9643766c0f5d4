"""`AtRate`: clips at a frame rate, by the frames' own times."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers import checks
from vidprep.samplers.draws import ManyDraws, key_table, states_of
from vidprep.samplers.indexed import specs_of
from vidprep.samplers.many import Clocks, are_whole, distinct
from vidprep.samplers.policy import Key, Places, Policy, Within
from vidprep.samplers.ranges import COUNT
from vidprep.samplers.timeline import Clock, Grid, Seconds, clock_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from vidprep.records import Timeline
    from vidprep.samplers.draws import Draw
    from vidprep.samplers.spec import DecodeSpec
    from vidprep.timebase import IntArray

__all__ = ["AtRate", "solve_count"]


def solve_count(natural: int, low: int | None, high: int | None, divisor: int, remainder: int) -> int:
    """How many frames a clip gets: the largest m·divisor + remainder, m >= 0, from 1 to `natural`, within low .. high.

    Where `natural` is too few for any, the smallest such number from `low` (video VAEs that compress time by 4 take
    divisor=4, remainder=1: 1, 5, 9, ...).

    Raises:
        SamplingError: no such number lies within low .. high.
    """
    least, most = max(low or 1, 1), checks.LIMIT if high is None else high
    smallest = least + (remainder - least) % divisor
    top = min(max(natural, 1), most)
    largest = top - (top - remainder) % divisor
    if smallest > most:
        raise SamplingError(
            f"AtRate: min_frames={low}, max_frames={high}: no number of the form {divisor}·m+{remainder} lies between them"
        )
    return largest if largest >= smallest else smallest


@dataclass(frozen=True, kw_only=True)
class AtRate(Policy):
    """Frames at a rate: clip frame i is the one on screen at start + i/fps.

        fps=10, a video with uneven times (each column 50 ms, `|` where a new frame comes)
        video   |0 . |1|2 . . . . |3 . |4|5 . . |
        asked    ^   ^   ^   ^   ^   ^   ^   ^         0.0, 0.1, ... seconds after the first frame
        clip     0   1   2   2   2   3   4   5

    Without `frames` and `seconds` the clip is the whole video: all i with i/fps < duration. `min_frames`, `max_frames`,
    `divisor` and `remainder` are then solved together (see `solve_count`). Where the count has only to be a little less
    than the rate gives, the rate stays and the tail is left out; where max_frames or min_frames forces another count, the
    frames are spread over the same time and the rate changes to count/duration, which `DecodeSpec.rate_fps` reports.

        fps=2, max_frames=9, divisor=4, remainder=1, 10 s:    20 frames asked, 9 given at 0.9 fps

    Args:
        fps: frames per second; 29.97002997 or "30000/1001".
        frames: F, frames per clip.
        seconds: length of a clip instead: all i with i/fps < seconds.
        start_seconds: where the first clip starts, or may start, counted from the first frame's time.
        mode: "shown" (the frame on screen), "nearest" (the earlier of a tie), "after" (the first at or after).
        place: where clips start: "start" (at start_seconds), "random" (at a frame, each from which the clip fits is equally
            likely), "even" (`clips` of those frames, spread evenly; one: the middle), "dense" (every step_seconds).
        clips: clips per video with place="random" or "even".
        step_seconds: distance of clips with place="dense"; None = F/fps, clip after clip.
        min_frames, max_frames: bounds of the number of frames; not together with `frames`.
        divisor, remainder: the number of frames is m·divisor + remainder; not together with `frames`.
        on_vfr: what to do: "time" uses the frames' times always; "index" takes the video for one of constant rate,
            avg_fps, as if frame i came at i/avg_fps (what most training code does; right where rates are constant);
            "raise" refuses videos of variable rate.
    """

    name = "rate"
    INTEGERS: ClassVar = {
        "frames": COUNT, "clips": COUNT, "min_frames": COUNT, "max_frames": COUNT,
        "divisor": COUNT, "remainder": (0, checks.LIMIT),
    }  # fmt: skip
    CHOICES: ClassVar = {
        "mode": ("shown", "nearest", "after"),
        "place": ("start", "random", "even", "dense"),
        "on_vfr": ("time", "index", "raise"),
    }

    fps: Seconds = field(default=1, kw_only=False)
    frames: int | None = None
    seconds: Seconds | None = None
    start_seconds: Seconds = 0
    mode: str = "shown"
    place: str = "start"
    clips: int = 1
    step_seconds: Seconds | None = None
    min_frames: int | None = None
    max_frames: int | None = None
    divisor: int = 1
    remainder: int = 0
    on_vfr: str = "time"

    def _check(self) -> None:
        values = {"fps": checks.rate("AtRate", "fps", self.fps)}
        values["start_seconds"] = checks.seconds("AtRate", "start_seconds", self.start_seconds)
        for name in ("seconds", "step_seconds"):
            if getattr(self, name) is not None:
                values[name] = checks.seconds("AtRate", name, getattr(self, name), positive=True)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        solved = (self.min_frames, self.max_frames) != (None, None) or (self.divisor, self.remainder) != (1, 0)
        if self.frames is not None and (solved or self.seconds is not None):
            raise SamplingError(
                f"AtRate: frames={self.frames}: expected it without seconds, min_frames, max_frames, divisor, remainder"
            )
        if self.remainder >= self.divisor:
            raise SamplingError(f"AtRate: remainder={self.remainder}: expected 0 .. divisor − 1 = {self.divisor - 1}")
        if self.clips != 1 and self.place not in ("random", "even"):
            raise SamplingError(f"AtRate: clips={self.clips}: expected 1 with place={self.place!r}")
        if self.step_seconds is not None and self.place != "dense":
            raise SamplingError(f"AtRate: step_seconds={self.step_seconds}: expected none with place={self.place!r}")
        solve_count(1, self.min_frames, self.max_frames, self.divisor, self.remainder)

    def _clock(self, timeline: Timeline, low: int, high: int) -> Clock:
        if self.on_vfr == "raise" and timeline.timing.is_vfr:
            raise SamplingError("rate: on_vfr='raise': the video's frame rate is variable")
        clock = clock_of(timeline, low, high)
        n, span = high - low, clock.last - clock.first
        if self.on_vfr != "index" or n < 2 or span == 0:
            return clock
        return Clock(np.arange(n, dtype=np.int64), low, 0, n - 1, n, timeline.time_base * Fraction(span, n - 1), 1)

    def _sizing(self, clock: Clock) -> tuple[int, Fraction]:
        """Frames per clip, and their rate."""
        fps = self._fps
        if self.frames is not None:
            return self.frames, fps
        whole = self.seconds is None
        length = self._room(clock) * clock.time_base if self.seconds is None else Fraction(self.seconds)
        natural = max(math.ceil(length * fps), 1)
        if whole and self.mode == "after":  # times past the last frame's start have no frame
            natural = max(math.floor((clock.last - self._start(clock)) * clock.time_base * fps) + 1, 1)
        if natural > checks.LIMIT and self.max_frames is None:
            raise SamplingError(f"rate: fps={fps}: {natural} frames; expected at most {checks.LIMIT}")
        count = solve_count(natural, self.min_frames, self.max_frames, self.divisor, self.remainder)
        spread = length > 0 and (count > natural or (self.max_frames is not None and natural > self.max_frames))
        return count, count / length if spread else fps

    @property
    def _fps(self) -> Fraction:
        return cast("Fraction", self.fps)  # since _check

    @cached_property
    def _rate(self) -> float:
        return float(self._fps)

    def _start(self, clock: Clock) -> Fraction | int:
        """Tick at which the first clip starts, or may start."""
        return clock.first + Fraction(self.start_seconds) / clock.time_base if self.start_seconds else clock.first

    def _room(self, clock: Clock) -> Fraction | int:
        """Ticks from start_seconds to the end."""
        room = clock.end - self._start(clock)
        if room <= 0:
            raise SamplingError(
                f"rate: start_seconds={float(self.start_seconds):g}: the video lasts "
                f"{float(clock.duration * clock.time_base):g} s"
            )
        return room

    def _legal(self, clock: Clock, grid: Grid) -> tuple[int, int]:
        """First and one past the last frame (from `low`) at which a clip may start: its last time is inside."""
        first = clock.num_before(math.ceil(self._start(clock))) if self.start_seconds else 0
        if self.mode == "after":
            end = clock.num_before(clock.last + 1 + (-grid.last // grid.den))
        else:
            end = clock.num_before(clock.end - grid.last // grid.den)
        return first, max(end, first)

    def _count(self, timeline: Timeline, low: int, high: int) -> int:
        if self.place != "dense":
            return self.clips
        clock = self._clock(timeline, low, high)
        count, fps = self._sizing(clock)
        room, step = self._room(clock) * clock.time_base, self._distance(count, fps)
        fitting = max(math.ceil((room - (count - 1) / fps) / step), 0)
        if fitting > checks.LIMIT:
            raise SamplingError(f"rate: step_seconds={step}: {fitting} clips; expected at most {checks.LIMIT}")
        covered = (fitting - 1) * step + count / fps if fitting else 0
        tail = self.pad != "drop" and covered < room and fitting * step < room
        return fitting + tail

    def _distance(self, count: int, fps: Fraction) -> Fraction:
        return count / fps if self.step_seconds is None else Fraction(self.step_seconds)

    def _origin(self, clock: Clock, grid: Grid, fps: Fraction, draw: Draw, clip: int) -> Fraction | int:
        """Tick at which a clip starts whose times, from 0, are the grid's."""
        if self.place == "start":
            return self._start(clock)
        if self.place == "dense":
            return self._start(clock) + clip * self._distance(grid.num, fps) / clock.time_base
        first, end = self._legal(clock, grid)
        if first == end:  # too short, or nothing left after start_seconds
            return self._start(clock)
        if self.place == "random":
            return clock.tick(first + draw.below(end - first))
        return clock.tick(first + self._evenly(end - 1 - first, clip))

    def _evenly(self, last: Any, clip: Any) -> Any:
        """Which of the starts 0 .. last; numbers or arrays."""
        gaps = max(self.clips - 1, 1)
        return last // 2 if self.clips == 1 else (2 * clip * last + gaps) // (2 * gaps)

    def _place(self, timeline: Timeline, low: int, high: int, draw: Draw, clip: int) -> Places:
        clock = self._clock(timeline, low, high)
        count, fps = self._sizing(clock)
        grid = clock.grid(fps, count)
        frames, inside = clock.places(grid.moved(self._origin(clock, grid, fps, draw, clip)), self.mode)
        return Places(frames, None, self._rate if fps is self.fps else float(fps), inside)

    def choose_many(
        self,
        timelines: Sequence[Timeline],
        keys: Sequence[Key] | IntArray,
        within: Sequence[Within | None] | None = None,
        clips: Sequence[int] | None = None,
    ) -> list[DecodeSpec]:
        """As `Policy.choose_many`; clips of fixed length that lie inside whole videos are looked up all at once."""
        numbers = np.zeros(len(timelines), np.int64) if clips is None else np.asarray(clips, dtype=np.int64)
        found = self._lookup(timelines, keys, numbers) if self._is_plain() and are_whole(within) else None
        if found is None:
            return super().choose_many(timelines, keys, within, clips)
        index, inside = found
        specs = specs_of(timelines, index, fill_value=self.fill_value, rate_fps=self._rate)
        for v in np.flatnonzero(~inside).tolist():  # padded, shortened or refused
            specs[v] = self.choose(timelines[v], tuple(keys[v]), None, int(numbers[v]))
        return specs

    def _is_plain(self) -> bool:
        """Whether the clips start at a frame and nothing but their starts differs."""
        fixed = self.frames is not None and self.mode == "shown" and self.place != "dense" and not self.start_seconds
        return fixed and self.on_vfr == "time" and not self.snap and not self.compat

    def _lookup(
        self, timelines: Sequence[Timeline], keys: Sequence[Key] | IntArray, numbers: IntArray
    ) -> tuple[IntArray, npt.NDArray[np.bool_]] | None:
        """int64[V, F] frames, and whether the clip lies inside (else its row is all 0); None where `choose` has to look."""
        videos, which = distinct(timelines)
        if not videos or not ((numbers >= 0) & (numbers < self.clips)).all():
            return None
        try:
            clocks = [clock_of(video, 0, len(video.pts)) for video in videos if len(video.pts)]
        except SamplingError:  # whose turn it is, `choose` knows
            return None
        row = Clocks.of(clocks) if len(clocks) == len(videos) else None
        if row is None:
            return None
        steps = self._steps(clocks, row.apart)
        begins = row.ticks(which, self._first_frames(row, steps[:, -1], which, keys, numbers))
        ticks = begins[:, None] + steps[which]
        inside = ticks[:, -1] < row.lasting[which]
        return row.shown(which[:, None], np.where(inside[:, None], ticks, 0)), inside

    def _first_frames(
        self, row: Clocks, spans: IntArray, which: IntArray, keys: Sequence[Key] | IntArray, numbers: IntArray
    ) -> IntArray:
        """int64[V]: the frame at which each clip starts, given each video's ticks from its first time to its last."""
        if self.place == "start":
            return np.zeros_like(which)
        starts = np.maximum(row.num_before(row.lasting - spans), 1)[which]
        if self.place == "random":
            return ManyDraws(states_of(key_table(keys), numbers)[:, None]).below(starts[:, None])[:, 0]
        return cast("IntArray", self._evenly(starts - 1, numbers))

    def _steps(self, clocks: Sequence[Clock], most: int) -> IntArray:
        """int64[D, F]: whole ticks from a clip's first time to each, at most `most`; starts are whole themselves."""
        by_base = {clock.time_base: clock.grid(self._fps, self.frames or 1).whole() for clock in clocks}
        return np.minimum([by_base[clock.time_base] for clock in clocks], most)
