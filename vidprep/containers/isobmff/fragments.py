"""Movie fragments (ISO/IEC 14496-12 8.8): moof/traf/trun walked in file order into sample columns."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vidprep.containers.isobmff.boxes import FRAGMENT_BYTES, children, i32, u32, u64
from vidprep.containers.isobmff.tables import MAX_FINDINGS, Notes, Samples
from vidprep.containers.isobmff.walk import HOLE
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
_ALL_FIELDS = 0xF00
_first_header = Struct(">4x4sII").unpack_from
# sample_flags (8.8.3.1)
_NOT_SYNC, _DEPENDS_ON_OTHERS = 0x00010000, 0x01000000
_DEPENDED_ON_MASK, _DEPENDED_ON_BY_NONE = 0x00C00000, 0x00800000


class Defaults(NamedTuple):
    """What a track's samples have unless a fragment says otherwise (trex, then tfhd)."""

    entry: int
    duration: int
    size: int
    flags: int


class _Run(NamedTuple):
    """A run of samples (trun, 8.8.8) before its numbers are read; or, with `is_hole`, one sample that lies nowhere."""

    fields: int
    """which of _RUN_FIELDS its table holds"""
    num_samples: int
    position: int
    """of its first byte"""
    clock: int
    """dts of its first sample"""
    first_flags: int
    """flags of its first sample; -1 = as of the others"""
    start: Defaults
    table: bytes
    is_hole: bool = False

    def total(self, field: int) -> int:
        """Sum of its sizes or durations."""
        if not self.fields & field:
            return self.num_samples * (self.start.size if field == _RUN_SIZE else self.start.duration)
        width, column = self.fields.bit_count(), (self.fields & (field - 1)).bit_count()
        numbers = np.frombuffer(self.table, _U32)[column::width]
        return int(numbers.sum(dtype=np.int64))


