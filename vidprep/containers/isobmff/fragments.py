"""Movie fragments (ISO/IEC 14496-12 8.8): moof/traf/trun walked in file order into sample columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vidprep.containers.isobmff.boxes import FRAGMENT_BYTES, children, i32, top_boxes, u32, u64
from vidprep.containers.isobmff.tables import Notes, Samples
from vidprep.errors import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vidprep.containers.isobmff.boxes import Boxes, Span, TopBox, Window
    from vidprep.records import Finding
    from vidprep.timebase import IntArray

# tf_flags (8.8.7) and tr_flags (8.8.8)
_BASE_DATA_OFFSET, _DESCRIPTION, _DURATION, _SIZE, _FLAGS = 0x01, 0x02, 0x08, 0x10, 0x20
_BASE_IS_MOOF = 0x20000
_RUN_OFFSET, _RUN_FIRST_FLAGS = 0x01, 0x04
_RUN_DURATION, _RUN_SIZE, _RUN_FLAGS, _RUN_COMPOSITION = 0x100, 0x200, 0x400, 0x800
_RUN_FIELDS = (_RUN_DURATION, _RUN_SIZE, _RUN_FLAGS, _RUN_COMPOSITION)
# sample_flags (8.8.3.1)
_NOT_SYNC, _DEPENDS_ON_OTHERS = 0x00010000, 0x01000000
_DEPENDED_ON_MASK, _DEPENDED_ON_BY_NONE = 0x00C00000, 0x00800000


class Defaults(NamedTuple):
    """What a track's samples have unless a fragment says otherwise (trex, then tfhd)."""

    entry: int
    duration: int
    size: int
    flags: int


class Run(NamedTuple):
    """One trun, decoded."""

    offset: IntArray
    size: IntArray
    dts: IntArray
    duration: IntArray
    composition: IntArray
    flags: IntArray
    entry: int
    overlaps: bool
    """starts at or before the last sample of the run before"""


def read_defaults(data: bytes, mvex: Boxes, track_id: int) -> Defaults:
    """The track's trex box; zeros where it has none."""
    for start, end in mvex.get(b"trex", ()):
        if end - start >= 24 and u32(data, start + 4)[0] == track_id:
            return Defaults(*(u32(data, start + at)[0] for at in (8, 12, 16, 20)))
    return Defaults(1, 0, 0, 0)


