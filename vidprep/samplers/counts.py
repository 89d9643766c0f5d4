"""How many clips each unit gives, from as little as the policy looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import SamplingError
from vidprep.records import Timeline
from vidprep.samplers.indexed import IndexPolicy

if TYPE_CHECKING:
    from vidprep.samplers.policy import Policy, Within
    from vidprep.samplers.segments import Units
    from vidprep.timebase import IntArray

__all__ = ["clips_of_each"]


def clips_of_each(units: Units, videos: Any, policy: Policy) -> int | IntArray:
    """Clips of each unit: int64[count], or one number where all units give the same; 0 = refused or unreadable.

    Where the count follows from the number of frames the policy is asked once for each distinct number, else once for
    each unit, which reads its timeline.
    """
    frames = frames_of_each(units, videos)
    if not _looks_at_times(policy):
        counts = _by_number(frames, policy)
    else:
        counts = np.array([_count(policy, *_asked(units, videos, unit)) for unit in range(units.count)], dtype=np.int64)
    if len(counts) and (counts == counts[0]).all():
        return int(counts[0])
    return counts


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
