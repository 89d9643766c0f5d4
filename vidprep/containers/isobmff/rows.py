"""From samples to the rows of a SampleTable: edits applied, what cannot be decoded left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.isobmff.edits import apply_edits, time_offset
from vidprep.containers.isobmff.tables import Notes
from vidprep.containers.losses import behind_losses
from vidprep.errors import Reason
from vidprep.records import SampleFlag, SampleTable
from vidprep.timebase import unchecked

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.containers.isobmff.edits import DeniesKey, Edit
    from vidprep.containers.isobmff.tables import Samples
    from vidprep.timebase import IntArray

_KEY, _SHOWN, _RESTART = (np.uint8(flag) for flag in (SampleFlag.KEY, SampleFlag.SHOWN, SampleFlag.RESTART))


@dataclass(slots=True, kw_only=True)
class RowTable:
    """Columns of rows in the order in which a decoder is fed."""

    offset: IntArray
    size: IntArray
    pts: IntArray
    flags: npt.NDArray[np.uint8]
    duration: IntArray
    entry: IntArray | None = None
    """1-based sample description; None = 1"""
    segment: IntArray | None = None
    """number of the edit that shows the row, where several do"""

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: IntArray | npt.NDArray[np.bool_] | slice) -> RowTable:
        """The rows chosen by an index or a mask."""
        return RowTable(
            offset=self.offset[rows],
            size=self.size[rows],
            pts=self.pts[rows],
            flags=self.flags[rows],
            duration=self.duration[rows],
            entry=None if self.entry is None else self.entry[rows],
            segment=None if self.segment is None else self.segment[rows],
        )


def table_rows(samples: Samples, edits: list[Edit], notes: Notes, denies_key: DeniesKey | None = None) -> RowTable:
    """Rows of a sample table, edit list applied."""
    rows = apply_edits(samples, edits, notes, denies_key)
    at = rows.sample
    if isinstance(at, slice) and at.stop is None and not at.start:  # every sample once
        return RowTable(
            offset=samples.offset,
            size=samples.size,
            pts=rows.pts,
            flags=rows.flags,
            duration=samples.duration,
            entry=samples.entry,
        )
    return RowTable(
        offset=samples.offset[at],
        size=samples.size[at],
        pts=rows.pts,
        flags=rows.flags if rows.segment is None else restarting(rows.flags, np.diff(rows.segment).nonzero()[0] + 1),
        duration=samples.duration[at],
        entry=None if samples.entry is None else samples.entry[at],
        segment=rows.segment,
    )


def restarting(flags: npt.NDArray[np.uint8], rows: IntArray) -> npt.NDArray[np.uint8]:
    """Flags with RESTART on those of `rows` that are key rows."""
    flags = flags.copy()
    flags[rows] |= (flags[rows] & _KEY) * _RESTART
    return flags


def fragment_rows(samples: Samples, overlapping: IntArray, edits: list[Edit]) -> RowTable:
    """Rows of fragments. As in FFmpeg the edit list only moves their times; only overlapping rows are hidden."""
    rows = table_rows(samples, [], Notes(0))
    rows.pts = rows.pts - time_offset(edits)
    rows.flags[overlapping] &= ~np.uint8(SampleFlag.SHOWN)
    return rows


def joined(first: RowTable, second: RowTable) -> RowTable:
    """Rows of the sample table followed by those of the fragments."""
    if len(first) == 0:
        return second

    def entries(rows: RowTable) -> IntArray:
        return np.ones(len(rows), np.int64) if rows.entry is None else rows.entry

    columns = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("offset", "size", "pts", "flags", "duration")
    }
    last = None if first.segment is None else int(first.segment[-1]) + 1
    segment = None if last is None else np.concatenate([first.segment, np.full(len(second), last)])
    return RowTable(**columns, entry=np.concatenate([entries(first), entries(second)]), segment=segment)


def sound_rows(rows: RowTable, size_bytes: int, notes: Notes) -> RowTable:
    """Rows whose bytes the file holds, and that what is left can decode.

    Samples of no bytes give no row. After a missing sample nothing is sound up to the next key sample, and pictures
    shown before that key, which may refer to what is missing, are not shown.
    """
    if len(rows) == 0:
        return rows
    if np.count_nonzero(rows.size) < len(rows):
        rows = rows.take(rows.size > 0)
        if len(rows) == 0:
            return rows
    offset, size = rows.offset, rows.size
    nowhere = offset.item(offset.argmin()) < 0
    if not nowhere and offset.item(offset.argmax()) + size.item(size.argmax()) <= size_bytes:
        return rows
    ends = offset + size
    if not nowhere and 0 <= ends.item(ends.view(np.uint64).argmax()) <= size_bytes:
        return rows
    missing = (rows.offset < 0) | (ends > size_bytes) | (ends < 0)
    first = int(np.argmax(missing))
    where = int(rows.offset[first]) if rows.offset[first] >= 0 else None
    sound = rows.take(~missing)
    losses = np.searchsorted((~missing).nonzero()[0], missing.nonzero()[0])
    behind = behind_losses((sound.flags & _KEY) != 0, sound.pts, losses)
    sound.flags = sound.flags & ~(behind.leading * _SHOWN) | behind.restarts * _RESTART
    sound = sound.take(~behind.lost)
    num_shown = np.count_nonzero(sound.flags & _SHOWN)
    notes.add(
        f"{int(missing.sum())} of {len(rows)} samples are not in the file; {num_shown} frames are sound",
        None if where is None else where - notes.base,
        Reason.TRUNCATED,
    )
    return sound


def sample_table(rows: RowTable) -> SampleTable:
    """The public table; where segments of an edit list overlap in time, presentation follows the segments."""
    return unchecked(
        SampleTable, offset=rows.offset, size=rows.size, pts=rows.pts, flags=rows.flags, order=_segment_order(rows)
    )


def _segment_order(rows: RowTable) -> IntArray | None:
    if rows.segment is None:
        return None
    shown = np.flatnonzero(rows.flags & SampleFlag.SHOWN)
    order = shown[np.lexsort((rows.pts[shown], rows.segment[shown]))]
    in_order = bool((np.diff(rows.pts[order]) >= 0).all())
    return None if in_order else order


__all__ = ["RowTable", "fragment_rows", "joined", "restarting", "sample_table", "sound_rows", "table_rows"]
