"""The sample tables of one track (ISO/IEC 14496-12 8.6, 8.7) as numpy columns, in decode order.

Counts are checked against the bytes that a box holds before anything is allocated; the sample size table decides how
many samples there are, and the other tables are cut or padded to it, with a warning.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.containers.isobmff.boxes import u32
from vidprep.errors import MalformedContainerError, Reason
from vidprep.records import Finding

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.containers.isobmff.boxes import Boxes, Span
    from vidprep.timebase import IntArray

    BoolArray = npt.NDArray[np.bool_]

#: Composition offsets beyond this (in ticks) are garbage, as FFmpeg has it; the last two runs may hold any value.
MAX_COMPOSITION_OFFSET = 1 << 28
#: Warnings of one buffer that are kept.
MAX_FINDINGS = 64
#: Up to this many runs are expanded one by one.
_FEW_RUNS = 8
#: A time step with the top bit set: 2^31 ticks or more.
IMPLAUSIBLE_STEP = 1 << 31


@dataclass(slots=True, kw_only=True)
class Samples:
    """Samples of a track in decode order; all columns have length n. `None` = the same for all."""

    offset: IntArray
    size: IntArray
    dts: IntArray
    duration: IntArray
    """ticks to the next sample's dts"""
    composition: IntArray | None
    """pts = dts + composition; None = 0"""
    key: BoolArray | None
    """None = all"""
    disposable: BoolArray | None
    """no other picture refers to it; None = unknown"""
    entry: IntArray | None
    """1-based sample description; None = 1"""
    claimed: int
    """how many samples the header claims"""

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def pts(self) -> IntArray:
        """Composition times before the edit list."""
        return self.dts if self.composition is None else self.dts + self.composition


class Notes:
    """Warnings of one parse, with the file offset of the buffer that spans refer to."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.found: list[Finding] = []

    def add_at(self, message: str, offset: int) -> None:
        """Note `message`; `offset` is within the file."""
        self.found.append(Finding(reason=Reason.CORRUPT_TABLE, message=message, offset=offset))

    def add(self, message: str, offset: int | None = None, reason: Reason = Reason.CORRUPT_TABLE) -> None:
        """Note `message`; `offset` is within the buffer."""
        if len(self.found) < MAX_FINDINGS:
            where = None if offset is None else self.base + offset
            self.found.append(Finding(reason=reason, message=message, offset=where))


def read_samples(data: bytes, stbl: Boxes, size_bytes: int, notes: Notes) -> Samples:
    """All samples that the tables describe.

    Args:
        data: the buffer that `stbl`'s spans refer to.
        stbl: children of the sample table box.
        size_bytes: length of the file: no more samples of at least one byte than this are believed.
        notes: where disagreements are noted.

    Raises:
        MalformedContainerError: there are samples, but no table of times or places.
    """
    tables = _convert(data, stbl, notes)
    sizes, claimed = _sizes(data, stbl, tables, size_bytes, notes)
    offsets, entry = _places(data, stbl, tables, sizes, notes)
    n = len(offsets)
    if n < len(sizes):
        notes.add(f"the chunk tables place {n} of {len(sizes)} samples", _where(stbl, b"stsc"))
        sizes = sizes[:n]
    dts, duration = _decode_times(stbl, tables, n, notes)
    return Samples(
        offset=offsets,
        size=sizes,
        dts=dts,
        duration=duration,
        composition=_composition(stbl, tables, n, notes) if b"ctts" in tables and n else None,
        key=_keys(data, stbl, tables, n, notes) if b"stss" in stbl else None,
        disposable=_disposable(data, stbl, n) if b"sdtp" in stbl else None,
        entry=entry,
        claimed=claimed,
    )


def _where(stbl: Boxes, kind: bytes) -> int | None:
    return stbl[kind][0][0] if kind in stbl else None


#: Types of a box's numbers by their width in bytes: numpy parses a text anew each time.
_UNSIGNED = {width: np.dtype(f">u{width}") for width in (1, 2, 4, 8)}
_U32, _U64 = _UNSIGNED[4], _UNSIGNED[8]
_Tables = dict[bytes, "npt.NDArray[Any]"]
#: Tables of 32-bit numbers: bytes of a record, and bytes before the first.
_WORD_TABLES = ((b"stsz", 4, 12), (b"stco", 4, 8), (b"stsc", 12, 8), (b"stts", 8, 8), (b"ctts", 8, 8), (b"stss", 4, 8),
                (b"stps", 4, 8))  # fmt: skip
#: Tables shorter than this are converted together.
_SMALL_BYTES = 1 << 16
_INT64 = np.dtype(np.int64)
_NOTHING = np.zeros(0, np.int64)


def _convert(data: bytes, stbl: Boxes, notes: Notes) -> _Tables:
    """The numbers of every table of 32-bit numbers, unsigned, records one after the other.

    Small tables are converted in one go: ten numbers cost numpy what a thousand do. Large ones are left as they stand
    (big-endian), so that only the columns that are needed are copied.
    """
    tables: _Tables = {}
    small: list[tuple[bytes, int, int]] = []
    bodies: list[bytes] = []
    at = 0
    for kind, width, skip in _WORD_TABLES:
        if kind not in stbl:
            continue
        start, end = stbl[kind][0]
        if kind == b"stsz" and end - start >= 8 and u32(data, start + 4)[0]:
            continue  # one size for all: there is no table
        first = start + skip
        size = width * u32(data, first - 4)[0] if first <= end else end
        if size > end - first:
            first, count = _extent(data, (start, end), width, kind, notes, skip - 4)
            size = width * count
        if size < _SMALL_BYTES:
            bodies.append(data[first : first + size])
            small.append((kind, at, at := at + size // 4))
        else:
            tables[kind] = np.ndarray(size // 4, _U32, data, first)
    together = np.frombuffer(b"".join(bodies), _U32).astype(_INT64)
    for kind, first, end in small:
        tables[kind] = together[first:end]
    return tables


def _int64(numbers: npt.NDArray[Any]) -> IntArray:
    return numbers if numbers.dtype is _INT64 else numbers.astype(np.int64)


def _extent(data: bytes, span: Span, width: int, kind: bytes, notes: Notes, skip: int = 4) -> tuple[int, int]:
    """Where the records after a full box's entry count start, and how many there are: never more than it holds."""
    start, end = span
    first = start + skip + 4
    if first > end:
        notes.add(f"{kind.decode()} has no entry count", start)
        return start, 0
    count: int = u32(data, start + skip)[0]
    if count * width > end - first:
        held = (end - first) // width
        notes.add(f"{kind.decode()} claims {count} entries and holds {held}", start)
        count = held
    return first, count


