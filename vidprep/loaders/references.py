"""Whether pictures that others refer to are missing from a run of H.264 samples.

A decoder makes up for them without a word; frame_num tells (ITU-T H.264, 7.4.3): it goes up by one after every
reference picture, unless the stream allows gaps.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vidprep.containers.bits import OutOfBitsError, rbsp
from vidprep.containers.parameter_sets import H264Sps, parse_h264_sps
from vidprep.containers.remembered import remembered
from vidprep.loaders.packet_forms import nal_length_size, parameter_set_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vidprep.loaders.packets import BoolArray, Heads, Packets
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


def first_gaps(
    info: StreamInfo, packets: Packets, segment_starts: Sequence[int] = (0,), heads: Heads | None = None
) -> list[int]:
    """Row of the first packet of each segment before which a reference picture is missing, where there is one.

    Args:
        info: the stream.
        packets: those of a cut.
        segment_starts: places at which decoding starts afresh.
        heads: the first bytes of each packet, which make it faster.
    """
    sps = _sequence_parameters(info, packets) if info.codec == "h264" and packets else None
    if sps is None or sps.gaps_allowed:
        return []
    number, header = _frame_nums(packets, heads, nal_length_size(info), sps)
    starts = np.array(segment_starts)
    judged = None
    if (number < 0).any():
        judged = (~_are_passed_over(number, starts)).nonzero()[0]
        number, header, starts = number[judged], header[judged], judged.searchsorted(starts)
    gaps = _gaps(number, header, starts[starts < len(number)], sps)
    rows: list[int] = packets.rows[gaps if judged is None else judged[gaps]].tolist()
    return rows


def _are_passed_over(number: IntArray, starts: IntArray) -> BoolArray:
    """Samples without a frame_num, and from the first one on that another SPS rules, the rest of its segment."""
    passed_over: BoolArray = number < 0
    for place in (number == OTHER_RULES).nonzero()[0].tolist():
        later = starts[starts > place]
        passed_over[place : later[0] if len(later) else None] = True
    return passed_over


def _gaps(number: IntArray, header: Heads, starts: IntArray, sps: H264Sps) -> list[int]:
    """Place in each segment of the first slice whose frame_num does not go on from the reference picture before it.

    1 follows everything: memory_management_control_operation 5 makes the picture before count as 0.
    """
    counts = header & NAL_REF_IDC != 0
    counts[starts] = True
    last = np.maximum.accumulate(np.where(counts, np.arange(len(number)), 0))
    ahead = number[1:] - number[last[:-1]] & (1 << sps.frame_num_bits) - 1
    places = (ahead > 1).nonzero()[0] + 1
    if not len(places):
        return []
    places = places[(number[places] != 1) & (header[places] & NAL_UNIT_TYPE != IDR_SLICE)]
    segments = starts.searchsorted(places, side="right").tolist()
    is_start = set(starts.tolist())
    later_first = zip(reversed(segments), reversed(places.tolist()), strict=True)
    return sorted({segment: place for segment, place in later_first if place not in is_start}.values())


def _frame_nums(packets: Packets, heads: Heads | None, length_size: int, sps: H264Sps) -> tuple[IntArray, Heads]:
    """frame_num, or UNKNOWN or OTHER_RULES, and NAL unit header of each packet's first slice.

    Most samples start with a slice, whose header is read for all of them at once.
    """
    if length_size == 4 and heads is not None and not sps.separate_planes:
        numbers, headers = _frame_nums_at_once(heads, sps), heads[:, 4].copy()
    else:
        numbers, headers = np.full(len(packets), UNKNOWN), np.zeros(len(packets), np.uint8)
    for place in (numbers == UNKNOWN).nonzero()[0].tolist():
        numbers[place], headers[place] = first_slice(packets.payloads[place], length_size, sps)
    return numbers, headers


def _frame_nums_at_once(heads: Heads, sps: H264Sps) -> IntArray:
    """frame_num of samples that start with a slice behind a four-byte length; UNKNOWN of others, or if it takes more.

    Args:
        heads: uint8 (n, 9 or more), the first bytes of each.
        sps: one without colour planes of their own.
    """
    word = np.ascontiguousarray(heads[:, 5:9]).view(">u4")[:, 0].astype(np.int64)
    used = _bits_of_three_codes()[word >> 16]
    number: IntArray = word >> (32 - sps.frame_num_bits - used) & ((1 << sps.frame_num_bits) - 1)
    is_escaped = word & 0xFFFFFF == 3
    number[is_escaped | (used == 0) | ~_IS_SLICE[heads[:, 4]]] = UNKNOWN
    return number


#: By NAL unit header: whether it is a whole slice's.
_IS_SLICE = np.isin(np.arange(256) & NAL_UNIT_TYPE, (SLICE, IDR_SLICE))


@lru_cache(maxsize=1)
def _bits_of_three_codes() -> IntArray:
    """int64[65536]: how many of 16 bits three Exp-Golomb codes (clause 9.1) take; 0 = more than there are."""
    bits, used = np.arange(1 << 16), np.zeros(1 << 16, np.int64)
    for _ in range(3):
        ahead = bits << used & 0xFFFF
        zeros = 16 - np.frexp(ahead.astype(np.float64))[1]  # the exponent is the number's bit length
        used = np.minimum(used + 2 * zeros + 1, 17)
    return np.where(used > 16, 0, used)


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
