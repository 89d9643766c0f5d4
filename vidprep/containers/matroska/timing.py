"""When each frame of a walked track is shown, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.matroska.blocks import DURATION, KEY, LACE, LACES, TIME
from vidprep.containers.matroska.tracks import CODED_ORDER
from vidprep.errors import Reason
from vidprep.records import Finding

if TYPE_CHECKING:
    from vidprep.containers.matroska.tracks import Track
    from vidprep.timebase import IntArray

#: Block times are int16, relative to the cluster's: a fall by more than this between neighbours is an overflow.
_WRAP = 1 << 16
#: Pictures that any codec may reorder by (H.264 and HEVC keep at most 16), and one.
_MAX_REORDER = 17
#: A DefaultDuration further than this factor from the median of the block times is not believed.
_LIE_FACTOR = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTimes:
    """Times of rows, in ticks."""

    pts: IntArray
    duration: IntArray
    order: IntArray | None
    """all rows in presentation order, where that is not the order of pts"""
    findings: tuple[Finding, ...] = ()


def row_times(columns: IntArray, cluster_rows: list[int], video: Track, ns_per_tick: int) -> RowTimes:
    """Times and order of the rows that `Walk` collected.

    Args:
        columns: int64[NUM_COLUMNS, n], the walk's rows.
        cluster_rows: rows at which clusters start.
        video: their track.
        ns_per_tick: TimestampScale.
    """
    claimed = _ticks(video.default_duration_ns, ns_per_tick)
    pts = columns[TIME] - _ticks(video.codec_delay_ns, ns_per_tick)
    block_ns = columns[LACES] * video.default_duration_ns // ns_per_tick
    block = np.where(columns[DURATION] >= 0, columns[DURATION], block_ns)
    pts = _spread_laces(pts, columns, block)
    linear, wrap_row = _unwrap(pts, cluster_rows)
    median = _median_delta(linear)
    lies = bool(claimed and median and not 1 / _LIE_FACTOR < claimed / median < _LIE_FACTOR)
    order = _order(linear, columns[KEY], (video.codec or "") in CODED_ORDER, median)
    if order is None and linear is not pts:
        order = np.argsort(linear, kind="stable")
    own = block // columns[LACES] if not lies else np.maximum(columns[DURATION], 0) // columns[LACES]
    return RowTimes(
        pts=pts,
        duration=np.where(own > 0, own, claimed if claimed and not lies else median),
        order=order,
        findings=(*_lie_finding(lies, claimed, median), *_wrap_finding(wrap_row)),
    )


def _ticks(nanoseconds: int, ns_per_tick: int) -> int:
    return (nanoseconds + ns_per_tick // 2) // ns_per_tick


def _spread_laces(pts: IntArray, columns: IntArray, block: IntArray) -> IntArray:
    """Times of laced frames: frame n of N starts n/N of the block's duration after the block.

    Without a duration, n/N of the way to the next block.
    """
    laces = columns[LACES]
    if not len(laces) or int(laces.max()) < 2:
        return pts
    starts = np.flatnonzero(np.diff(pts, prepend=pts[0] - 1))
    ends = np.append(pts[starts[1:]], 2 * pts[starts[-1]] - (pts[starts[-2]] if len(starts) > 1 else pts[starts[-1]]))
    to_next = np.repeat(ends - pts[starts], np.diff(np.append(starts, len(pts))))
    length = np.where(block > 0, block, np.maximum(to_next, 0))
    spread: IntArray = pts + length * columns[LACE] // laces
    return spread


def _unwrap(pts: IntArray, cluster_rows: list[int]) -> tuple[IntArray, int | None]:
    """Times without the overflows of int16 inside clusters, and the first row after one; `pts` itself if none."""
    steps = np.diff(pts, prepend=pts[:1])
    steps[[row for row in cluster_rows if row < len(pts)]] = 0
    falls = np.flatnonzero(steps < -_WRAP // 2)
    if not len(falls):
        return pts, None
    bounds = np.array([*cluster_rows, len(pts)])
    linear = pts.copy()
    for cluster in np.unique(np.searchsorted(bounds, falls, side="right")):
        first, last = int(bounds[cluster - 1]), int(bounds[cluster])
        wraps = 0
        for row in range(first, last):
            wraps = max(wraps - (steps[row] > _WRAP // 2) + (steps[row] < -_WRAP // 2), 0)
            linear[row] += wraps * _WRAP
    return linear, int(falls[0])


def _order(linear: IntArray, key: IntArray, coded_order: bool, median: int) -> IntArray | None:
    """Presentation order of the rows, or None where sorting by time is right.

    Times may start again lower (joined recordings): no codec lets a key picture be shown before what was coded before
    it, so a key row that falls back by more than any reordering starts a new run, shown after the one before.
    """
    rising = len(linear) < 2 or bool((linear[1:] >= linear[:-1]).all())
    if rising:
        return None
    if coded_order:
        return np.arange(len(linear))
    keys = np.flatnonzero(key)
    if not len(keys):
        return None
    latest = np.maximum.reduceat(linear, keys)
    slack = _MAX_REORDER * median
    runs = np.zeros(len(linear), np.int64)
    highest = int(linear[: keys[0]].max()) if keys[0] else int(linear[0])
    for row, high in zip(keys.tolist(), latest.tolist(), strict=True):
        if linear[row] < highest - slack:
            runs[row] = 1
            highest = high
        highest = max(highest, high)
    return np.lexsort((linear, np.cumsum(runs))) if runs.any() else None


def _median_delta(pts: IntArray) -> int:
    """Median distance of neighbouring times; 0 for fewer than two different ones."""
    deltas = np.diff(np.sort(pts))
    deltas = deltas[deltas > 0]
    return round(float(np.median(deltas))) if len(deltas) else 0


def _lie_finding(lies: bool, claimed: int, median: int) -> tuple[Finding, ...]:
    message = f"DefaultDuration claims {claimed} ticks a frame, the blocks are {median} apart; their times count"
    return (Finding(reason=Reason.CORRUPT_TABLE, message=message),) if lies else ()


def _wrap_finding(row: int | None) -> tuple[Finding, ...]:
    message = f"times relative to the cluster overflow at row {row}: frames are in file order, times as stored"
    return () if row is None else (Finding(reason=Reason.CORRUPT_TABLE, message=message),)
