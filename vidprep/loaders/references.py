"""Whether pictures that others refer to are missing from a run of H.264 samples.

A decoder makes up for them without a word; frame_num tells (ITU-T H.264, 7.4.3): it goes up by one after every
reference picture, unless the stream allows gaps.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from vidprep.containers.bits import OutOfBitsError, rbsp
from vidprep.containers.parameter_sets import H264Sps, parse_h264_sps
from vidprep.loaders.packet_forms import nal_length_size, parameter_set_units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vidprep.loaders.cut import Packet
    from vidprep.records import StreamInfo

#: Bytes that hold a slice header up to frame_num: three Exp-Golomb codes of at most 32 bits, 16 bits, and escapes.
SLICE_HEAD_BYTES = 24
SPS_BYTES = 1024
SLICE, IDR_SLICE, SPS = 1, 5, 7


class Slice(NamedTuple):
    """The first slice of a sample."""

    frame_num: int
    is_idr: bool
    is_reference: bool


#: Stands for a slice that another sequence parameter set rules.
OTHER_RULES = Slice(-1, is_idr=False, is_reference=False)


def first_gap(info: StreamInfo, packets: Sequence[Packet]) -> int | None:
    """Row of the first packet of a segment before which a reference picture is missing; None = none is, or not known."""
    sps = _sequence_parameters(info, packets) if info.codec == "h264" else None
    if sps is None or sps.gaps_allowed:
        return None
    length_size, previous = nal_length_size(info), None
    for packet in packets:
        head = first_slice(packet.data, length_size, sps)
        if head is None:
            continue
        if head is OTHER_RULES:
            return None
        if previous is not None and not head.is_idr and not _follows(head.frame_num, previous, sps):
            return packet.row
        if head.is_reference or previous is None:
            previous = head.frame_num
    return None


def _follows(frame_num: int, previous: int, sps: H264Sps) -> bool:
    """1 follows everything: memory_management_control_operation 5 makes the picture before count as 0."""
    return frame_num in (previous, (previous + 1) % (1 << sps.frame_num_bits), 1)


def _sequence_parameters(info: StreamInfo, packets: Sequence[Packet]) -> H264Sps | None:
    """The stream's SPS; None where there is none, or more than one that do not agree about frame_num."""
    try:
        units = parameter_set_units(info, packets[0].data) if packets else []
        found = [_parsed(unit) for unit in units if unit[0] & 0x1F == SPS]
    except (OutOfBitsError, ValueError):
        return None
    return found[0] if len(set(map(_rules, found))) == 1 else None


@lru_cache(maxsize=256)
def _parsed(unit: bytes) -> H264Sps:
    return parse_h264_sps(unit)


def _rules(sps: H264Sps) -> tuple[int, int, int]:
    return sps.frame_num_bits, sps.gaps_allowed, sps.separate_planes


def first_slice(sample: bytes, length_size: int, sps: H264Sps) -> Slice | None:
    """The head of a sample's first slice; None if it has none or is malformed, OTHER_RULES if it brings another SPS."""
    for at in _unit_starts(sample, length_size):
        kind = sample[at] & 0x1F
        if kind == SPS and not _agrees(sample[at : at + SPS_BYTES], sps):
            return OTHER_RULES
        if kind in (SLICE, IDR_SLICE):
            number = _frame_num(rbsp(sample[at + 1 : at + 1 + SLICE_HEAD_BYTES]), sps)
            return None if number is None else Slice(number, kind == IDR_SLICE, sample[at] & 0x60 != 0)
    return None


def _unit_starts(sample: bytes, length_size: int) -> Iterator[int]:
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

    Called for every sample: three Exp-Golomb codes (clause 9.1) are passed over in bare arithmetic.
    """
    value, left = int.from_bytes(head, "big"), 8 * len(head)
    for _ in range(3):
        zeros = left - (value & ((1 << left) - 1)).bit_length()
        left -= 2 * zeros + 1
        if left < 0 or zeros > 32:
            return None
    left -= 2 * sps.separate_planes + sps.frame_num_bits
    return None if left < 0 else value >> left & ((1 << sps.frame_num_bits) - 1)
