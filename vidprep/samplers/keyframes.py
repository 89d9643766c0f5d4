"""`Keyframes`: key frames and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers.draws import Draw, ManyDraws, key_table, states_of
from vidprep.samplers.indexed import IndexPolicy, masks_of, specs_of
from vidprep.samplers.many import are_whole
from vidprep.samplers.padding import resolve
from vidprep.samplers.policy import Key, Places, Policy, Within
from vidprep.samplers.ranges import COUNT, First, RandomClip, Strided
from vidprep.samplers.spread import Uniform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.records import Timeline
    from vidprep.samplers.spec import BoolArray, DecodeSpec
    from vidprep.timebase import IntArray

__all__ = ["Keyframes"]


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
