"""Which rows and byte ranges a set of frames needs: arithmetic over the sample table, no byte of the file touched."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import DecodeError
from vidprep.records import SampleFlag
from vidprep.timebase import unchecked

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.records import SampleTable
    from vidprep.timebase import IntArray

#: Neighbouring byte ranges with gaps up to this become one read.
LOCAL_MAX_GAP_BYTES = 64 << 10
REMOTE_MAX_GAP_BYTES = 1 << 20

_ROW_0 = np.zeros(1, np.int64)
_RESTART = int(SampleFlag.RESTART)  # an enum's own operators are slow


@dataclass(frozen=True, kw_only=True)
class CutPlan:
    """What to read and what to decode."""

    frames: IntArray
    """int64[u]: the distinct wanted frame indices, ascending"""
    frame_rows: IntArray
    """int64[u]: the row of the sample table that gives each of them"""
    frame_places: IntArray
    """int64[u]: where in `rows` each of those is"""
    rows: IntArray
    """int64[p]: candidate rows in decode order, from the covering key rows to the last wanted row"""
    offset: IntArray
    """int64[p]: where in the file each begins"""
    size: IntArray
    """int64[p] bytes"""
    segments: IntArray
    """int64[s, 2]: first and last row of each run that is decoded from a key row of its own, ascending, disjoint"""
    starts: tuple[tuple[int, int], ...]
    """(row, place in `rows`) of each of their first ones"""
    leading_rows: IntArray
    """int64: rows that are not wanted and precede their segment's key row in presentation"""
    reads: tuple[tuple[int, int], ...]
    """(offset, size) of each read, ascending, merged"""


def plan_cut(
    table: SampleTable,
    frames: IntArray,
    *,
    max_gap_bytes: int = LOCAL_MAX_GAP_BYTES,
    key_rows: IntArray | None = None,
    may_be_fields: bool = False,
) -> CutPlan:
    """The rows and byte ranges that the distinct frames need.

    Args:
        table: the video's coded samples.
        frames: int64[f] frame indices in any order, repeats allowed; they cost nothing.
        max_gap_bytes: byte ranges that lie no further apart become one read.
        key_rows: rows to start from, ascending, where they are fewer than the table claims.
        may_be_fields: a row that shows no frame may be the second field of the one before it.

    Raises:
        DecodeError: a frame does not exist.
    """
    frames = _distinct(frames)
    if len(frames) and (frames.item(0) < 0 or frames.item(-1) >= table.num_frames):
        wrong = frames.item(0) if frames.item(0) < 0 else frames.item(-1)
        raise DecodeError(f"the video has {table.num_frames} frames", frame_index=wrong)
    frame_rows = table.frame_rows[frames]
    last_rows = _with_second_fields(table, frame_rows) if may_be_fields else frame_rows
    segments = _segments(table, frame_rows, last_rows, key_rows)
    edges = np.array(segments, np.int64).reshape(-1, 2)
    whole: slice | IntArray
    if len(segments) == 1:
        ((first, last),) = segments
        rows, whole, frame_places = np.arange(first, last + 1), slice(first, last + 1), frame_rows - first
    else:
        rows = whole = _rows_from_to(edges)
        frame_places = rows.searchsorted(frame_rows)
    offset, size = table.offset[whole], table.size[whole]
    return unchecked(
        CutPlan,
        frames=frames,
        frame_rows=frame_rows,
        frame_places=frame_places,
        rows=rows,
        offset=offset,
        size=size,
        segments=edges,
        starts=_starts(segments),
        leading_rows=_leading_rows(table, rows, edges, frame_rows),
        reads=_merged(offset, size, max_gap_bytes),
    )


def start_rows(table: SampleTable, rows: IntArray, key_rows: IntArray | None = None) -> IntArray:
    """int64: the row from which decoding must start to give each of `rows`.

    A frame shown before its key frame belongs to an open GOP: its references lie in the GOP before. Rows before
    the first key row start at row 0.
    """
    keys = table.key_rows if key_rows is None else key_rows
    if len(keys) == 0 or keys[0] != 0:
        keys = np.concatenate((_ROW_0, keys))
    place = keys.searchsorted(rows, side="right") - 1
    starts: IntArray = keys[place]
    leading = is_before(table, rows, starts)
    if leading.any():
        leading &= table.flags[starts] & _RESTART == 0
        starts = keys[np.maximum(place - leading, 0)]
    return starts


