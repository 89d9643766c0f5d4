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

    def add(self, message: str, offset: int | None = None, reason: Reason = Reason.CORRUPT_TABLE) -> None:
        """Note `message`; `offset` is within the buffer."""
        self.found.append(
            Finding(reason=reason, message=message, offset=None if offset is None else self.base + offset)
        )


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
    sizes, claimed = _sizes(data, stbl, size_bytes, notes)
    offsets, entry = _places(data, stbl, sizes, notes)
    n = len(offsets)
    if n < len(sizes):
        notes.add(f"the chunk tables place {n} of {len(sizes)} samples", _where(stbl, b"stsc"))
        sizes = sizes[:n]
    dts, duration = _decode_times(data, stbl, n, notes)
    return Samples(
        offset=offsets,
        size=sizes,
        dts=dts,
        duration=duration,
        composition=_composition(data, stbl, n, notes),
        key=_keys(data, stbl, n, notes),
        disposable=_disposable(data, stbl, n),
        entry=entry,
        claimed=claimed,
    )


def _where(stbl: Boxes, kind: bytes) -> int | None:
    return stbl[kind][0][0] if kind in stbl else None


def _records(
    data: bytes, span: Span, dtype: str, fields: int, name: str, notes: Notes, skip: int = 4
) -> npt.NDArray[Any]:
    """The records after a full box's entry count, at most as many as the box holds.

    Array [count, fields], or [count] of one field.
    """
    start, end = span
    first = start + skip + 4
    if first > end:
        notes.add(f"{name} has no entry count", start)
        return np.zeros((0, fields) if fields > 1 else 0, dtype)
    count = u32(data, start + skip)[0]
    width = fields * int(dtype[2])
    if count * width > end - first:
        held = (end - first) // width
        notes.add(f"{name} claims {count} entries and holds {held}", start)
        count = held
    flat = np.frombuffer(data, dtype, count * fields, first)
    return flat if fields == 1 else flat.reshape(count, fields)


def _sizes(data: bytes, stbl: Boxes, size_bytes: int, notes: Notes) -> tuple[IntArray, int]:
    if b"stsz" in stbl:
        span = stbl[b"stsz"][0]
        if span[1] - span[0] >= 12:
            constant, claimed = u32(data, span[0] + 4)[0], u32(data, span[0] + 8)[0]
            if constant:
                return _constant_sizes(constant, claimed, size_bytes, span, notes), claimed
            return _records(data, span, ">u4", 1, "stsz", notes, skip=8).astype(np.int64), claimed
    if b"stz2" in stbl:
        span = stbl[b"stz2"][0]
        if span[1] - span[0] >= 12:
            return _compact_sizes(data, span, size_bytes, notes), u32(data, span[0] + 8)[0]
    return np.zeros(0, np.int64), 0


def _constant_sizes(size: int, claimed: int, size_bytes: int, span: Span, notes: Notes) -> IntArray:
    room = size_bytes // size
    if claimed > room:
        notes.add(f"stsz claims {claimed} samples of {size} bytes, the file has room for {room}", span[0])
    return np.full(min(claimed, room), size, np.int64)


