"""Supplemental enhancement information (SEI) that a decoder refuses, though no picture depends on it.

Cameras and editors cut messages short (captions, user data, mastering displays). Players pass over them; FFmpeg, told to
report whatever is wrong, refuses the whole sample.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from vidprep.containers.bits import rbsp
from vidprep.containers.nal_units import MAX_NAL_UNITS, nal_spans
from vidprep.loaders.packet_forms import nal_length_size
from vidprep.loaders.packets import Packets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.loaders.cut import Cut

#: codec → mask and shift of nal_unit_type, length of the unit's header, types of SEI (ITU-T H.264, table 7-1; H.265, 7-1).
UNITS = {"h264": (0x1F, 0, 1, (6,)), "hevc": (0x3F, 1, 2, (39, 40))}

#: payloadType of what decoders go by (annex D of both): buffering period, picture timing, user data in which an encoder
#: names itself, recovery point.
KEPT = frozenset({0, 1, 5, 6})
USER_DATA, UUID_BYTES = 5, 16


def without_messages(cut: Cut) -> Cut | None:
    """The cut less its SEI units that are cut short, or hold what no picture depends on; None where it has none."""
    if cut.info.codec not in UNITS:
        return None
    packets = list(cut.packets)
    cleaned = [_cleaned(cut.info.codec, packet.data, nal_length_size(cut.info)) for packet in packets]
    if not any(cleaned):
        return None
    kept = [packet._replace(payload=data or packet.payload) for packet, data in zip(packets, cleaned, strict=True)]
    return dataclasses.replace(cut, packets=Packets.of(kept))


def _cleaned(codec: str, sample: bytes, length_size: int) -> bytes | None:
    """The sample less such units, or None where it has none, or no others, or is damaged."""
    spans = list(nal_spans(sample, length_size))
    if len(spans) == MAX_NAL_UNITS or (length_size and not _are_true(spans, sample, length_size)):
        return None
    kept = [sample[start:end] for start, end in spans if not _is_idle(codec, sample[start:end])]
    if len(kept) in (0, len(spans)):
        return None
    heads = [len(unit).to_bytes(length_size, "big") if length_size else b"\0\0\0\1" for unit in kept]
    return b"".join(part for pair in zip(heads, kept, strict=True) for part in pair)


def _are_true(spans: list[tuple[int, int]], sample: bytes, length_size: int) -> bool:
    """Whether the lengths before the units are theirs and nothing stands between: put right, damage would be hidden."""
    edges = [0, *(end for _, end in spans)]
    follow = all(start == edge + length_size for (start, _), edge in zip(spans, edges, strict=False))
    lengths = (int.from_bytes(sample[start - length_size : start], "big") for start, _ in spans)
    return follow and edges[-1] == len(sample) and list(lengths) == [end - start for start, end in spans]


def _is_idle(codec: str, unit: bytes) -> bool:
    mask, shift, header_bytes, kinds = UNITS[codec]
    if unit[0] >> shift & mask not in kinds:
        return False
    return not all(is_whole and kind in KEPT for kind, is_whole in _messages(rbsp(unit[header_bytes:])))


def _messages(data: bytes) -> Iterator[tuple[int, bool]]:
    """PayloadType of each message, and whether all of it is there (ITU-T H.264, 7.3.2.3.1)."""
    at = 0
    while at + 2 < len(data):
        kind, at = _number(data, at)
        size, at = _number(data, at)
        at += size
        yield kind, at < len(data) and (kind != USER_DATA or size >= UUID_BYTES)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number in bytes of 255 and a last one, and where the next begins."""
    number = 0
    while at < len(data) and data[at] == 255:
        number, at = number + 255, at + 1
    return number + (data[at] if at < len(data) else 0), at + 1
