"""`IndexPolicy`: policies that look at nothing but the number of frames, for one video or many by the same formula."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vidprep.samplers.draws import Draw, ManyDraws, key_table, states_of
from vidprep.samplers.padding import resolve
from vidprep.samplers.policy import Key, Places, Policy, Within
from vidprep.samplers.spec import BoolArray, DecodeSpec, FrameRange
from vidprep.timebase import FloatArray, IntArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.records import Timeline

__all__ = ["Draws", "IndexPolicy", "Number", "all_seconds", "positive", "steps"]

#: One number, or an int64[V, 1] of them: the formulas below use only operators that serve both.
Number = int | IntArray


class Draws(Protocol):
    """Draws for one clip (`Draw`: plain ints) or for many at once (`ManyDraws`: a column of them)."""

    def below(self, bound: Any, lane: int = 0) -> Any:
        """Uniform in [0, bound)."""

    def below_each(self, bounds: IntArray) -> IntArray:
        """Uniform in [0, bound), one for each bound."""


def positive(value: Number) -> Number:
    """max(value, 0)."""
    return value * (value > 0)


@lru_cache(maxsize=256)
def steps(frames: int, stride: int = 1) -> IntArray:
    """int64[frames]: 0, stride, 2·stride, ... (shared: read only)."""
    result = np.arange(frames, dtype=np.int64) * stride
    result.setflags(write=False)
    return result


@dataclass(frozen=True, kw_only=True)
class IndexPolicy(Policy):
    """A policy whose places are a formula of the number of frames n, the clip's number, and random numbers."""

    @abstractmethod
    def _clips(self, n: int) -> int:
        """How many clips n frames give."""

    @abstractmethod
    def _relative(self, n: Number, clip: Number, draws: Draws) -> IntArray:
        """int64[F] or int64[V, F]: places, counted from the first frame of the range."""

    def _step(self) -> int | None:
        """Distance of neighbouring places, where it is one number above 0."""
        return None

    def _is_inside(self) -> bool:
        """Whether every place lies inside the range, however short it is."""
        return False

    def _is_rectangular(self) -> bool:
        """Whether F is the same for every video."""
        return True

    def _count(self, timeline: Timeline, low: int, high: int) -> int:
        del timeline
        return self._clips(high - low)

    def _place(self, timeline: Timeline, low: int, high: int, draw: Draw, clip: int) -> Places:
        del timeline
        frames = self._relative(high - low, clip, draw)
        return Places(frames + low if low else frames, self._step(), inside=self._is_inside())

    def choose_many(
        self,
        timelines: Sequence[Timeline],
        keys: Sequence[Key] | IntArray,
        within: Sequence[Within | None] | None = None,
        clips: Sequence[int] | None = None,
    ) -> list[DecodeSpec]:
        """As `Policy.choose_many`, by array arithmetic over all videos at once."""
        windows = _windows(timelines, within)
        numbers = np.zeros(len(timelines), np.int64) if clips is None else np.asarray(clips, dtype=np.int64)
        if windows is None or self.snap or self.compat or not self._is_rectangular():
            return super().choose_many(timelines, keys, within, clips)
        if numbers.any() and not self._all_exist(windows, numbers):
            return super().choose_many(timelines, keys, within, clips)
        low, high = windows[:, :1], windows[:, 1:]
        draws = ManyDraws(states_of(key_table(keys), numbers)[:, None])
        places = low + self._relative(high - low, numbers[:, None], draws)
        places = np.broadcast_to(places, (len(timelines), places.shape[1]))
        outside: BoolArray = np.asarray((places < low) | (places >= high))
        if not outside.any():
            return self._specs(timelines, windows, places, places, outside)
        odd: BoolArray = np.asarray(outside.any(axis=1))
        if self.pad not in ("none", "drop", "error"):
            index, is_padding = resolve(places, low, high, self.pad)
            return self._specs(timelines, windows, places, index, is_padding)
        specs = self._specs(timelines, windows, places, np.where(odd[:, None], low, places), outside)
        for place in np.flatnonzero(odd).tolist():  # shortened, or refused
            specs[place] = super().choose_many(
                [timelines[place]], [tuple(keys[place])], [tuple(windows[place].tolist())], [int(numbers[place])]
            )[0]
        return specs

    def _all_exist(self, windows: IntArray, numbers: IntArray) -> bool:
        return all(
            0 <= clip < self._clips(n)
            for n, clip in zip((windows[:, 1] - windows[:, 0]).tolist(), numbers.tolist(), strict=True)
        )

    def _specs(
        self, timelines: Sequence[Timeline], windows: IntArray, places: IntArray, index: IntArray, is_padding: BoolArray
    ) -> list[DecodeSpec]:
        seconds = all_seconds(timelines, index)
        spans = self._spans(timelines, windows, places, index, is_padding)
        fill = self.fill_value
        return [
            DecodeSpec(frame_index=frames, pts_seconds=times, is_padding=mask, fill_value=fill, span=span)
            for frames, times, mask, span in zip(index, seconds, is_padding, spans, strict=True)
        ]

    def _spans(
        self, timelines: Sequence[Timeline], windows: IntArray, places: IntArray, index: IntArray, is_padding: BoolArray
    ) -> Sequence[FrameRange | None]:
        stride = self._step()
        if stride is None:
            return [None] * len(timelines)
        length = index.shape[1]
        spans: list[FrameRange | None] = [FrameRange(first, length, stride, "none") for first in index[:, 0].tolist()]
        for v in np.flatnonzero(is_padding.any(axis=1)).tolist():
            spans[v] = self._padded_span(timelines[v], Places(places[v], stride), (windows[v, 0], windows[v, 1]))
        return spans


def _windows(timelines: Sequence[Timeline], within: Sequence[Within | None] | None) -> IntArray | None:
    """int64[V, 2]: the range of each video; None where one of them is empty or wrong (`choose` says which)."""
    counts = np.fromiter((len(timeline.pts) for timeline in timelines), np.int64, len(timelines))
    windows = np.stack([np.zeros_like(counts), counts], axis=1)
    if within is not None:
        given = [v for v, window in enumerate(within) if window is not None]
        windows[given] = np.array([within[v] for v in given], dtype=np.int64).reshape(-1, 2)
    low, high = windows.T
    return windows if bool(((low >= 0) & (low < high) & (high <= counts)).all()) else None


def all_seconds(timelines: Sequence[Timeline], index: IntArray) -> FloatArray:
    """float64[V, F]: presentation times, by the arithmetic of `vidprep.timebase.to_seconds`; nan for index -1."""
    ticks = np.empty(index.shape, np.int64)
    for row, frames, timeline in zip(ticks, index, timelines, strict=True):
        row[:] = timeline.pts[frames]
    bases = [timeline.time_base for timeline in timelines]
    num = np.array([base.numerator for base in bases], np.float64)[:, None]
    den = np.array([base.denominator for base in bases], np.float64)[:, None]
    seconds: FloatArray = ticks * num / den
    seconds[index < 0] = np.nan
    return seconds