def _records(data: bytes, span: Span, dtype: np.dtype[Any], kind: bytes, notes: Notes, skip: int = 4) -> IntArray:
    """The numbers of a table of another width than 32 bits."""
    first, count = _extent(data, span, dtype.itemsize, kind, notes, skip)
    return np.ndarray(count, dtype, data, first).astype(np.int64)


def _sizes(data: bytes, stbl: Boxes, tables: _Tables, size_bytes: int, notes: Notes) -> tuple[IntArray, int]:
    if b"stsz" in stbl:
        span = stbl[b"stsz"][0]
        if span[1] - span[0] >= 12:
            constant, claimed = u32(data, span[0] + 4)[0], u32(data, span[0] + 8)[0]
            return _constant_sizes(constant, claimed, size_bytes, span, notes) if constant else _int64(
                tables[b"stsz"]
            ), claimed
    if b"stz2" in stbl:
        span = stbl[b"stz2"][0]
        if span[1] - span[0] >= 12:
            return _compact_sizes(data, span, size_bytes, notes), u32(data, span[0] + 8)[0]
    return _NOTHING, 0


def _constant_sizes(size: int, claimed: int, size_bytes: int, span: Span, notes: Notes) -> IntArray:
    room = size_bytes // size
    if claimed > room:
        notes.add(f"stsz claims {claimed} samples of {size} bytes, the file has room for {room}", span[0])
    return np.full(min(claimed, room), size, np.int64)


