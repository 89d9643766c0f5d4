"""Frames spread over the whole video: Uniform, Segments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers.checks import LIMIT
from vidprep.samplers.draws import FEW, Draw
from vidprep.samplers.indexed import Draws, IndexPolicy, Number, positive, steps
from vidprep.samplers.ranges import COUNT

if TYPE_CHECKING:
    from vidprep.timebase import IntArray

__all__ = ["Segments", "Uniform", "torch_linspace"]


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