def is_before(table: SampleTable, rows: IntArray, others: IntArray) -> npt.NDArray[np.bool_]:
    """Whether each row is shown before the other: by their times, or by the frames' order where times jump back."""
    times = table.pts
    if table.order is not None:
        times = np.full(len(table), len(table), np.int64)  # rows that are not shown come before none
        times[table.order] = np.arange(len(table.order))
    before: npt.NDArray[np.bool_] = times[rows] < times[others]
    return before


def _distinct(frames: IntArray) -> IntArray:
    frames = np.asarray(frames, dtype=np.int64).reshape(-1)
    if len(frames) < 2 or (frames[1:] > frames[:-1]).all():
        return frames
    return np.unique(frames)


def _with_second_fields(table: SampleTable, rows: IntArray) -> IntArray:
    """The last row of each frame."""
    following = np.minimum(rows + 1, len(table) - 1)
    return np.where(table.flags[following] & SampleFlag.SHOWN, rows, following)


def _segments(
    table: SampleTable, rows: IntArray, last_rows: IntArray, key_rows: IntArray | None
) -> list[tuple[int, int]]:
    """Disjoint (first, last) rows, ascending."""
    starts = start_rows(table, rows, key_rows)
    if len(rows) and (starts == starts[0]).all():
        return [(starts.item(0), int(last_rows.max()))]
    segments: list[tuple[int, int]] = []
    first, last = -1, -2
    for start, row in sorted(zip(starts.tolist(), last_rows.tolist(), strict=True)):
        if start <= last or (start == last + 1 and not table.flags.item(start) & _RESTART):
            segments.pop()
        else:
            first = start
        last = max(last, row)
        segments.append((first, last))
    return segments


def _rows_from_to(edges: IntArray) -> IntArray:
    """All rows of the segments, one behind the other."""
    lengths = edges[:, 1] - edges[:, 0] + 1
    stops = lengths.cumsum()
    rows: IntArray = np.arange(lengths.sum()) + (edges[:, 0] - stops + lengths).repeat(lengths)
    return rows


def _starts(segments: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """(row, place among the rows of all segments) of each one's first row."""
    places = accumulate((last + 1 - first for first, last in segments), initial=0)
    return tuple((first, place) for (first, _), place in zip(segments, places, strict=False))


def _leading_rows(table: SampleTable, rows: IntArray, segments: IntArray, frame_rows: IntArray) -> IntArray:
    """Unwanted rows that are shown before the key row that their segment starts from.

    Where one of a segment's leading pictures is wanted (the stream begins with them), others may be its references.
    """
    starts, lengths = segments[:, 0], segments[:, 1] - segments[:, 0] + 1
    leading = is_before(table, rows, starts if len(starts) == 1 else starts.repeat(lengths))
    if not np.count_nonzero(leading):
        return rows[:0]
    segment = np.arange(len(starts)).repeat(lengths)
    needed = np.isin(segment, segment[leading & np.isin(rows, frame_rows)])
    return rows[leading & ~needed]


def _merged(offset: IntArray, size: IntArray, max_gap_bytes: int) -> tuple[tuple[int, int], ...]:
    if len(offset) == 0:
        return ()
    ends = offset + size
    apart = _apart(offset, ends, max_gap_bytes)
    if any(offset.item(place + 1) < ends.item(place) for place in apart):
        order = np.argsort(offset, kind="stable")
        offset, ends = offset[order], np.maximum.accumulate(ends[order])
        apart = (offset[1:] - ends[:-1] > max_gap_bytes).nonzero()[0].tolist()
    starts, stops = [0, *(place + 1 for place in apart)], [*apart, len(ends) - 1]
    return tuple((offset.item(a), ends.item(b) - offset.item(a)) for a, b in zip(starts, stops, strict=True))


def _apart(offset: IntArray, ends: IntArray, max_gap_bytes: int) -> list[int]:
    """Places behind which there is a large gap, or an overlap, which is one of nearly 2 ** 64 without its sign."""
    gaps = (offset[1:] - ends[:-1]).astype(np.int64, copy=False).view(np.uint64)
    apart: list[int] = (gaps > max_gap_bytes).nonzero()[0].tolist()
    return apart