def _compact_sizes(data: bytes, span: Span, size_bytes: int, notes: Notes) -> IntArray:
    bits = data[span[0] + 7]
    if bits in (8, 16, 32):
        return _records(data, span, _UNSIGNED[bits // 8], b"stz2", notes, skip=8)
    if bits != 4:
        raise MalformedContainerError(f"stz2 has fields of {bits} bits", offset=notes.base + span[0] + 7)
    count = u32(data, span[0] + 8)[0]
    held = min(2 * (span[1] - span[0] - 12), size_bytes)
    if count > held:
        notes.add(f"stz2 claims {count} entries and holds {held}", span[0])
        count = held
    packed = np.frombuffer(data, np.uint8, (count + 1) // 2, span[0] + 12)
    return np.stack([packed >> 4, packed & 15], axis=1).ravel()[:count].astype(np.int64)


def _places(
    data: bytes, stbl: Boxes, tables: _Tables, sizes: IntArray, notes: Notes
) -> tuple[IntArray, IntArray | None]:
    """File offset and sample description of each sample; fewer than `sizes` where the chunks hold fewer."""
    n = len(sizes)
    chunks = (
        _records(data, stbl[b"co64"][0], _U64, b"co64", notes)
        if b"co64" in stbl
        else _int64(tables.get(b"stco", _NOTHING))
    )
    runs = _int64(tables.get(b"stsc", _NOTHING))
    if n == 0 or len(chunks) == 0 or len(runs) == 0:
        return _NOTHING, None
    per_chunk = expand_runs(runs[0::3], runs[1::3], len(chunks))
    entry = None
    if _num_descriptions(data, stbl) > 1:
        entry = expand_runs(runs[0::3], runs[2::3], len(chunks))
    last = np.add.accumulate(per_chunk)
    total = int(last[-1])
    if total > n:
        notes.add(f"the chunk tables have room for {total} samples, there are {n}", _where(stbl, b"stsc"))
        used = int(last.searchsorted(n)) + 1
        per_chunk, last, chunks = per_chunk[:used], last[:used], chunks[:used]
        entry = None if entry is None else entry[:used]
        per_chunk[-1] -= last[-1] - n
        last[-1] = total = n
    return within_chunks(sizes[:total], chunks, per_chunk, last), None if entry is None else entry.repeat(per_chunk)


def _num_descriptions(data: bytes, stbl: Boxes) -> int:
    start, end = stbl.get(b"stsd", ((0, 0),))[0]
    return int(u32(data, start + 4)[0]) if end - start >= 8 else 0


def within_chunks(sizes: IntArray, chunks: IntArray, per_chunk: IntArray, last: IntArray) -> IntArray:
    """Offsets of samples that lie one behind the other in their chunks; `last` is per_chunk's running sum."""
    n = len(sizes)
    if len(chunks) == n and np.minimum.reduce(per_chunk) == 1:
        return chunks
    before = np.zeros(n + 1, np.int64)  # bytes of all samples before each
    np.add.accumulate(sizes, out=before[1:])
    starts = chunks - before[last - per_chunk]
    offset = before[:-1]
    offset += starts.repeat(per_chunk)
    return offset


def expand_runs(first_chunk: IntArray, values: IntArray, num_chunks: int) -> IntArray:
    """The value of each chunk, from runs that name their first one (8.7.4)."""
    if len(values) <= _FEW_RUNS:
        return _expand_few_runs(first_chunk.tolist(), values.tolist(), num_chunks)
    first = np.empty(len(values) + 1, np.int64)
    first[:-1] = first_chunk
    first[0], first[-1] = 1, num_chunks + 1
    lengths = first[1:] - first[:-1]
    if np.minimum.reduce(lengths) < 0:
        np.minimum(np.maximum.accumulate(first), num_chunks + 1, out=first)
        lengths = first[1:] - first[:-1]
    return values.repeat(lengths)


def _expand_few_runs(first_chunk: list[int], values: list[int], num_chunks: int) -> IntArray:
    expanded = np.empty(num_chunks, np.int64)
    expanded.fill(values[0])
    reached = 0
    for first, value in zip(first_chunk[1:], values[1:], strict=True):
        reached = max(reached, first - 1)
        expanded[reached:] = value
    return expanded


def _decode_times(stbl: Boxes, tables: _Tables, n: int, notes: Notes) -> tuple[IntArray, IntArray]:
    """Decode time and duration of n samples (8.6.1.2). Steps are unsigned; the top bit set is noted and believed."""
    if n == 0:
        return _NOTHING, _NOTHING
    if b"stts" not in stbl:
        raise MalformedContainerError("no time-to-sample box (stts)", offset=notes.base)
    span, runs = stbl[b"stts"][0], _int64(tables[b"stts"])
    if len(runs) == 0:
        raise MalformedContainerError("the time-to-sample box (stts) is empty", offset=notes.base + span[0])
    counts, steps = runs[0::2], runs[1::2]
    if len(steps) == 1 and runs[1] < IMPLAUSIBLE_STEP:
        count, step = runs.tolist()
        if count != n:
            notes.add(f"stts covers {count} samples, there are {n}", span[0])
        return multiples(step, n), _constant(step, n)
    if np.maximum.reduce(steps) >= IMPLAUSIBLE_STEP:
        bad = int(np.argmax(steps >= IMPLAUSIBLE_STEP))
        index = int(counts[:bad].sum())
        notes.add(f"time step of {steps[bad]} ticks after sample {index}: implausible times", span[0] + 8 + 8 * bad)
    duration = _repeat_to(steps, counts, n, int(steps[-1]), "stts", span, notes)
    dts = np.zeros(n, np.int64)
    np.add.accumulate(duration[:-1], out=dts[1:])
    return dts, duration


def multiples(step: int, n: int) -> IntArray:
    """int64[n]: 0, step, 2 steps, ..."""
    return np.arange(0, n * step, step) if step else np.zeros(n, np.int64)


def _constant(value: int, n: int) -> IntArray:
    """`value` n times in the memory of one; read only."""
    return np.ndarray(n, np.int64, value.to_bytes(8, sys.byteorder), 0, (0,))


def _repeat_to(values: IntArray, counts: IntArray, n: int, fill: int, name: str, span: Span, notes: Notes) -> IntArray:
    """Run-length decoding to exactly n values; never more than n are made."""
    total = int(np.add.reduce(counts))
    if total == n:
        return values.repeat(counts)
    notes.add(f"{name} covers {total} samples, there are {n}", span[0])
    if total > n:
        return values.repeat(np.diff(np.minimum(counts.cumsum(), n), prepend=0))
    return np.concatenate([np.repeat(values, counts), np.full(n - total, fill, np.int64)])


def _composition(stbl: Boxes, tables: _Tables, n: int, notes: Notes) -> IntArray | None:
    """Composition offsets (8.6.1.3), read as signed in either version: files of version 0 hold negative ones too."""
    span = stbl[b"ctts"][0]
    counts, offsets = tables[b"ctts"][0::2], _int64(tables[b"ctts"][1::2])
    if len(counts) == 0:
        return None
    if offsets.item(offsets.argmax()) > MAX_COMPOSITION_OFFSET:  # as unsigned: some are below 0, or far too large
        offsets = offsets.astype(np.int32).astype(np.int64)
        believed = offsets[:-2]
        if len(believed) and max(int(believed.max()), -int(believed.min())) > MAX_COMPOSITION_OFFSET:
            notes.add("composition offsets beyond 2^28 ticks: ctts is ignored", span[0])
            return None
    if len(counts) == n and counts.item(counts.argmax()) == 1 == counts.item(counts.argmin()):
        return offsets
    return _repeat_to(offsets, _int64(counts), n, 0, "ctts", span, notes)


def _keys(data: bytes, stbl: Boxes, tables: _Tables, n: int, notes: Notes) -> BoolArray | None:
    """Sync samples (8.6.2), partial ones (stps) and members of random access groups (`rap `)."""
    by_number = np.zeros(n + 1, np.bool_)  # samples are numbered from 1: place 0 takes what names none
    for kind in (b"stss", b"stps"):
        listed = _int64(tables.get(kind, _NOTHING))
        if len(listed) == 0:
            continue
        numbers = listed if listed[0] else listed + 1  # some writers count from 0
        try:
            by_number[numbers] = True
        except IndexError:
            notes.add(f"a sync table lists samples {listed.min()} to {listed.max()} of {n}", _where(stbl, b"stss"))
            by_number[numbers[numbers <= n]] = True
    key = by_number[1:]
    if b"sbgp" in stbl and (rap := _random_access_group(data, stbl, n, notes)) is not None:
        key |= rap
    if n and len(tables[b"stss"]) == 0 and not key.any():
        key[0] = True  # an empty table says "none is"; the first sample is where decoding starts all the same
        notes.add("the sync table is empty", _where(stbl, b"stss"))
    return key


def _random_access_group(data: bytes, stbl: Boxes, n: int, notes: Notes) -> BoolArray | None:
    for start, end in stbl.get(b"sbgp", ()):
        if end - start >= 12 and data[start + 4 : start + 8] == b"rap ":
            skip = 12 if data[start] == 1 else 8
            first, count = _extent(data, (start, end), 8, b"sbgp", notes, skip)
            runs = np.ndarray((count, 2), _U32, data, first).astype(np.int64)
            ends = np.minimum(np.cumsum(runs[:, 0]), n)
            member = np.repeat(runs[:, 1] > 0, np.diff(ends, prepend=0))
            return np.concatenate([member, np.zeros(n - len(member), np.bool_)])
    return None


def _disposable(data: bytes, stbl: Boxes, n: int) -> BoolArray | None:
    """Samples that sdtp (8.6.4) says no other depends on."""
    start, end = stbl[b"sdtp"][0]
    count = min(n, end - start - 4)
    if count < n:
        return None
    disposable: BoolArray = (np.frombuffer(data, np.uint8, count, start + 4) & 0x0C) == 0x08
    return disposable
