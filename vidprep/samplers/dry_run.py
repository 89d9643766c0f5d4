"""What a policy would do to a collection: clips yielded, padded, refused and why; no file is touched."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from vidprep.errors import SamplingError, VidprepError
from vidprep.samplers.counts import timeline_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vidprep.samplers.plan import Plan, PlannedClip

__all__ = ["DryRun", "dry_run", "planned_clips"]

CHUNK = 1024


@dataclass(kw_only=True)
class Refusals:
    """Clips refused for one reason."""

    count: int
    example: str
    """uri and message of the first"""


@dataclass(kw_only=True)
class DryRun:
    """Counts over the places of an epoch."""

    clips: int = 0
    """places that give a clip"""
    padded_clips: int = 0
    places: int = 0
    """frames of all clips, padding included"""
    padded_places: int = 0
    cost_bound: int = 0
    """most pictures that must be decoded for all of them"""
    refused_videos: int = 0
    """units that no place asks for"""
    refused_clips: int = 0
    """places whose clip is refused; a loader replaces them"""
    reasons: dict[str, Refusals] = field(default_factory=dict)
    """by message, its numbers as N"""

    def add(self, clip: PlannedClip) -> None:
        """Count a clip."""
        padded = int(clip.spec.is_padding.sum())
        self.clips += 1
        self.padded_clips += padded > 0
        self.places += len(clip.spec)
        self.padded_places += padded
        self.cost_bound += clip.cost_bound

    def refuse(self, uri: str, error: VidprepError) -> None:
        """Count a refusal under its reason."""
        reason = re.sub(r"-?\d+(\.\d+)?", "N", str(error).removeprefix(f"{uri}: "))
        found = self.reasons.setdefault(reason, Refusals(count=0, example=f"{uri}: {error}" if uri else str(error)))
        found.count += 1


def planned_clips(
    plan: Plan, epoch: int, positions: Iterable[int], refuse: Callable[[int, VidprepError], None]
) -> Iterator[PlannedClip]:
    """The clips at these places; `refuse(position, error)` is told of those that cannot be."""
    rest = iter(positions)
    while chunk := tuple(islice(rest, CHUNK)):
        try:
            yield from plan.clips(epoch, chunk)
        except VidprepError:
            for position in chunk:
                try:
                    yield plan.clip(epoch, position)
                except VidprepError as error:
                    refuse(position, error)


def dry_run(
    plan: Plan, epoch: int = 0, *, limit: int | None = None, progress: Callable[[int], None] | None = None
) -> DryRun:
    """Count what an epoch gives.

    Args:
        plan: the plan.
        epoch: which epoch.
        limit: look at this many places only; None = all.
        progress: told how many places are done, now and then.
    """
    run = DryRun()
    total = len(plan) if limit is None else min(limit, len(plan))

    def refuse(position: int, error: VidprepError) -> None:
        run.refused_clips += 1
        run.refuse(_uri(plan, plan.unit(epoch, position)[0]), error)

    for clip in planned_clips(plan, epoch, range(total), refuse):
        run.add(clip)
        if progress is not None and run.clips % CHUNK == 0:
            progress(run.clips + run.refused_clips)
    for unit in plan.refused[:limit].tolist():
        run.refused_videos += 1
        run.refuse(_uri(plan, unit), _why(plan, unit))
    return run


def _uri(plan: Plan, unit: int) -> str:
    return str(getattr(plan.videos[plan.units.video_of(unit)], "uri", ""))


def _why(plan: Plan, unit: int) -> VidprepError:
    """The error with which a unit that gives no clip is refused."""
    video: Any = plan.videos[plan.units.video_of(unit)]
    if getattr(video, "status", "ok") != "ok":  # a row of an index
        return SamplingError(f"unreadable: {video['error_reason']}")
    try:
        plan.policy.choose(timeline_of(video), within=plan.units.within_of(unit))
    except VidprepError as error:
        return error
    return SamplingError("gives no clip")
