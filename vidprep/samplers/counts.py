"""How many clips each unit gives, from as little as the policy looks at."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vidprep.errors import SamplingError
from vidprep.records import Timeline
from vidprep.samplers.indexed import IndexPolicy
from vidprep.samplers.keyframes import Keyframes
from vidprep.samplers.lists import FrameList
from vidprep.timebase import parse_time_base

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from vidprep.samplers.policy import Policy, Within
    from vidprep.samplers.segments import Units
    from vidprep.timebase import IntArray

__all__ = ["clips_of_each"]


#: Units whose columns are Python's numbers at the same time.
BLOCK = 1 << 15
#: Below it a float64, as which a column with nulls comes, is the integer that was stored.
WHOLE = 1 << 53


def clips_of_each(units: Units, videos: Any, policy: Policy) -> int | IntArray:
    """Clips of each unit: int64[count], or one number where all units give the same; 0 = refused or unreadable.

    Where the count follows from the number of frames the policy is asked once for each distinct number. Where it follows
    from times or key frames, videos of constant rate are told by the index's columns (about 2 µs a video); only the others,
    and rows of a clips table, are asked with their timelines, which are read one after the other (50 µs and more a video,
    one in memory at a time).
    """
    frames = frames_of_each(units, videos)
    counts = _by_times(units, videos, policy, frames) if _looks_at_times(policy) else _by_number(frames, policy)
    if len(counts) and (counts == counts[0]).all():
        return int(counts[0])
    return counts


def _by_times(units: Units, videos: Any, policy: Policy, frames: IntArray) -> IntArray:
    counts = np.zeros(units.count, np.int64)
    stamps = _stamps(videos, policy) if units.within is None else None
    count_of = lru_cache(maxsize=4096)(lambda stamp: _count(policy, _timeline(stamp)))
    for first in range(0, units.count, BLOCK):
        block = slice(first, first + BLOCK)
        known = [None] * len(frames[block]) if stamps is None else stamps(block)
        for unit, (num_frames, stamp) in enumerate(zip(frames[block].tolist(), known, strict=True), first):
            if stamp is not None:
                counts[unit] = count_of(stamp)
            elif num_frames:
                counts[unit] = _count(policy, *_asked(units, videos, unit))
    return counts


class Stamp(NamedTuple):
    """What tells the times of a video of constant rate."""

    num_frames: int
    first: int
    step: int
    last_duration_ticks: int
    time_base: str


def _timeline(stamp: Stamp) -> Timeline:
    pts = stamp.first + stamp.step * np.arange(stamp.num_frames, dtype=np.int64)
    return Timeline(
        pts=pts,
        time_base=parse_time_base(stamp.time_base),
        last_duration_ticks=stamp.last_duration_ticks,
        keyframes=np.arange(stamp.num_frames),
    )


def _stamps(videos: Any, policy: Policy) -> Callable[[slice], list[Stamp | None]] | None:
    """Stamps of a block of videos, None where columns do not tell all that the policy looks at; None if they never do."""
    if isinstance(policy, Keyframes):  # counts key frames, wherever they lie
        keys = _columns(videos, "num_keyframes")
        if keys is None:
            return None
        return lambda block: [Stamp(int(k), 0, 1, 1, "1/1") if k >= 0 else None for k in keys[0][block].tolist()]
    columns = _columns(videos, "num_frames", "first_pts", "last_pts", "last_duration_ticks", "time_base", "vfr_class")
    if columns is None:
        return None
    from_zero = not isinstance(policy, FrameList)  # others count times from the first frame
    return lambda block: [_stamp(row, from_zero) for row in zip(*(c[block].tolist() for c in columns), strict=True)]


def _stamp(row: tuple[Any, ...], from_zero: bool) -> Stamp | None:
    n, first, last, lasts, time_base, kind = row
    if kind != "cfr" or not time_base or not (n > 0 and abs(first) < WHOLE and abs(last) < WHOLE):  # nan is neither
        return None
    step, rest = divmod(int(last) - int(first), max(int(n) - 1, 1))
    if rest:
        return None
    return Stamp(int(n), 0 if from_zero else int(first), step, int(lasts) if lasts == lasts else 0, time_base)


def _columns(videos: Any, *names: str) -> list[npt.NDArray[Any]] | None:
    if not hasattr(videos, "column"):
        return None
    try:
        return [np.asarray(videos.column(name)) for name in names]
    except (KeyError, ValueError):  # a collection that has not all of them
        return None


def _looks_at_times(policy: Policy) -> bool:
    """Whether the number of clips (not where they lie) depends on more than the number of frames."""
    if isinstance(policy, IndexPolicy):
        return policy.pad == "drop" and bool(getattr(policy, "seconds", ()))
    return policy.pad == "drop" or getattr(policy, "place", "") == "dense"


def frames_of_each(units: Units, videos: Any) -> IntArray:
    """int64[count]: frames that each unit's clips may use."""
    if units.within is not None:
        return (units.within[:, 1] - units.within[:, 0]).astype(np.int64)
    if hasattr(videos, "column"):
        numbers = np.asarray(videos.column("num_frames"))
        return np.nan_to_num(numbers).astype(np.int64) if numbers.dtype.kind == "f" else numbers.astype(np.int64)
    return np.array([timeline_of(video).num_frames for video in videos], dtype=np.int64)


def timeline_of(video: Any) -> Timeline:
    """A video's timeline; timelines may stand for themselves."""
    return video if isinstance(video, Timeline) else video.timeline


def _asked(units: Units, videos: Any, unit: int) -> tuple[Timeline, Within | None]:
    return timeline_of(videos[units.video_of(unit)]), units.within_of(unit)


def _by_number(frames: IntArray, policy: Policy) -> IntArray:
    if len(frames) and int(frames.min()) >= 0 and int(frames.max()) < 1 << 24:  # a table is quicker than sorting
        table = np.zeros(int(frames.max()) + 1, np.int64)
        for n in np.flatnonzero(np.bincount(frames)).tolist():
            table[n] = _count(policy, Timeline.regular(n))
        return table[frames]
    distinct, place = np.unique(frames, return_inverse=True)
    return np.array([_count(policy, Timeline.regular(n)) for n in distinct.tolist()], dtype=np.int64)[place]


def _count(policy: Policy, timeline: Timeline, within: Within | None = None) -> int:
    """Clips of one unit; 0 where the policy refuses it, which must not end the plan."""
    try:
        return policy.num_clips(timeline, within)
    except SamplingError:
        return 0
