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
from vidprep.loaders.packet_forms import (
    nal_length_size,
    parameter_set_units,
    units_of_configuration,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vidprep.loaders.packets import Packets, Payloads
    from vidprep.records import StreamInfo


#: Bytes that hold a slice header up to frame_num: three Exp-Golomb codes of at most 32 bits, 16 bits, and escapes.
SLICE_HEAD_BYTES = 24
SPS_BYTES = 1024

#: Of a NAL unit's header (ITU-T H.264, 7.3.1): nal_unit_type, and what is 0 in pictures that no other refers to.
NAL_UNIT_TYPE, NAL_REF_IDC = 0x1F, 0x60
SLICE, IDR_SLICE, SPS = 1, 5, 7

#: Stand for the frame_num of samples that have none or are malformed, of those that another SPS rules, and of no sample.
UNKNOWN, OTHER_RULES, NONE_YET = -1, -2, -3


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
    payloads, length_size, found = packets.payloads, nal_length_size(info), []
    for start, end in pairwise((*segment_starts, len(packets))):
        gap = _first_gap(payloads if len(segment_starts) == 1 else payloads[start:end], length_size, sps)
        if gap is not None:
            found.append(packets.rows.item(start + gap))
    return found


def _first_gap(payloads: Payloads, length_size: int, sps: H264Sps) -> int | None:
    """Place of the first sample of a segment whose frame_num does not go on from the reference picture before.

    1 follows everything: memory_management_control_operation 5 makes the picture before count as 0.
    """
    mask, shifts, following = (1 << sps.frame_num_bits) - 1, _shifts(sps.frame_num_bits), NONE_YET
    for place, word in enumerate(_words(payloads, length_size, sps)):
        shift, header = shifts[word >> 8 & 0xFFFF], word >> 24
        if shift == TOO_FAR:
            number, header = first_slice(payloads[place], length_size, sps)
        else:
            number = word >> shift & mask
        if number != following:
            if number == OTHER_RULES:
                return None
            if number == UNKNOWN:
                continue
            is_allowed = following == NONE_YET or number in ((following - 1) & mask, 1)
            if not is_allowed and header & NAL_UNIT_TYPE != IDR_SLICE:
                return place
        if header & NAL_REF_IDC or following == NONE_YET:
            following = (number + 1) & mask
    return None


def _words(payloads: Payloads, length_size: int, sps: H264Sps) -> list[int]:
    """The header of each sample's slice, as bits 24 to 31, and the three bytes behind it; 0 where it begins otherwise."""
    if length_size != 4 or sps.separate_planes:
        return [0] * len(payloads)
    words: list[int] = payloads.heads.view(">u4")[:, 1].tolist()
    headers = payloads.heads[:, 4].tobytes()
    if headers.translate(None, WHOLE_SLICES):
        return [word if header in WHOLE_SLICES else 0 for word, header in zip(words, headers, strict=True)]
    return words


#: NAL unit headers of whole slices.
WHOLE_SLICES = bytes(header for header in range(256) if header & NAL_UNIT_TYPE in (SLICE, IDR_SLICE))

#: A shift that stands for frame_num being further behind.
TOO_FAR = 63


@lru_cache(maxsize=16)
def _shifts(frame_num_bits: int) -> bytes:
    """By the first two bytes of a slice header: how many bits of the first three follow frame_num.

    Three Exp-Golomb codes (clause 9.1) stand before it; TOO_FAR where two bytes do not hold them, and so where an
    emulation prevention byte is among the three. Also where three do not hold frame_num.
    """
    bits, used = np.arange(1 << 16), np.zeros(1 << 16, np.int64)
    for _ in range(3):
        ahead = bits << used & 0xFFFF
        zeros = 16 - np.frexp(ahead.astype(np.float64))[1]  # the exponent is the number's bit length
        used = np.minimum(used + 2 * zeros + 1, 17)
    left = 24 - frame_num_bits - used
    return np.where((used > 16) | (left < 0), TOO_FAR, left).astype(np.uint8).tobytes()


def _sequence_parameters(info: StreamInfo, packets: Packets) -> H264Sps | None:
    """The stream's SPS; None where there is none, or more than one that do not agree about frame_num."""
    try:
        return _configured(info.codec_config) or _agreed(parameter_set_units(info, packets.payloads[0]))
    except (OutOfBitsError, ValueError):
        return None


@remembered(256)
def _configured(config: bytes) -> H264Sps | None:
    return _agreed(unit for unit in units_of_configuration("h264", config) if unit)


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
