"""`IndexPolicy`: policies that look at nothing but the number of frames, for one video or many by the same formula."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vidprep.samplers.draws import Draw, ManyDraws, key_table, states_of
from vidprep.samplers.many import SharedTimes
from vidprep.samplers.padding import resolve
from vidprep.samplers.policy import Key, Places, Policy, Within
from vidprep.samplers.spec import BoolArray, DecodeSpec, FillValue, FrameRange
from vidprep.timebase import IntArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.records import Timeline

__all__ = ["Draws", "IndexPolicy", "Number", "masks_of", "positive", "specs_of", "steps"]

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
        odd = steps(0) if self._is_inside() else self._run_out(places, low, high)
        if not len(odd):
            return specs_of(timelines, places, stride=self._step(), fill_value=self.fill_value)
        index = places.copy()
        if self.pad not in ("none", "drop", "error"):
            index[odd], is_padding = resolve(places[odd], low[odd], high[odd], self.pad)
            masks = masks_of(is_padding, odd, len(timelines))
            spans = self._spans(timelines, places, windows, masks)
            return specs_of(timelines, index, masks, spans, stride=self._step(), fill_value=self.fill_value)
        index[odd] = low[odd]
        specs = specs_of(timelines, index, stride=self._step(), fill_value=self.fill_value)
        for v in odd.tolist():  # shortened, or refused
            window = (int(low[v, 0]), int(high[v, 0]))
            specs[v] = self.choose(timelines[v], tuple(keys[v]), window, int(numbers[v]))
        return specs

    def _run_out(self, places: IntArray, low: IntArray, high: IntArray) -> IntArray:
        """Numbers of the clips that have a place outside their range."""
        if self._step() is not None:
            return np.flatnonzero((places[:, 0] < low[:, 0]) | (places[:, -1] >= high[:, 0]))
        return np.flatnonzero(((places < low) | (places >= high)).any(axis=1))

    def _spans(
        self, timelines: Sequence[Timeline], places: IntArray, windows: IntArray, masks: Sequence[BoolArray | None]
    ) -> list[FrameRange | None]:
        """The ranges of padded clips where DALI can pad them."""
        spans: list[FrameRange | None] = [None] * len(masks)
        stride, bounds = self._step(), windows.tolist()
        if stride is not None:
            for v in (v for v, mask in enumerate(masks) if mask is not None):
                spans[v] = self._padded_span(timelines[v], Places(places[v], stride), tuple(bounds[v]))
        return spans

    def _all_exist(self, windows: IntArray, numbers: IntArray) -> bool:
        return all(
            0 <= clip < self._clips(n)
            for n, clip in zip((windows[:, 1] - windows[:, 0]).tolist(), numbers.tolist(), strict=True)
        )


def _windows(timelines: Sequence[Timeline], within: Sequence[Within | None] | None) -> IntArray | None:
    """int64[V, 2]: the range of each video; None where one of them is empty or wrong (`choose` says which)."""
    counts = np.array([len(timeline.pts) for timeline in timelines], np.int64)
    windows = np.stack([np.zeros_like(counts), counts], axis=1)
    if within is not None:
        given = [v for v, window in enumerate(within) if window is not None]
        windows[given] = np.array([within[v] for v in given], dtype=np.int64).reshape(-1, 2)
    low, high = windows.T
    return windows if bool(((low >= 0) & (low < high) & (high <= counts)).all()) else None


def masks_of(is_padding: BoolArray, rows: IntArray | None = None, count: int = 0) -> list[BoolArray | None]:
    """The rows of bool[R, F] that have something set, None for others; `rows` = where among `count` they stand."""
    marked = np.logical_or.reduce(is_padding, axis=1).tolist()
    masks = [mask if some else None for mask, some in zip(is_padding, marked, strict=True)]
    if rows is None:
        return masks
    spread: list[BoolArray | None] = [None] * count
    for v, mask in zip(rows.tolist(), masks, strict=True):
        spread[v] = mask
    return spread


def specs_of(
    timelines: Sequence[Timeline], index: IntArray, masks: Sequence[BoolArray | None] | None = None,
    spans: Sequence[FrameRange | None] | None = None, *,
    stride: int | None = None, fill_value: FillValue = 0, rate_fps: float | None = None,
) -> list[DecodeSpec]:  # fmt: skip
    """Specs of V clips.

    Args:
        timelines: V videos.
        index: int64[V, F].
        masks: V times is_padding, where a clip has some; None = no clip has.
        spans: V ranges, of clips with padding; None = no clip has one.
        stride: distance of neighbours in clips without padding, where they are ranges.
        fill_value: as in `DecodeSpec`.
        rate_fps: as in `DecodeSpec`.
    """
    times = SharedTimes(timelines, index)
    if masks is None:
        return [
            DecodeSpec(frames, times, None, v, stride=stride, fill_value=fill_value, rate_fps=rate_fps)
            for v, frames in enumerate(index)
        ]
    return [
        DecodeSpec(
            frames, times, mask, v, stride=stride if mask is None else None, fill_value=fill_value,
            span=span, rate_fps=rate_fps,
        )
        for v, (frames, mask, span) in enumerate(zip(index, masks, spans or [None] * len(masks), strict=True))
    ]  # fmt: skip
