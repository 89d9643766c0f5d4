"""Clips of evenly spaced frames: First, Last, Strided, RandomClip, Dense, Windows.

In the pictures `.` is a frame of the video, a letter a frame of a clip, `|` an end of the video.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from vidprep.errors import SamplingError
from vidprep.samplers.checks import LIMIT
from vidprep.samplers.indexed import Draws, IndexPolicy, Number, positive, steps

if TYPE_CHECKING:
    from vidprep.timebase import IntArray

__all__ = ["Dense", "First", "Last", "RandomClip", "Strided", "Windows"]

COUNT = (1, LIMIT)


@dataclass(frozen=True, kw_only=True)
class First(IndexPolicy):
    """The first frames.

        frames=4, stride=2      |a.a.a.a.......|      i·stride

    Args:
        frames: F, how many.
        stride: every how-manieth frame.
    """

    name = "first"
    INTEGERS: ClassVar = {"frames": COUNT, "stride": COUNT}

    frames: int = field(default=1, kw_only=False)
    stride: int = 1

    def _clips(self, n: int) -> int:
        return 1

    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        return steps(self.frames, self.stride) + n * 0

    def _step(self) -> int | None:
        return self.stride


@dataclass(frozen=True, kw_only=True)
class Last(IndexPolicy):
    """The last frames, in order; a video that is too short is padded in front.

        frames=4, stride=2      |.......a.a.a.a|      n − 1 − (F − 1 − i)·stride

    Args:
        frames: F, how many.
        stride: every how-manieth frame.
    """

    name = "last"
    INTEGERS: ClassVar = {"frames": COUNT, "stride": COUNT}

    frames: int = field(default=1, kw_only=False)
    stride: int = 1

    def _clips(self, n: int) -> int:
        return 1

    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        return steps(self.frames, self.stride) + (n - 1 - (self.frames - 1) * self.stride)

    def _step(self) -> int | None:
        return self.stride


@dataclass(frozen=True, kw_only=True)
class Strided(IndexPolicy):
    """Every `stride`-th frame of a range [start, end), or `frames` of them from `start`.

        stride=3                        |a..a..a..a..a..|   start + i·stride < end
        stride=3, start=2, end=10       |..a..a..a......|
        stride=3, start=2, frames=2     |..a..a.........|
        stride=3, start=-6              |.........a..a..|

    Args:
        stride: distance of neighbours.
        start: first frame; negative counts from the end, as in Python.
        end: one past the last frame that may be taken; negative counts from the end; None = the end of the video. One
            past the end of the video makes the range run out, which is what `pad` is for.
        frames: F, how many; not together with `end`. None = as many as the range holds.
        jitter: each frame is moved on by a random 0 .. jitter.
    """

    name = "strided"
    INTEGERS: ClassVar = {
        "stride": COUNT, "start": (-LIMIT, LIMIT), "end": (-LIMIT, LIMIT), "frames": COUNT, "jitter": (0, LIMIT),
    }  # fmt: skip

    stride: int = field(default=1, kw_only=False)
    start: int = 0
    end: int | None = None
    frames: int | None = None
    jitter: int = 0

    def _check(self) -> None:
        if self.end is not None and self.frames is not None:
            raise SamplingError(f"Strided: end={self.end}, frames={self.frames}: expected one of them")

    def _clips(self, n: int) -> int:
        return 1

    def _length(self, n: Number) -> int:
        if self.frames is not None:
            return self.frames
        count = int(n)
        end = count if self.end is None else self.end + count * (self.end < 0)
        start = self.start + count * (self.start < 0)
        if start >= end:
            raise SamplingError(f"Strided: start={self.start}, end={self.end}: no frame of a video of {count}")
        return -((start - end) // self.stride)

    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        places = steps(self._length(n), self.stride) + (self.start + n * (self.start < 0))
        return places + draws.below_each(steps(places.shape[-1], 0) + self.jitter + 1) if self.jitter else places

    def _step(self) -> int | None:
        return None if self.jitter else self.stride

    def _is_rectangular(self) -> bool:
        return self.frames is not None


@dataclass(frozen=True, kw_only=True)
class RandomClip(IndexPolicy):
    """Clips at random starts; every start from which the clip fits is equally likely, the last one included.

        frames=3, stride=2      |....a.a.a......|     start + i·stride, start uniform in 0 .. n − span
                                                      span = (F − 1)·stride + 1 + jitter

    A video that is too short gives the clip that starts at its first frame. The clips of one video are drawn
    independently and may overlap.

    Args:
        frames: F, frames per clip.
        stride: distance of neighbours.
        clips: clips per video.
        jitter: each frame is moved on by a random 0 .. jitter; the clip still fits.
    """

    name = "random"
    INTEGERS: ClassVar = {"frames": COUNT, "stride": COUNT, "clips": COUNT, "jitter": (0, LIMIT)}

    frames: int = field(default=1, kw_only=False)
    stride: int = 1
    clips: int = 1
    jitter: int = 0

    def _clips(self, n: int) -> int:
        return self.clips

    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        span = (self.frames - 1) * self.stride + 1 + self.jitter
        places: IntArray = steps(self.frames, self.stride) + draws.below(positive(n - span) + 1)
        return places + draws.below_each(steps(self.frames, 0) + self.jitter + 1) if self.jitter else places

    def _step(self) -> int | None:
        return None if self.jitter else self.stride


@dataclass(frozen=True, kw_only=True)
class Dense(IndexPolicy):
    """Windows at a fixed distance, or a fixed number of windows spread evenly from the first start to the last.

        frames=4, step=3            |aaaa...........|    starts 0, step, 2·step, ... while start + span <= n
                                    |...bbbb........|    span = (F − 1)·stride + 1
                                    |......cccc.....|
                                    |.........dddd..|
        frames=4, clips=2           |aaaa...........|    start of clip j: floor(j·(n − span)/(K − 1) + 1/2),
                                    |...........bbbb|    K = 1: the middle start

    With pad="drop", the default, only windows that fit are given, and a video that is too short gives none. With any
    other pad one more window follows where frames are left over (all of a video that is too short); with `clips` a video
    that is too short gives K times the clip from its first frame.

    Args:
        frames: F, frames per window.
        stride: distance of neighbours.
        step: distance of the windows' starts; None = stride·frames, window after window.
        clips: K, windows per video; not together with `step`.
    """

    name = "dense"
    INTEGERS: ClassVar = {"frames": COUNT, "stride": COUNT, "step": COUNT, "clips": COUNT}

    frames: int = field(default=1, kw_only=False)
    stride: int = 1
    step: int | None = None
    clips: int | None = None
    pad: str = "drop"

    def _check(self) -> None:
        if self.step is not None and self.clips is not None:
            raise SamplingError(f"Dense: step={self.step}, clips={self.clips}: expected one of them")

    @property
    def _span_frames(self) -> int:
        return (self.frames - 1) * self.stride + 1

    @property
    def _distance(self) -> int:
        return self.stride * self.frames if self.step is None else self.step

    def _clips(self, n: int) -> int:
        if self.clips is not None:
            return self.clips
        fitting = (n - self._span_frames) // self._distance + 1 if n >= self._span_frames else 0
        covered = (fitting - 1) * self._distance + self._span_frames if fitting else 0
        tail = self.pad != "drop" and covered < n and fitting * self._distance < n
        return fitting + tail

    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        if self.clips is None:
            start = clip * self._distance
        else:
            gaps, room = max(self.clips - 1, 1), positive(n - self._span_frames)
            start = room // 2 if self.clips == 1 else (2 * clip * room + gaps) // (2 * gaps)
        return steps(self.frames, self.stride) + start

    def _step(self) -> int | None:
        return self.stride


@dataclass(frozen=True, kw_only=True)
class Windows(IndexPolicy):
    """Windows that cover a long video from end to end, each sharing `overlap` frames with the one before.

        frames=6, overlap=2         |aaaaaa.........|    starts 0, (F − overlap)·stride, ...
                                    |....bbbbbb.....|    until the last frame is covered
                                    |........cccccc.|
                                    |.........dddddd|    the last one moves back (pad="shift", the default)

    With another pad the last window runs out: "none" shortens it, "drop" leaves it out, "edge" and the like fill it.

    Args:
        frames: F, frames per window.
        stride: distance of neighbours.
        overlap: frames that neighbouring windows share, 0 .. F − 1.
    """

    name = "windows"
    INTEGERS: ClassVar = {"frames": COUNT, "stride": COUNT, "overlap": (0, LIMIT)}

    frames: int = field(default=1, kw_only=False)
    stride: int = 1
    overlap: int = 0
    pad: str = "shift"

    def _check(self) -> None:
        if self.overlap >= self.frames:
            raise SamplingError(f"Windows: overlap={self.overlap}: expected 0 .. frames − 1 = {self.frames - 1}")

    def _clips(self, n: int) -> int:
        span, step = (self.frames - 1) * self.stride + 1, (self.frames - self.overlap) * self.stride
        return 1 + max(-((span - n) // step), 0)

    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        return steps(self.frames, self.stride) + (clip * ((self.frames - self.overlap) * self.stride) + n * 0)

    def _step(self) -> int | None:
        return self.stride
