"""Whether pictures that others refer to are missing from a run of H.264 samples.

A decoder makes up for them without a word; frame_num tells (ITU-T H.264, 7.4.3): it goes up by one after every
reference picture, unless the stream allows gaps.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vidprep.containers.bits import OutOfBitsError, rbsp
from vidprep.containers.parameter_sets import H264Sps, parse_h264_sps
from vidprep.containers.remembered import remembered
from vidprep.loaders.packet_forms import nal_length_size, parameter_set_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vidprep.loaders.packets import Heads, Packets, Payloads
    from vidprep.records import StreamInfo
    from vidprep.timebase import IntArray


#: Bytes that hold a slice header up to frame_num: three Exp-Golomb codes of at most 32 bits, 16 bits, and escapes.
SLICE_HEAD_BYTES = 24
SPS_BYTES = 1024

#: Of a NAL unit's header (ITU-T H.264, 7.3.1): nal_unit_type, and what is 0 in pictures that no other refers to.
NAL_UNIT_TYPE, NAL_REF_IDC = 0x1F, 0x60
SLICE, IDR_SLICE, SPS = 1, 5, 7

#: Stand for the frame_num of samples that have none or are malformed, and of those that another SPS rules.
UNKNOWN, OTHER_RULES = -1, -2


class Slice(NamedTuple):
    """The first slice of a sample."""

    frame_num: int
    """or UNKNOWN, or OTHER_RULES"""
    header: int = 0
    """of its NAL unit"""


def first_gaps(info: StreamInfo, packets: Packets, segment_starts: Sequence[int] = (0,)) -> list[int]:
    """Row of the first packet of each segment before which a reference picture is missing, where there is one.

    Args:
        info: the stream.
        packets: those of a cut.
        segment_starts: places at which decoding starts afresh.
    """
    sps = _sequence_parameters(info, packets) if info.codec == "h264" and packets else None
    if sps is None or sps.gaps_allowed:
        return []
    numbers, headers = _frame_nums(packets.payloads, nal_length_size(info), sps)
    edges = pairwise((*segment_starts, len(numbers)))
    gaps = [_first_gap(numbers[start:end], headers[start:end], sps) for start, end in edges]
    return [packets.rows.item(start + gap) for start, gap in zip(segment_starts, gaps, strict=True) if gap is not None]


def _first_gap(numbers: list[int], headers: list[int], sps: H264Sps) -> int | None:
    """Place of the first slice of a segment whose frame_num does not go on from the reference picture before.

    1 follows everything: memory_management_control_operation 5 makes the picture before count as 0.
    """
    mask, previous = (1 << sps.frame_num_bits) - 1, UNKNOWN
    for place, number in enumerate(numbers):
        if number < 0:
            if number == OTHER_RULES:
                return None
            continue
        header = headers[place]
        if previous == UNKNOWN:
            previous = number
            continue
        follows = number == previous or number == (previous + 1) & mask or number == 1
        if not follows and header & NAL_UNIT_TYPE != IDR_SLICE:
            return place
        if header & NAL_REF_IDC:
            previous = number
    return None


def _frame_nums(payloads: Payloads, length_size: int, sps: H264Sps) -> tuple[list[int], list[int]]:
    """frame_num, or UNKNOWN or OTHER_RULES, and NAL unit header of each packet's first slice.

    Most samples start with a slice, whose header is read for all of them at once.
    """
    if length_size == 4 and not sps.separate_planes:
        numbers, headers = _frame_nums_at_once(payloads.heads, sps).tolist(), payloads.heads[:, 4].tolist()
    else:
        numbers, headers = [UNKNOWN] * len(payloads), [0] * len(payloads)
    for place, number in enumerate(numbers):
        if number == UNKNOWN:
            numbers[place], headers[place] = first_slice(payloads[place], length_size, sps)
    return numbers, headers


def _frame_nums_at_once(heads: Heads, sps: H264Sps) -> IntArray:
    """frame_num of samples that start with a slice behind a four-byte length; UNKNOWN of others, or if it takes more.

    Args:
        heads: uint8 (n, 9 or more), the first bytes of each.
        sps: one without colour planes of their own.
    """
    word = np.ascontiguousarray(heads[:, 5:9]).view(">u4")[:, 0]
    shift = _shifts(sps.frame_num_bits)[heads[:, 5], heads[:, 6]]
    number: IntArray = word >> shift & (1 << sps.frame_num_bits) - 1
    unknown = (shift > 32) | _IS_OTHER[heads[:, 4]]
    if sps.frame_num_bits > 8:  # it may reach into the fourth byte
        unknown |= word & 0xFFFFFF == 3  # an emulation prevention byte
    number[unknown] = UNKNOWN
    return number


#: By NAL unit header: whether it is not a whole slice's.
_IS_OTHER = ~np.isin(np.arange(256) & NAL_UNIT_TYPE, (SLICE, IDR_SLICE))


@lru_cache(maxsize=16)
def _shifts(frame_num_bits: int) -> IntArray:
    """int64 (256, 256), by the first two bytes of a slice header: how far behind frame_num the first four bytes end.

    Three Exp-Golomb codes (clause 9.1) stand before it; more than 32 where two bytes do not hold them.
    """
    bits, used = np.arange(1 << 16), np.zeros(1 << 16, np.int64)
    for _ in range(3):
        ahead = bits << used & 0xFFFF
        zeros = 16 - np.frexp(ahead.astype(np.float64))[1]  # the exponent is the number's bit length
        used = np.minimum(used + 2 * zeros + 1, 17)
    return np.where(used > 16, 33, 32 - frame_num_bits - used).reshape(256, 256)


def _sequence_parameters(info: StreamInfo, packets: Packets) -> H264Sps | None:
    """The stream's SPS; None where there is none, or more than one that do not agree about frame_num."""
    try:
        return _agreed(parameter_set_units(info, packets.payloads[0]))
    except (OutOfBitsError, ValueError):
        return None


