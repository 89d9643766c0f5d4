"""Sample tables as narrow bytes, for the memory-mapped cache: pack once, unpack in microseconds.

A block is a header, then sizes, gaps, pts steps and flags one after another, each as wide as its values need; then the
frame order and checksums where there are any. The first gap and the first pts stand in the header, so that their size
does not widen the rest; pts steps are divided by their greatest common divisor.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.indexes.rows import table_of

if TYPE_CHECKING:
    from vidprep.records import SampleTable
    from vidprep.timebase import IntArray

#: first offset, first pts, pts scale; dtype codes of sizes, gaps, pts steps; 1 = order follows, 2 = checksums follow
_HEADER = struct.Struct("<qqqBBBB")
_ORDER, _CRC32 = 1, 2

#: u3 is three bytes, little-endian.
_DTYPES: tuple[np.dtype[Any], ...] = tuple(
    np.dtype(code) for code in ("<u1", "<u2", "V3", "<u4", "<i1", "<i2", "<i4", "<i8")
)
_U3, _I8 = 2, 7
_UNSIGNED_LIMITS = ((0, 1 << 8), (1, 1 << 16), (_U3, 1 << 24), (3, 1 << 32))
_SIGNED_LIMITS = ((4, 1 << 7), (5, 1 << 15), (6, 1 << 31))


def pack(
    sizes: IntArray, gaps: IntArray, pts_deltas: IntArray, flags: Any, order: IntArray | None = None, crc32: Any = None
) -> bytes:
    """The block of one video; frame columns as in the index."""
    if not len(sizes):
        return b""
    steps = pts_deltas[1:]
    scale = max(int(np.gcd.reduce(steps)), 1) if len(steps) else 1
    columns = [_narrow(sizes), _narrow(_without_first(gaps)), _narrow(_without_first(pts_deltas) // scale)]
    extras = (_ORDER if order is not None else 0) | (_CRC32 if crc32 is not None else 0)
    parts = [_HEADER.pack(gaps[0], pts_deltas[0], scale, *(code for code, _ in columns), extras)]
    parts += [data for _, data in columns]
    parts.append(np.asarray(flags, np.uint8).tobytes())
    if order is not None:
        parts.append(struct.pack("<q", len(order)) + np.asarray(order, "<i8").tobytes())
    if crc32 is not None:
        parts.append(np.asarray(crc32, "<u4").tobytes())
    return b"".join(parts)


def _without_first(values: IntArray) -> IntArray:
    values = values.copy()
    values[0] = 0
    return values


def _narrow(values: IntArray) -> tuple[int, bytes]:
    low, high = int(values.min()), int(values.max())
    if low >= 0:
        code = next((code for code, limit in _UNSIGNED_LIMITS if high < limit), _I8)
    else:
        code = next((code for code, limit in _SIGNED_LIMITS if -limit <= low and high < limit), _I8)
    if code == _U3:
        return code, values.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    return code, values.astype(_DTYPES[code]).tobytes()


def unpack(block: memoryview, num_samples: int) -> SampleTable:
    """The sample table of a block."""
    if num_samples == 0:
        empty = np.zeros(0, np.int64)
        return table_of(empty, empty, empty, np.zeros(0, np.uint8))
    first_offset, first_pts, scale, *codes, extras = _HEADER.unpack_from(block)
    at = _HEADER.size
    columns = []
    for code in codes:
        columns.append(_widen(block, code, num_samples, at))
        at += num_samples * _DTYPES[code].itemsize
    sizes, gaps, steps = columns
    gaps[0] = first_offset
    if scale != 1:
        steps *= scale
    steps[0] = first_pts
    flags = np.frombuffer(block, np.uint8, num_samples, at)
    order, crc32 = _extras(block, extras, num_samples, at + num_samples)
    return table_of(sizes, gaps, steps, flags, order, crc32)


def _widen(block: memoryview, code: int, count: int, at: int) -> IntArray:
    if code != _U3:
        return np.frombuffer(block, _DTYPES[code], count, at).astype(np.int64)
    wide = np.zeros((count, 8), np.uint8)
    wide[:, :3] = np.frombuffer(block, np.uint8, 3 * count, at).reshape(count, 3)
    return wide.view("<i8").reshape(count)


def _extras(block: memoryview, extras: int, num_samples: int, at: int) -> tuple[Any, Any]:
    order = crc32 = None
    if extras & _ORDER:
        (length,) = struct.unpack_from("<q", block, at)
        order = np.frombuffer(block, "<i8", length, at + 8).astype(np.int64)
        at += 8 + 8 * length
    if extras & _CRC32:
        crc32 = np.frombuffer(block, "<u4", num_samples, at)
    return order, crc32
