"""Movie fragments (ISO/IEC 14496-12 8.8): moof/traf/trun walked in file order into sample columns."""

from __future__ import annotations

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
# sample_flags (8.8.3.1)
_NOT_SYNC, _DEPENDS_ON_OTHERS = 0x00010000, 0x01000000
_DEPENDED_ON_MASK, _DEPENDED_ON_BY_NONE = 0x00C00000, 0x00800000


class Defaults(NamedTuple):
    """What a track's samples have unless a fragment says otherwise (trex, then tfhd)."""

    entry: int
    duration: int
    size: int
    flags: int


#: Columns of a block of decoded samples, int64[count, 8].
_COLUMNS = ("offset", "size", "dts", "duration", "composition", "flags", "entry", "overlaps")
#: Bytes of one moof that are read.
MAX_FRAGMENT_BYTES = 64 << 20
#: Runs up to this long are decoded in plain Python, which starts faster than numpy.
_SHORT_RUN = 6
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
        self.clock = clock
        """dts at which the next run starts unless a tfdt says otherwise"""
        self.room = size_bytes
        """samples that may still come: each takes a byte at least"""
        self.size_bytes = size_bytes
        self.warnings: list[Finding] = []
        self._short: list[tuple[int, ...]] = []
        self._blocks: list[IntArray] = []
        self._last_dts = -_FAR
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
        if self._short or self._blocks:
            self._short.append((-1, 1, self.clock, 0, 0, _NOT_SYNC, self.defaults.entry, 0))

    def _moof(self, data: bytes, box: TopBox) -> None:
        notes = Notes(box.start)
        if box.claimed_end > box.end:
            notes.add("the last fragment is cut off", 0, Reason.TRUNCATED)
        implicit = box.start
        for span in children(data, box.body - box.start, len(data)).get(b"traf", ()):
            implicit = self._traf(data, span, box.start, implicit, notes)
        self.warnings += notes.found[: MAX_FINDINGS - len(self.warnings)]

    def _traf(self, data: bytes, span: Span, moof: int, implicit: int, notes: Notes) -> int:
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
        base = moof if flags & _BASE_IS_MOOF else implicit
        if flags & _BASE_DATA_OFFSET:
            base, position = min(u64(data, position)[0], _FAR), position + 8
        values = list(self.defaults)
        for index, bit in enumerate((_DESCRIPTION, _DURATION, _SIZE, _FLAGS)):
            if flags & bit:
                values[index], position = u32(data, position)[0], position + 4
        if mine:
            expected = self.clock
            timed = self._decode_time(data, traf)
            if self._passed_over and not (timed and self.clock == expected):
                self._hole()
            self._passed_over = False
        return self._truns(data, traf, base, Defaults(*values), mine, notes)

    def _decode_time(self, data: bytes, traf: Boxes) -> bool:
        """Set the clock by tfdt (8.8.12); whether there is one."""
        start, end = traf.get(b"tfdt", ((0, 0),))[0]
        if end - start >= 12 and data[start] == 1:
            self.clock = min(u64(data, start + 4)[0], _FAR)
        elif end - start >= 8:
            self.clock = u32(data, start + 4)[0]
        return end - start >= 8

    def _truns(self, data: bytes, traf: Boxes, base: int, defaults: Defaults, mine: bool, notes: Notes) -> int:
        position = base
        for start, end in traf.get(b"trun", ()):
            if end - start >= 8 and self.room > 0:
                position = self._trun(data, start, end, base, position, defaults, mine, notes)
        return position

    def _trun(
        self, data: bytes, start: int, end: int, base: int, position: int, defaults: Defaults, mine: bool, notes: Notes
    ) -> int:
        """Decode one run; returns where its data ends."""
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
            if mine and count < 0:
                self._hole()
            return position
        if not mine:
            sizes = _columns(data, at, count, flags, defaults)[1] if flags & _RUN_SIZE else None
            return position + (count * defaults.size if sizes is None else int(sizes.sum()))
        self.room -= count
        decode = self._decode_short if count <= _SHORT_RUN else self._decode_long
        return decode(data, at, count, flags, first_flags, position, defaults)

    def _decode_short(
        self,
        data: bytes,
        at: int,
        count: int,
        flags: int,
        first: int | None,
        position: int,
        start: Defaults,
    ) -> int:
        fields = [bool(flags & bit) for bit in _RUN_FIELDS]
        last = self._last_dts
        for number in range(count):
            values = [start.duration, start.size, start.flags, 0]
            for index in range(4):
                if fields[index]:
                    values[index] = (i32 if index == 3 else u32)(data, at)[0]
                    at += 4
            duration, size, sample_flags, composition = values
            if number == 0 and first is not None:
                sample_flags = first
            self._short.append(
                (position, size, self.clock, duration, composition, sample_flags, start.entry, self.clock <= last)
            )
            self._last_dts = self.clock
            position += size
            self.clock += duration
        return position

    def _decode_long(
        self,
        data: bytes,
        at: int,
        count: int,
        flags: int,
        first: int | None,
        position: int,
        start: Defaults,
    ) -> int:
        block = np.empty((count, len(_COLUMNS)), np.int64)
        duration, size, sample_flags, composition = _columns(data, at, count, flags, start)
        ends, times = size.cumsum(), duration.cumsum()
        dts = self.clock + times - duration
        for index, column in enumerate((position + ends - size, size, dts, duration, composition, sample_flags)):
            block[:, index] = column
        if first is not None:
            block[0, 5] = first
        block[:, 6] = start.entry
        block[:, 7] = dts <= self._last_dts
        self._flush()
        self._blocks.append(block)
        self._last_dts = int(dts[-1])
        self.clock += int(times[-1])
        return position + int(ends[-1])

    def _flush(self) -> None:
        if self._short:
            self._blocks.append(np.array(self._short, np.int64))
            self._short = []

    def samples(self) -> tuple[Samples, IntArray] | None:
        """All runs as one table, and the rows that FFmpeg discards: decoded no later than the run before ended."""
        self._flush()
        if not self._blocks:
            return None
        columns = dict(zip(_COLUMNS, np.concatenate(self._blocks).T, strict=True))
        flags = columns["flags"]
        samples = Samples(
            offset=np.ascontiguousarray(columns["offset"]),
            size=np.ascontiguousarray(columns["size"]),
            dts=np.ascontiguousarray(columns["dts"]),
            duration=columns["duration"],
            composition=columns["composition"],
            key=(flags & (_NOT_SYNC | _DEPENDS_ON_OTHERS)) == 0,
            disposable=(flags & _DEPENDED_ON_MASK) == _DEPENDED_ON_BY_NONE,
            entry=columns["entry"],
            claimed=0,
        )
        return samples, columns["overlaps"].nonzero()[0]

    def _believable(
        self, count: int, held_bytes: int, width: int, sized: bool, default_size: int, start: int, notes: Notes
    ) -> int:
        """The run's sample count; -1 where the box does not hold that many, or the file has no room for them."""
        most = self.room if width == 0 else held_bytes // (4 * width)
        if not sized:
            most = min(most, self.size_bytes // default_size) if default_size else 0
        most = min(most, self.room)
        if count > most:
            notes.add(f"trun claims {count} samples, there is room for {most}: left out", start)
            return -1
        return count


def _columns(data: bytes, at: int, count: int, flags: int, defaults: Defaults) -> list[IntArray]:
    """duration, size, flags, composition of each sample as int64."""
    width = (flags >> 8 & 15).bit_count()
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