def _compact_sizes(data: bytes, span: Span, size_bytes: int, notes: Notes) -> IntArray:
    bits = data[span[0] + 7]
    if bits in (8, 16, 32):
        return _records(data, span, f">u{bits // 8}", 1, "stz2", notes, skip=8).astype(np.int64)
    if bits != 4:
        raise MalformedContainerError(f"stz2 has fields of {bits} bits", offset=notes.base + span[0] + 7)
    count = u32(data, span[0] + 8)[0]
    held = min(2 * (span[1] - span[0] - 12), size_bytes)
    if count > held:
        notes.add(f"stz2 claims {count} entries and holds {held}", span[0])
        count = held
    packed = np.frombuffer(data, np.uint8, (count + 1) // 2, span[0] + 12)
    return np.stack([packed >> 4, packed & 15], axis=1).ravel()[:count].astype(np.int64)


def _places(data: bytes, stbl: Boxes, sizes: IntArray, notes: Notes) -> tuple[IntArray, IntArray | None]:
    """File offset and sample description of each sample; fewer than `sizes` where the chunks hold fewer."""
    n = len(sizes)
    if b"co64" in stbl:
        chunks = _records(data, stbl[b"co64"][0], ">u8", 1, "co64", notes).astype(np.int64)
    elif b"stco" in stbl:
        chunks = _records(data, stbl[b"stco"][0], ">u4", 1, "stco", notes).astype(np.int64)
    else:
        chunks = np.zeros(0, np.int64)
    runs = (
        _records(data, stbl[b"stsc"][0], ">u4", 3, "stsc", notes).astype(np.int64)
        if b"stsc" in stbl
        else np.zeros((0, 3), np.int64)
    )
    if n == 0 or len(chunks) == 0 or len(runs) == 0:
        return np.zeros(0, np.int64), None
    if len(runs) == 1 and runs[0, 1] == 1 and len(chunks) == n:
        return chunks, _entries(runs[:, 2], n)
    per_chunk, entry = _expand_runs(runs, len(chunks))
    last = per_chunk.cumsum()
    if last[-1] > n:
        notes.add(f"the chunk tables have room for {last[-1]} samples, there are {n}", _where(stbl, b"stsc"))
        used = int(last.searchsorted(n)) + 1
        per_chunk, last, chunks = per_chunk[:used], last[:used], chunks[:used]
        entry = None if entry is None else entry[:used]
        per_chunk[-1] -= last[-1] - n
        last[-1] = n
    if not per_chunk.all():
        filled = per_chunk.nonzero()[0]
        if len(filled) == 0:
            return np.zeros(0, np.int64), None
        per_chunk, last, chunks = per_chunk[filled], last[filled], chunks[filled]
        entry = None if entry is None else entry[filled]
    sizes = sizes[: int(last[-1])]
    before = sizes.cumsum()
    before -= sizes
    before += (chunks - before[last - per_chunk]).repeat(per_chunk)
    return before, None if entry is None else entry.repeat(per_chunk)


def _entries(descriptions: IntArray, n: int) -> IntArray | None:
    return None if descriptions[0] == 1 else np.full(n, descriptions[0], np.int64)


def _expand_runs(runs: IntArray, num_chunks: int) -> tuple[IntArray, IntArray | None]:
    """Samples in each chunk, and their sample description if it is not 1 throughout (8.7.4)."""
    first = np.empty(len(runs) + 1, np.int64)
    first[:-1] = runs[:, 0]
    first[0], first[-1] = 1, num_chunks + 1
    lengths = first[1:] - first[:-1]
    if int(lengths.min()) < 0:
        np.minimum(np.maximum.accumulate(first), num_chunks + 1, out=first)
        lengths = first[1:] - first[:-1]
    entry = None if int(runs[0, 2]) == 1 and (runs[:, 2] == 1).all() else runs[:, 2].repeat(lengths)
    return runs[:, 1].repeat(lengths), entry


def _decode_times(data: bytes, stbl: Boxes, n: int, notes: Notes) -> tuple[IntArray, IntArray]:
    """Decode time and duration of n samples (8.6.1.2). Steps are unsigned; the top bit set is noted and believed."""
    if n == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if b"stts" not in stbl:
        raise MalformedContainerError("no time-to-sample box (stts)", offset=notes.base)
    span = stbl[b"stts"][0]
    runs = _records(data, span, ">u4", 2, "stts", notes)
    if len(runs) == 0:
        raise MalformedContainerError("the time-to-sample box (stts) is empty", offset=notes.base + span[0])
    if len(runs) == 1:
        count, step = int(runs[0, 0]), int(runs[0, 1])
        if count != n:
            notes.add(f"stts covers {count} samples, there are {n}", span[0])
        return _multiples(step, n), _constant(step, n)
    counts, steps = runs.astype(np.int64).T
    if steps.max() >= IMPLAUSIBLE_STEP:
        bad = int(np.argmax(steps >= IMPLAUSIBLE_STEP))
        index = int(counts[:bad].sum())
        notes.add(f"time step of {steps[bad]} ticks after sample {index}: implausible times", span[0] + 8 + 8 * bad)
    duration = _repeat_to(steps, counts, n, int(steps[-1]), "stts", span, notes)
    dts = duration.cumsum()
    dts -= duration
    return dts, duration


def _multiples(step: int, n: int) -> IntArray:
    return np.arange(0, n * step, step) if step else np.zeros(n, np.int64)


def _constant(value: int, n: int) -> IntArray:
    """`value` n times in the memory of one; read only."""
    return np.ndarray(n, np.int64, value.to_bytes(8, sys.byteorder), 0, (0,))


def _repeat_to(values: IntArray, counts: IntArray, n: int, fill: int, name: str, span: Span, notes: Notes) -> IntArray:
    """Run-length decoding to exactly n values; never more than n are made."""
    total = int(counts.sum())
    if total == n:
        return values.repeat(counts)
    notes.add(f"{name} covers {total} samples, there are {n}", span[0])
    if total > n:
        return values.repeat(np.diff(np.minimum(counts.cumsum(), n), prepend=0))
    return np.concatenate([np.repeat(values, counts), np.full(n - total, fill, np.int64)])


def _composition(data: bytes, stbl: Boxes, n: int, notes: Notes) -> IntArray | None:
    """Composition offsets (8.6.1.3), read as signed in either version: files of version 0 hold negative ones too."""
    if b"ctts" not in stbl or n == 0:
        return None
    span = stbl[b"ctts"][0]
    runs = _records(data, span, ">i4", 2, "ctts", notes)
    if len(runs) == 0:
        return None
    counts, offsets = runs[:, 0], runs[:, 1].astype(np.int64)
    if len(offsets) > 2 and max(int(offsets[:-2].max()), -int(offsets[:-2].min())) > MAX_COMPOSITION_OFFSET:
        notes.add("composition offsets beyond 2^28 ticks: ctts is ignored", span[0])
        return None
    if len(counts) == n and int(counts.min()) == 1 == int(counts.max()):
        return offsets
    return _repeat_to(offsets, np.maximum(counts, 0, dtype=np.int64), n, 0, "ctts", span, notes)


def _keys(data: bytes, stbl: Boxes, n: int, notes: Notes) -> BoolArray | None:
    """Sync samples (8.6.2), partial ones (stps) and members of random access groups (`rap `)."""
    if b"stss" not in stbl:
        return None
    key = np.zeros(n, np.bool_)
    numbers = [
        _records(data, stbl[kind][0], ">u4", 1, kind.decode(), notes) for kind in (b"stss", b"stps") if kind in stbl
    ]
    rap = _random_access_group(data, stbl, n, notes)
    if rap is not None:
        key |= rap
    for listed in numbers:
        if len(listed) == 0:
            continue
        rows = listed - np.uint32(1 if listed[0] else 0)  # some writers count from 0; 0 further on becomes 2^32 - 1
        try:
            key[rows] = True
        except IndexError:
            notes.add(f"a sync table lists samples {listed.min()} to {listed.max()} of {n}", _where(stbl, b"stss"))
            key[rows[rows < n]] = True
    if n and len(numbers[0]) == 0 and not key.any():
        key[0] = True  # an empty table says "none is"; the first sample is where decoding starts all the same
        notes.add("the sync table is empty", _where(stbl, b"stss"))
    return key


def _random_access_group(data: bytes, stbl: Boxes, n: int, notes: Notes) -> BoolArray | None:
    for start, end in stbl.get(b"sbgp", ()):
        if end - start >= 12 and data[start + 4 : start + 8] == b"rap ":
            skip = 12 if data[start] == 1 else 8
            runs = _records(data, (start, end), ">u4", 2, "sbgp", notes, skip=skip).astype(np.int64)
            ends = np.minimum(np.cumsum(runs[:, 0]), n)
            member = np.repeat(runs[:, 1] > 0, np.diff(ends, prepend=0))
            return np.concatenate([member, np.zeros(n - len(member), np.bool_)])
    return None


def _disposable(data: bytes, stbl: Boxes, n: int) -> BoolArray | None:
    """Samples that sdtp (8.6.4) says no other depends on."""
    if b"sdtp" not in stbl:
        return None
    start, end = stbl[b"sdtp"][0]
    count = min(n, end - start - 4)
    if count < n:
        return None
    disposable: BoolArray = (np.frombuffer(data, np.uint8, count, start + 4) & 0x0C) == 0x08
    return disposable