#: A place in the file: a number, or the end of a run, which is seldom asked for.
_Place = int | _Run
_U32, _I32 = np.dtype(">u4"), np.dtype(">i4")
#: Bytes of one moof that are read.
MAX_FRAGMENT_BYTES = 64 << 20
#: Offsets and times beyond this are nowhere; sums of them must stay within int64.
_FAR = 1 << 60


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
        self.room = size_bytes
        """samples that may still come: each takes a byte at least"""
        self.size_bytes = size_bytes
        self.warnings: list[Finding] = []
        self._runs: list[_Run] = []
        self._clock: _Place = clock
        """dts at which the next run starts unless a tfdt says otherwise: a number, or the end of a run"""
        self._passed_over = False

    def read(self, window: Window, boxes: Iterable[TopBox]) -> None:
        """Walk the top level boxes and decode every moof."""
        window.window_bytes = FRAGMENT_BYTES
        for box in boxes:
            if box.kind == b"moof":
                self._moof(window.get(box.start, min(box.end - box.start, MAX_FRAGMENT_BYTES)), box)
                if self.room <= 0:
                    break
            elif box.kind == HOLE:
                self._passed_over = True

    def _hole(self) -> None:
        """A sample that lies nowhere: others were lost here, to which those that follow may refer."""
        if self._runs:
            start = Defaults(self.defaults.entry, 0, 1, _NOT_SYNC)
            self._runs.append(_Run(0, 1, -1, self._time(), -1, start, b"", is_hole=True))

    def _time(self) -> int:
        if isinstance(self._clock, _Run):
            self._clock = min(self._clock.clock + self._clock.total(_RUN_DURATION), _FAR)
        return self._clock

    def _moof(self, data: bytes, box: TopBox) -> None:
        notes = Notes(box.start)
        if box.claimed_end > box.end:
            notes.add("the last fragment is cut off", 0, Reason.TRUNCATED)
        implicit: _Place = box.start
        others: list[Span] = []  # looked at only where a place depends on them
        for span in children(data, box.body - box.start, len(data)).get(b"traf", ()):
            kind, flags, track_id = _first_header(data, span[0]) if span[1] - span[0] >= 16 else (b"", 0, 0)
            if kind == b"tfhd" and track_id != self.track_id:
                others.append(span)
                continue
            if others and not flags & (_BASE_IS_MOOF | _BASE_DATA_OFFSET):
                for other in others:
                    implicit = self._traf(data, other, box.start, implicit, notes)
            others.clear()
            implicit = self._traf(data, span, box.start, implicit, notes)
        self.warnings += notes.found[: MAX_FINDINGS - len(self.warnings)]

    def _traf(self, data: bytes, span: Span, moof: int, implicit: _Place, notes: Notes) -> _Place:
        """Decode one track fragment; returns where the next one's data starts unless it says otherwise."""
        traf = children(data, *span)
        header = traf.get(b"tfhd", ((0, 0),))[0]
        if header[1] - header[0] < 8:
            return implicit
        flags, position = u32(data, header[0])[0] & 0xFFFFFF, header[0] + 8
        mine = u32(data, header[0] + 4)[0] == self.track_id
        if header[1] - position < 8 * (flags & 1) + 4 * (flags >> 1 & 1) + 4 * (flags >> 3 & 7).bit_count():
            notes.add("tfhd is shorter than its flags say", header[0])
            if mine:
                self._hole()
            return implicit
        base: _Place = moof if flags & _BASE_IS_MOOF else implicit
        if flags & _BASE_DATA_OFFSET:
            base, position = min(u64(data, position)[0], _FAR), position + 8
        values = list(self.defaults)
        for index, bit in enumerate((_DESCRIPTION, _DURATION, _SIZE, _FLAGS)):
            if flags & bit:
                values[index], position = u32(data, position)[0], position + 4
        if mine:
            expected = self._time() if self._passed_over else None
            timed = self._decode_time(data, traf)
            if self._passed_over and not (timed and self._clock == expected):
                self._hole()
            self._passed_over = False
        return self._truns(data, traf, base, Defaults(*values), mine, notes)

    def _decode_time(self, data: bytes, traf: Boxes) -> bool:
        """Set the clock by tfdt (8.8.12); whether there is one."""
        start, end = traf.get(b"tfdt", ((0, 0),))[0]
        if end - start >= 12 and data[start] == 1:
            self._clock = min(u64(data, start + 4)[0], _FAR)
        elif end - start >= 8:
            self._clock = u32(data, start + 4)[0]
        return end - start >= 8

    def _truns(self, data: bytes, traf: Boxes, base: _Place, start: Defaults, mine: bool, notes: Notes) -> _Place:
        place = base
        for first, end in traf.get(b"trun", ()):
            if end - first >= 8 and self.room > 0:
                place = self._trun(data, first, end, base, place, start, mine, notes)
        return place

    def _trun(
        self, data: bytes, first: int, end: int, base: _Place, place: _Place, start: Defaults, mine: bool, notes: Notes
    ) -> _Place:
        """Note one run; returns where its data ends."""
        flags, count = u32(data, first)[0] & 0xFFFFFF, u32(data, first + 4)[0]
        at = first + 8
        if flags & _RUN_OFFSET and end - at >= 4:
            place, at = _position(base) + i32(data, at)[0], at + 4
        first_flags = -1
        if flags & _RUN_FIRST_FLAGS and end - at >= 4:
            first_flags, at = u32(data, at)[0], at + 4
        fields = flags & _ALL_FIELDS
        width = 4 * fields.bit_count()
        count = self._believable(count, end - at, width, bool(flags & _RUN_SIZE), start.size, first, notes)
        if count <= 0:
            if mine and count < 0:
                self._hole()
            return place
        clock = self._time() if mine else 0
        run = _Run(fields, count, _position(place), clock, first_flags, start, data[at : at + count * width])
        if mine:
            self.room -= count
            self._runs.append(run)
            self._clock = run
        return run

    def samples(self) -> tuple[Samples, IntArray] | None:
        """All runs as one table, and the rows that FFmpeg discards: decoded no later than the run before ended."""
        runs = self._runs
        if not runs:
            return None
        groups = [_columns(list(group)) for _, group in groupby(runs, key=attrgetter("fields"))]
        offset, size, dts, duration, composition, flags = (
            groups[0] if len(groups) == 1 else (np.concatenate(parts) for parts in zip(*groups, strict=True))
        )
        counts = np.array([run.num_samples for run in runs])
        same_entry = all(run.start.entry == 1 for run in runs)
        samples = Samples(
            offset=offset,
            size=size,
            dts=dts,
            duration=duration,
            composition=composition,
            key=(flags & (_NOT_SYNC | _DEPENDS_ON_OTHERS)) == 0,
            disposable=(flags & _DEPENDED_ON_MASK) == _DEPENDED_ON_BY_NONE,
            entry=None if same_entry else np.array([run.start.entry for run in runs]).repeat(counts),
            claimed=0,
        )
        before = np.array(_ends_before(runs, dts[counts.cumsum() - 1].tolist()))
        return samples, (dts <= before.repeat(counts)).nonzero()[0]

    def _believable(
        self, count: int, held_bytes: int, width: int, sized: bool, default_size: int, start: int, notes: Notes
    ) -> int:
        """The run's sample count; -1 where the box does not hold that many, or the file has no room for them."""
        most = self.room if width == 0 else held_bytes // width
        if not sized:
            most = min(most, self.size_bytes // default_size) if default_size else 0
        most = min(most, self.room)
        if count > most:
            notes.add(f"trun claims {count} samples, there is room for {most}: left out", start)
            return -1
        return count


def _position(place: _Place) -> int:
    return place if isinstance(place, int) else place.position + place.total(_RUN_SIZE)


def _ends_before(runs: list[_Run], last_dts: list[int]) -> list[int]:
    """The dts of the last sample before each run; holes overlap nothing, and nothing overlaps them."""
    before, last = [], -_FAR
    for run, dts in zip(runs, last_dts, strict=True):
        before.append(-_FAR if run.is_hole else last)
        last = last if run.is_hole else dts
    return before


def _columns(runs: list[_Run]) -> list[IntArray]:
    """Offset, size, dts, duration, composition and flags of the samples of runs whose tables hold the same fields."""
    numbers = np.array([(run.num_samples, run.position, run.clock, run.first_flags, *run.start) for run in runs])
    counts, position, clock, first_flags, _, *defaults = numbers.T
    starts = counts.cumsum() - counts
    fields = runs[0].fields
    table = np.frombuffer(b"".join([run.table for run in runs]), _U32).reshape(-1, fields.bit_count() or 1)
    columns: list[IntArray] = []
    column = 0
    for bit, default in zip(_RUN_FIELDS, (*defaults, np.zeros_like(counts)), strict=True):
        if fields & bit:
            values = table[:, column]
            columns.append((values.view(_I32) if bit == _RUN_COMPOSITION else values).astype(np.int64))
            column += 1
        else:
            columns.append(default.repeat(counts))
    duration, size, flags, composition = columns
    stated = first_flags >= 0
    flags[starts[stated]] = first_flags[stated]
    offset, dts = _running(size, position, starts, counts), _running(duration, clock, starts, counts)
    return [offset, size, dts, duration, composition, flags]


def _running(steps: IntArray, first: IntArray, starts: IntArray, counts: IntArray) -> IntArray:
    """Sums of the steps before each sample of its run, from the run's first value on."""
    before = steps.cumsum() - steps
    return before + (first - before[starts]).repeat(counts)
