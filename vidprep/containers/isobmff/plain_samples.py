"""The sample tables of a plain movie: every sample shown, each with bytes, all of them in the file."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.isobmff.boxes import u32
from vidprep.containers.isobmff.tables import (
    IMPLAUSIBLE_STEP,
    MAX_COMPOSITION_OFFSET,
    expand_runs,
    within_chunks,
)
from vidprep.records import SampleFlag, SampleTable
from vidprep.timebase import presentation_order, unchecked

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.timebase import IntArray

#: Up to this many runs of chunks are placed one by one, and this many keys marked.
_FEW_RUNS, _FEW_KEYS = 8, 16
#: So many numbers, for which numpy takes longer.
_FEW = [Struct(f">{count}I").unpack_from for count in range(3 * _FEW_RUNS + 1)]
#: Runs that may stand for more samples than this are counted before they are expanded.
_MAX_UNCOUNTED = 1 << 22
#: An edit without an end.
FOREVER = 1 << 62
#: What may stand beside each other.
_IN_TABLES = frozenset(
    {b"stsd", b"stts", b"ctts", b"cslg", b"stss", b"stsc", b"stsz", b"stco", b"co64", b"sdtp", b"sgpd", b"free"}
)
_counted = Struct(">I4s4xI").unpack_from
_U32, _U64, _UINT8, _INT64 = np.dtype(">u4"), np.dtype(">u8"), np.dtype(np.uint8), np.dtype(np.int64)
_SHOWN, _KEY_SHOWN = int(SampleFlag.SHOWN), int(SampleFlag.KEY | SampleFlag.SHOWN)
_SHOWN_BYTE = bytearray([_SHOWN])
_DISPOSABLE = np.uint8(SampleFlag.DISPOSABLE)
#: Bits of sdtp (8.6.4) that tell whether others depend on a sample, and their value where none does.
_DEPENDED_ON, _NOT_DEPENDED_ON = np.uint8(0x0C), np.uint8(0x08)


class NotPlain(Exception):  # noqa: N818 - no error: it never leaves the plain reader
    """Something is not as a plain movie has it."""


class Tables:
    """The sample tables of one track; all their numbers converted in one go, as ten cost numpy what a thousand do."""

    __slots__ = "data", "places", "setup", "start", "words"

    def __init__(self, data: bytes, at: int, end: int) -> None:
        """Of the box data[at:end]."""
        self.data = data
        self.places = _table_places(data, at + 8, end)
        self.setup, size, _ = self.places[b"stsd"]
        self.start = start = self.setup + size
        self.words = np.frombuffer(data, _U32, (end - start) >> 2, start).astype(_INT64)

    def records(self, kind: bytes, width: int) -> IntArray:
        """The numbers of a table with an entry count and records of `width` 32-bit numbers."""
        at, size, count = self.places[kind]
        return self._numbers(at + 16, size - 16, count * width)

    def sizes(self) -> IntArray:
        """Bytes of each sample, all with some."""
        at, size, constant = self.places[b"stsz"]
        count = u32(self.data, at + 16)[0]
        if constant or not count:
            raise NotPlain
        sizes = self._numbers(at + 20, size - 20, count)
        if not sizes.item(sizes.argmin()):
            raise NotPlain
        return sizes

    def far_chunks(self) -> IntArray:
        """Where each chunk starts, from 64-bit numbers."""
        at, size, count = self.places[b"co64"]
        if 8 * count + 16 > size:
            raise NotPlain
        chunks = np.ndarray(count, _U64, self.data, at + 16).astype(_INT64)
        if count and not 0 <= chunks.item(chunks.argmin()) <= chunks.item(chunks.argmax()) < FOREVER:
            raise NotPlain
        return chunks

    def _numbers(self, first: int, room: int, count: int) -> IntArray:
        if 4 * count > room:
            raise NotPlain
        at = first - self.start
        if at & 3 or at < 0:  # behind a box of odd size, or before the set-up
            return np.frombuffer(self.data, _U32, count, first).astype(_INT64)
        at >>= 2
        return self.words[at : at + count]


def _table_places(data: bytes, at: int, end: int) -> dict[bytes, tuple[int, int, int]]:
    """As `_boxes`, with the size of each and what stands behind its version: nearly always the entry count."""
    found: dict[bytes, tuple[int, int, int]] = {}
    last = end - 16
    while at <= last:
        size, kind, count = _counted(data, at)
        if size < 16 or kind not in _IN_TABLES or kind in found:
            raise NotPlain
        found[kind] = at, size, count
        at += size
    if at != end:
        raise NotPlain
    return found


def sample_table(tables: Tables, edit: tuple[int, int] | None, size_bytes: int) -> tuple[SampleTable, int]:
    """The rows, and how long the last frame is shown."""
    sizes = tables.sizes()
    n = len(sizes)
    offset = _offsets(tables, sizes, size_bytes)
    begin, end = edit or (0, FOREVER)
    pts, duration = _times(tables, n, begin)
    rows = presentation_order(pts)
    frame_pts = pts[rows]
    latest = frame_pts.item(-1)
    if latest + begin > MAX_COMPOSITION_OFFSET and b"ctts" in tables.places:  # else no offset can be
        _demand_usual(tables.records(b"ctts", 2)[1::2])
    if edit and (earliest := frame_pts.item(0)):
        if earliest < 0:
            raise NotPlain
        pts -= earliest
        frame_pts -= earliest
    if latest >= end - begin:
        raise NotPlain
    flags, key_rows = _flags(tables, n)
    table = unchecked(
        SampleTable, offset=offset, size=sizes, pts=pts, flags=flags, frame_rows=rows, frame_pts=frame_pts
    )
    if key_rows is not None:
        vars(table)["key_rows"] = key_rows
    return table, duration if isinstance(duration, int) else duration.item(rows.item(-1))


def _offsets(tables: Tables, sizes: IntArray, size_bytes: int) -> IntArray:
    """Where the samples lie, each of them whole within the file."""
    chunks = tables.far_chunks() if b"co64" in tables.places else tables.records(b"stco", 1)
    at, size, count = tables.places[b"stsc"]
    if not count or 12 * count + 16 > size:
        raise NotPlain
    if count <= _FEW_RUNS:
        offset = _place_few_runs(_FEW[3 * count](tables.data, at + 16), chunks, sizes)
    else:
        offset = _place_many_runs(tables.records(b"stsc", 3), chunks, sizes)
    ends = offset + sizes
    if ends.item(ends.argmax()) > size_bytes:
        raise NotPlain
    return offset


def _place_few_runs(runs: tuple[int, ...], chunks: IntArray, sizes: IntArray) -> IntArray:
    """Offsets, one run of chunks with equally many samples after the other."""
    n, num_chunks = len(sizes), len(chunks)
    offset = np.empty(n, _INT64)
    first = done = 0
    if runs[0] != 1:
        raise NotPlain
    for at in range(1, len(runs), 3):
        count = runs[at]
        last = runs[at + 2] - 1 if at + 2 < len(runs) else num_chunks
        end = done + (last - first) * count
        if not first < last <= num_chunks or not done < end <= n:
            raise NotPlain
        if count == 1:
            offset[done:end] = chunks[first:last]
        elif end == done + 2:
            offset[done] = start = chunks.item(first)
            offset[done + 1] = start + sizes.item(done)
        else:
            block = offset[done:end].reshape(-1, count)
            block[:, 0] = chunks[first:last]
            block[:, 1:] = sizes[done:end].reshape(-1, count)[:, :-1]
            np.add.accumulate(block, 1, out=block)
        first, done = last, end
    if done != n:
        raise NotPlain
    return offset


def _place_many_runs(runs: IntArray, chunks: IntArray, sizes: IntArray) -> IntArray:
    if not len(chunks):
        raise NotPlain
    per_chunk = expand_runs(runs[0::3], runs[1::3], len(chunks))
    last = np.add.accumulate(per_chunk)
    if last.item(-1) != len(sizes):
        raise NotPlain
    return within_chunks(sizes, chunks, per_chunk, last)


def _times(tables: Tables, n: int, begin: int) -> tuple[IntArray, IntArray | int]:
    """Composition times from `begin` on, and durations; a number for durations that are all the same."""
    at, size, count = tables.places[b"stts"]
    duration: IntArray | int
    if count == 1 and size >= 24:
        count, step = _FEW[2](tables.data, at + 16)
        if count != n or step >= IMPLAUSIBLE_STEP:
            raise NotPlain
        duration, decoded = step, _even_times(step, begin)[:n] if n <= _SHARED else np.arange(n) * step - begin
    else:
        duration = _expanded(tables.records(b"stts", 2), n)
        if duration.item(duration.argmax()) >= IMPLAUSIBLE_STEP:
            raise NotPlain
        decoded = np.empty(n, _INT64)
        decoded[0] = -begin
        np.subtract(np.add.accumulate(duration[:-1]), begin, out=decoded[1:])
    if b"ctts" not in tables.places:
        return decoded.copy(), duration
    return decoded + _expanded(tables.records(b"ctts", 2), n), duration


#: Videos up to this long share their decode times.
_SHARED = 2048


@lru_cache(maxsize=64)
def _even_times(step: int, begin: int) -> IntArray:
    """int64[_SHARED]: multiples of `step`, less `begin`. Of the few frame rates and delays that there are."""
    return np.arange(_SHARED) * step - begin


def _demand_usual(offsets: IntArray) -> None:
    """Composition offsets are read as unsigned: negative ones look large."""
    if offsets.item(offsets.argmax()) > MAX_COMPOSITION_OFFSET:
        raise NotPlain


def _expanded(runs: IntArray, n: int) -> IntArray:
    """The value of each of n samples, from runs of (count, value)."""
    counts, values = runs[0::2], runs[1::2]
    num_runs = len(values)
    if not num_runs:
        raise NotPlain
    longest = counts.item(counts.argmax())
    if num_runs == n and longest == 1 == counts.item(counts.argmin()):
        return values
    if longest * num_runs > _MAX_UNCOUNTED and np.add.accumulate(counts).item(-1) != n:
        raise NotPlain
    expanded = values.repeat(counts)
    if len(expanded) != n:
        raise NotPlain
    return expanded


def _flags(tables: Tables, n: int) -> tuple[npt.NDArray[np.uint8], IntArray | None]:
    """The flags, and the rows of keys where they are known at once."""
    places, key_rows = tables.places, None
    if b"stss" not in places:
        flags = np.full(n, _KEY_SHOWN, _UINT8)
    elif 0 < places[b"stss"][2] <= _FEW_KEYS:
        flags, key_rows = _few_keys(tables, n)
    else:
        flags = _many_keys(tables.records(b"stss", 1), n)
    if b"sdtp" in places and places[b"sdtp"][1] >= n + 12:
        dependencies = np.ndarray(n, _UINT8, tables.data, places[b"sdtp"][0] + 12)
        flags |= ((dependencies & _DEPENDED_ON) == _NOT_DEPENDED_ON) * _DISPOSABLE
    return flags, key_rows


def _few_keys(tables: Tables, n: int) -> tuple[npt.NDArray[np.uint8], IntArray]:
    at, size, count = tables.places[b"stss"]
    if 4 * count + 16 > size:
        raise NotPlain
    flags, rows, last = _SHOWN_BYTE * n, [], 0
    for key in _FEW[count](tables.data, at + 16):  # samples are numbered from 1
        if key <= last:
            raise NotPlain
        flags[key - 1] = _KEY_SHOWN
        rows.append(key - 1)
        last = key
    return np.frombuffer(flags, _UINT8), np.array(rows, _INT64)


def _many_keys(keys: IntArray, n: int) -> npt.NDArray[np.uint8]:
    if not len(keys) or not keys.item(0):
        raise NotPlain
    flags = np.empty(n + 1, _UINT8)
    flags.fill(_SHOWN)
    flags[keys] = _KEY_SHOWN
    return flags[1:]
