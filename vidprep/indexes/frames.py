"""Sample tables as narrow bytes, for the memory-mapped cache: pack once, unpack in microseconds.

A block is a header, then sizes, gaps, pts steps and flags one after another, each as wide as its values need; then the
frame order and checksums where there are any. The first gap and the first pts stand in the header, so that their size
does not widen the rest; pts steps are divided by their greatest common divisor.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vidprep.indexes.rows import table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

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
#: Values below the n-th limit take the n-th code.
_UNSIGNED_LIMITS, _UNSIGNED_CODES = np.array([1 << 8, 1 << 16, 1 << 24, 1 << 32]), np.array([0, 1, _U3, 3, _I8])
_SIGNED_LIMITS, _SIGNED_CODES = np.array([1 << 7, 1 << 15, 1 << 31]), np.array([4, 5, 6, _I8])


class FrameLists(NamedTuple):
    """Frame columns of many videos, one after the other."""

    bounds: IntArray
    """int64[videos + 1]: where each video's values start; ends with their number"""
    sizes: IntArray
    gaps: IntArray
    pts_deltas: IntArray
    flags: npt.NDArray[np.uint8]
    orders: Sequence[IntArray | None] | None = None
    """for each video; None = no video has one"""
    crc32s: Sequence[npt.NDArray[np.uint32] | None] | None = None


def pack(lists: FrameLists) -> list[bytes]:
    """The blocks of many videos; that of a video without samples is empty. Worked out for all of them at once."""
    lengths = np.diff(lists.bounds)
    has_samples = lengths > 0
    starts, ends = lists.bounds[:-1][has_samples], lists.bounds[1:][has_samples]
    gaps, steps = lists.gaps.copy(), lists.pts_deltas.copy()
    gaps[starts] = steps[starts] = 0
    scales = np.maximum(_reduced(np.gcd, steps, starts), 1)
    if len(starts) and scales.max() > 1:
        steps //= np.repeat(scales, lengths[has_samples])
    columns = [_narrow(values, starts) for values in (lists.sizes, gaps, steps)]
    flags = lists.flags.astype(np.uint8, copy=False).tobytes()
    facts = zip(
        np.flatnonzero(has_samples).tolist(), starts.tolist(), ends.tolist(), lists.gaps[starts].tolist(),
        lists.pts_deltas[starts].tolist(), scales.tolist(), *(codes for codes, _ in columns), strict=True,
    )  # fmt: skip
    blocks = [b""] * len(lengths)
    (_, sizes_as), (_, gaps_as), (_, steps_as) = columns
    for video, start, end, first_gap, first_pts, scale, size_code, gap_code, step_code in facts:
        extras, extra_bytes = _packed_extras(lists, video)
        (sizes, a), (moves, b), (times, c) = sizes_as[size_code], gaps_as[gap_code], steps_as[step_code]
        blocks[video] = b"".join((
            _HEADER.pack(first_gap, first_pts, scale, size_code, gap_code, step_code, extras),
            sizes[start * a : end * a],
            moves[start * b : end * b],
            times[start * c : end * c],
            flags[start:end],
            extra_bytes,
        ))  # fmt: skip
    return blocks


def _reduced(function: np.ufunc, values: IntArray, starts: IntArray) -> IntArray:
    """The function over each video's values."""
    reduced: IntArray = function.reduceat(values, starts) if len(starts) else np.zeros(0, np.int64)
    return reduced


def _narrow(values: IntArray, starts: IntArray) -> tuple[list[int], dict[int, tuple[bytes, int]]]:
    """The code that each video's values need; and all values in the bytes of each code, with its width.

    Values too large for a code are cut off in its bytes, which those videos do not use.
    """
    low, high = _reduced(np.minimum, values, starts), _reduced(np.maximum, values, starts)
    unsigned = np.searchsorted(_UNSIGNED_LIMITS, high, side="right")
    signed = np.searchsorted(_SIGNED_LIMITS, np.maximum(high, ~low), side="right")
    codes = np.where(low >= 0, _UNSIGNED_CODES[unsigned], _SIGNED_CODES[signed])
    return codes.tolist(), {code: _bytes_of(values, code) for code in np.unique(codes).tolist()}


def _bytes_of(values: IntArray, code: int) -> tuple[bytes, int]:
    narrowed = _lowest_three(values) if code == _U3 else values.astype(_DTYPES[code])
    return narrowed.tobytes(), _DTYPES[code].itemsize


def _lowest_three(values: IntArray) -> npt.NDArray[Any]:
    """Three bytes of each value."""
    return values.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3]


def _packed_extras(lists: FrameLists, video: int) -> tuple[int, bytes]:
    """Which extras follow the flags, and their bytes."""
    if lists.orders is None and lists.crc32s is None:
        return 0, b""
    order = lists.orders[video] if lists.orders else None
    crc32 = lists.crc32s[video] if lists.crc32s else None
    data = b""
    if order is not None:
        data += struct.pack("<q", len(order)) + np.asarray(order, "<i8").tobytes()
    if crc32 is not None:
        data += np.asarray(crc32, "<u4").tobytes()
    return (_ORDER if order is not None else 0) | (_CRC32 if crc32 is not None else 0), data


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