def _agreed(units: Iterable[bytes]) -> H264Sps | None:
    found = [_parsed(unit) for unit in units if unit[0] & NAL_UNIT_TYPE == SPS]
    return found[0] if len(set(map(_rules, found))) == 1 else None


@remembered(256)
def _parsed(unit: bytes) -> H264Sps:
    return parse_h264_sps(unit)


def _rules(sps: H264Sps) -> tuple[int, int, int]:
    return sps.frame_num_bits, sps.gaps_allowed, sps.separate_planes


def first_slice(sample: bytes | memoryview, length_size: int, sps: H264Sps) -> Slice:
    """The head of a sample's first slice."""
    for at in _unit_starts(sample, length_size):
        header = sample[at]
        kind = header & NAL_UNIT_TYPE
        if kind == SPS and not _agrees(bytes(sample[at : at + SPS_BYTES]), sps):
            return Slice(OTHER_RULES)
        if kind in (SLICE, IDR_SLICE):
            number = _frame_num(rbsp(bytes(sample[at + 1 : at + 1 + SLICE_HEAD_BYTES])), sps)
            return Slice(UNKNOWN if number is None else number, header)
    return Slice(UNKNOWN)


def _unit_starts(sample: bytes | memoryview, length_size: int) -> Iterator[int]:
    """Where the NAL units of a sample start, behind lengths or, for 0, start codes."""
    if length_size == 0:
        yield from (match.end() for match in re.finditer(b"\0\0\1(?=.)", sample, re.DOTALL))
        return
    at = length_size
    while at < len(sample):
        yield at
        at += int.from_bytes(sample[at - length_size : at], "big") + length_size


def _agrees(unit: bytes, sps: H264Sps) -> bool:
    try:
        return _rules(_parsed(unit)) == _rules(sps)
    except OutOfBitsError:
        return False


def _frame_num(head: bytes, sps: H264Sps) -> int | None:
    """first_mb_in_slice, slice_type, pic_parameter_set_id, colour_plane_id, frame_num (clause 7.3.3).

    Where it is called for every sample it counts: three Exp-Golomb codes (clause 9.1) are passed over in bare
    arithmetic.
    """
    value, left = int.from_bytes(head, "big"), 8 * len(head)
    for _ in range(3):
        zeros = left - (value & ((1 << left) - 1)).bit_length()
        left -= 2 * zeros + 1
        if left < 0 or zeros > 32:
            return None
    left -= 2 * sps.separate_planes + sps.frame_num_bits
    return None if left < 0 else value >> left & ((1 << sps.frame_num_bits) - 1)
