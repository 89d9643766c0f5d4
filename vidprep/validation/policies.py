"""What a sampling policy would do to an index, what its clips cost to decode, and what a shorter GOP would change."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.records import Timeline
from vidprep.samplers.cost import cost_bound
from vidprep.samplers.dry_run import dry_run, planned_clips
from vidprep.samplers.plan import Plan
from vidprep.validation.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.indexes.read import Index
    from vidprep.records import SampleTable, VideoLike
    from vidprep.samplers.plan import PlannedClip
    from vidprep.samplers.policy import Policy

__all__ = ["policy_report", "suggested_gop", "too_short"]

#: Places of an epoch that are counted, and clips whose cost is worked out for other GOPs.
MAX_PLACES, MAX_CLIPS = 20_000, 256
GOPS = (4, 8, 16, 32, 64, 128, 250)
#: A GOP is short enough where a useful frame costs at most so many times what it costs with the shortest one.
GOOD_ENOUGH = 1.25


def policy_report(index: Index, policy: Policy, seed: int = 0) -> dict[str, Any]:
    """A dry run of one epoch.

    Returns:
        `policy, videos, clips` (of an epoch), `looked_at, yielded, padded_clips, padded_places, refused_videos,
        refused_clips, reasons` {message: {count, example}}, `pictures_per_frame` (most pictures decoded for each frame
        that is used) and `gops`: a list of {gop, pictures_per_frame, size_ratio} and `suggested_gop` (None: as it is).
    """
    plan = Plan(index, policy, seed=seed)
    run = dry_run(plan, limit=MAX_PLACES)
    useful = run.places - run.padded_places
    step = max(len(plan) // MAX_CLIPS, 1)
    clips = list(planned_clips(plan, 0, range(0, len(plan), step)[:MAX_CLIPS], lambda *_: None))
    gops = _gops(index, clips)
    return {
        "policy": policy.to_text(),
        "videos": plan.units.count,
        "clips": len(plan),
        "looked_at": min(len(plan), MAX_PLACES),
        "yielded": run.clips,
        "padded_clips": run.padded_clips,
        "padded_places": run.padded_places,
        "refused_videos": len(plan.refused),
        "refused_clips": run.refused_clips,
        "reasons": {reason: asdict(found) for reason, found in run.reasons.items()},
        "pictures_per_frame": run.cost_bound / useful if useful else None,
        "gops": gops,
        "suggested_gop": suggested_gop(gops),
    }


def too_short(index: Index, policy: Policy) -> Iterator[tuple[int, Finding]]:
    """Readable videos that give no clip, as (row, finding)."""
    plan = Plan(index, policy, seed=0)
    for unit in plan.refused.tolist():
        video: Any = index[unit]
        if video.status == "ok":
            message = f"{policy.to_text()} gives no clip of {video['num_frames']} frames"
            yield video.number, Finding(check="too_short", message=message)


def _gops(index: Index, clips: list[PlannedClip]) -> list[dict[str, Any]]:
    """Pictures per useful frame and bytes, as they are (gop None) and if all videos had a key frame every so many."""
    wanted = [(index[clip.video], np.unique(clip.spec.frame_index[~clip.spec.is_padding])) for clip in clips]
    useful = sum(len(frames) for _, frames in wanted)
    if not useful:
        return []
    now = sum(clip.cost_bound for clip in clips) / useful
    tables = {video.number: video.table for video, _ in wanted}
    rows: list[dict[str, Any]] = [{"gop": None, "pictures_per_frame": now, "size_ratio": 1.0}]
    for gop in GOPS:
        cost = sum(_cost(video, frames, gop) for video, frames in wanted) / useful
        rows.append({"gop": gop, "pictures_per_frame": cost, "size_ratio": _size_ratio(list(tables.values()), gop)})
    return rows


def _cost(video: VideoLike, frames: Any, gop: int) -> int:
    n = video.timeline.num_frames
    regular = Timeline(pts=video.timeline.pts, time_base=video.timeline.time_base, keyframes=np.arange(0, n, gop))
    return cost_bound(regular, frames, video.info.reorder_depth)


def _size_ratio(tables: list[SampleTable], gop: int) -> float | None:
    """Bytes with a key frame every `gop` pictures over bytes now, key and other pictures as large as they are now."""
    before = after = 0.0
    for table in tables:
        keys = table.key_rows
        if 0 < len(keys) < len(table):
            total = float(table.size.sum())
            key = float(table.size[keys].mean())
            other = (total - key * len(keys)) / (len(table) - len(keys))
            share = 1 / gop
            before += total
            after += len(table) * (share * key + (1 - share) * other)
    return after / before if before else None


def suggested_gop(gops: list[dict[str, Any]]) -> int | None:
    """The longest GOP that costs about as little as the shortest one; None where the videos already do."""
    if not gops:
        return None
    best = min(row["pictures_per_frame"] for row in gops) * GOOD_ENOUGH
    if gops[0]["pictures_per_frame"] <= best:
        return None
    return max((int(row["gop"]) for row in gops[1:] if row["pictures_per_frame"] <= best), default=None)