class FragmentReader:
    """Collects the runs of one track over all fragments of a file."""

    def __init__(self, track_id: int, defaults: Defaults, clock: int, size_bytes: int) -> None:
        self.track_id = track_id
        self.defaults = defaults
        self.clock = clock
        """dts at which the next run starts unless a tfdt says otherwise"""
        self.room = size_bytes
        """samples that may still come: each takes a byte at least"""
        self.size_bytes = size_bytes
        self.runs: list[Run] = []
        self.warnings: list[Finding] = []
        self._last_dts: int | None = None

    def read(self, window: Window, boxes: Iterable[TopBox]) -> None:
        """Walk the top level boxes and decode every moof."""
        window.window_bytes = FRAGMENT_BYTES
        for box in boxes:
            if box.kind == b"moof":
                self._moof(window.get(box.start, box.end - box.start), box)
                if self.room <= 0:
                    break

    def _moof(self, data: bytes, box: TopBox) -> None:
        notes = Notes(box.start)
        if box.claimed_end > box.end:
            notes.add("the last fragment is cut off", 0, Reason.TRUNCATED)
        implicit = box.start
        for span in children(data, box.body - box.start, len(data)).get(b"traf", ()):
            implicit = self._traf(data, span, box.start, implicit, notes)
        self.warnings += notes.found

    def _traf(self, data: bytes, span: Span, moof: int, implicit: int, notes: Notes) -> int:
        """Decode one track fragment; returns where the next one's data starts unless it says otherwise."""
        traf = children(data, *span)
        header = traf.get(b"tfhd", ((0, 0),))[0]
        if header[1] - header[0] < 8:
            return implicit
        flags, position = u32(data, header[0])[0] & 0xFFFFFF, header[0] + 8
        if header[1] - position < 8 * (flags & 1) + 4 * (flags >> 1 & 1) + 4 * (flags >> 3 & 7).bit_count():
            notes.add("tfhd is shorter than its flags say", header[0])
            return implicit
        base = moof if flags & _BASE_IS_MOOF else implicit
        if flags & _BASE_DATA_OFFSET:
            base, position = u64(data, position)[0], position + 8
        values = list(self.defaults)
        for index, bit in enumerate((_DESCRIPTION, _DURATION, _SIZE, _FLAGS)):
            if flags & bit:
                values[index], position = u32(data, position)[0], position + 4
        mine = u32(data, header[0] + 4)[0] == self.track_id
        if mine:
            self._decode_time(data, traf)
        return self._truns(data, traf, base, Defaults(*values), mine, notes)

    def _decode_time(self, data: bytes, traf: Boxes) -> None:
        start, end = traf.get(b"tfdt", ((0, 0),))[0]
        if end - start >= 12 and data[start] == 1:
            time = u64(data, start + 4)[0]
            self.clock = time if time < 1 << 62 else self.clock
        elif end - start >= 8:
            self.clock = u32(data, start + 4)[0]

    def _truns(self, data: bytes, traf: Boxes, base: int, defaults: Defaults, mine: bool, notes: Notes) -> int:
        position = base
        previous = self._last_dts
        for start, end in traf.get(b"trun", ()):
            if end - start < 8:
                continue
            run, position = self._trun(data, start, end, base, position, defaults, mine, notes)
            if run is not None:
                overlaps = previous is not None and int(run.dts[0]) <= previous
                self.runs.append(run._replace(overlaps=overlaps))
                previous = self._last_dts = int(run.dts[-1])
                if self.room <= 0:
                    break
        return position

    def _trun(
        self, data: bytes, start: int, end: int, base: int, position: int, defaults: Defaults, mine: bool, notes: Notes
    ) -> tuple[Run | None, int]:
        """One run, and where its data ends."""
        flags, count = u32(data, start)[0] & 0xFFFFFF, u32(data, start + 4)[0]
        at = start + 8
        if flags & _RUN_OFFSET and end - at >= 4:
            position, at = base + i32(data, at)[0], at + 4
        first_flags = None
        if flags & _RUN_FIRST_FLAGS and end - at >= 4:
            first_flags, at = u32(data, at)[0], at + 4
        width = (flags >> 8 & 15).bit_count()
        count = self._believable(count, end - at, width, bool(flags & _RUN_SIZE), defaults.size, start, notes)
        if count <= 0:
            return None, position
        if not mine and not flags & _RUN_SIZE:
            return None, position + count * defaults.size
        columns = _columns(data, at, count, width, flags, defaults)
        if mine:
            duration, size, sample_flags, composition = columns
            if first_flags is not None:
                sample_flags = sample_flags.copy()
                sample_flags[0] = first_flags
            ends = np.cumsum(size)
            times = np.cumsum(duration)
            run = Run(
                position + ends - size, size, self.clock + times - duration, duration, composition, sample_flags,
                defaults.entry, False,
            )  # fmt: skip
            self.clock += int(times[-1])
            self.room -= count
            return run, position + int(ends[-1])
        return None, position + int(columns[1].sum())

    def _believable(
        self, count: int, held_bytes: int, width: int, sized: bool, default_size: int, start: int, notes: Notes
    ) -> int:
        """The run's sample count; 0 where the box does not hold that many, or the file has no room for them."""
        most = self.room if width == 0 else held_bytes // (4 * width)
        if not sized:
            most = min(most, self.size_bytes // default_size) if default_size else 0
        most = min(most, self.room)
        if count > most:
            notes.add(f"trun claims {count} samples, there is room for {most}: left out", start)
            return 0
        return count


def _columns(data: bytes, at: int, count: int, width: int, flags: int, defaults: Defaults) -> list[IntArray]:
    """duration, size, flags, composition of each sample as int64."""
    table = np.frombuffer(data, ">u4", count * width, at).reshape(count, width) if width else None
    columns: list[IntArray] = []
    column = 0
    for bit, default in zip(_RUN_FIELDS, (defaults.duration, defaults.size, defaults.flags, 0), strict=True):
        if flags & bit and table is not None:
            values = table[:, column]
            columns.append((values.view(">i4") if bit == _RUN_COMPOSITION else values).astype(np.int64))
            column += 1
        else:
            columns.append(np.full(count, default, np.int64))
    return columns


def join_runs(runs: list[Run]) -> tuple[Samples, IntArray]:
    """All runs as one table, and the rows that overlap in time with what came before (FFmpeg discards those)."""
    counts = [len(run.size) for run in runs]
    flags = np.concatenate([run.flags for run in runs])
    dts = np.concatenate([run.dts for run in runs])
    samples = Samples(
        offset=np.concatenate([run.offset for run in runs]),
        size=np.concatenate([run.size for run in runs]),
        dts=dts,
        duration=np.concatenate([run.duration for run in runs]),
        composition=np.concatenate([run.composition for run in runs]),
        key=(flags & (_NOT_SYNC | _DEPENDS_ON_OTHERS)) == 0,
        disposable=(flags & _DEPENDED_ON_MASK) == _DEPENDED_ON_BY_NONE,
        entry=np.repeat(np.array([run.entry for run in runs], np.int64), counts),
        claimed=0,
    )
    return samples, _overlapping(runs, counts)


def _overlapping(runs: list[Run], counts: list[int]) -> IntArray:
    """Rows that are decoded no later than the last sample of the run before theirs."""
    rows = [np.zeros(0, np.int64)]
    first = 0
    for index, (run, count) in enumerate(zip(runs, counts, strict=True)):
        if run.overlaps:
            rows.append(first + np.flatnonzero(run.dts <= int(runs[index - 1].dts[-1])))
        first += count
    return np.concatenate(rows)


__all__ = ["Defaults", "FragmentReader", "Run", "join_runs", "read_defaults", "top_boxes"]
