"""A cut's packets as elementary streams, the form that NVDEC takes: Annex B, raw VP8 and VP9 frames, AV1 OBUs."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from vidprep.errors import DecodeError
from vidprep.loaders.packet_forms import NAL_CODECS, START_CODE, nal_length_size, parameter_sets

if TYPE_CHECKING:
    from collections.abc import Callable

    from vidprep.loaders.cut import Cut
    from vidprep.loaders.packets import Payloads
    from vidprep.records import StreamInfo

    Delimiter = tuple[int, int]

#: First byte (masked) of an access unit delimiter (H.264, table 7-1; H.265, table 7-1).
DELIMITER = {"h264": (0x1F, 9), "hevc": (0x7E, 35 << 1)}

#: By its size: (block, place) → the length that stands there, in a tuple of one.
LENGTH_AT: dict[int, Callable[[memoryview, int], tuple[int]]] = {
    1: struct.Struct(">B").unpack_from,
    2: struct.Struct(">H").unpack_from,
    3: lambda block, at: (int.from_bytes(block[at : at + 3]),),
    4: struct.Struct(">I").unpack_from,
}

#: Codecs whose configuration is a piece of their elementary stream.
HEADER_CODECS = frozenset({"mpeg4", "mpeg1video", "mpeg2video"})

_SHORT_START_CODE = re.compile(rb"\x00\x00\x01")


class Pieces(NamedTuple):
    """Packets in pieces to be joined by whoever feeds them, so that they are copied once."""

    leads: list[bytes]
    """what comes before each of the units: start codes, parameter sets"""
    units: list[memoryview]
    """NAL units, or whole packets, or packets in two where they begin with an access unit delimiter"""
    starts: list[int]
    """n + 1: the place of each packet's first unit, and how many units there are"""
    tag_places: list[int]
    """n: the place whose lead may be preceded by a NAL unit that is to belong to the packet's picture"""
    are_units: bool
    """each of the units is one NAL unit"""

    def joined(self, first: int, last: int) -> bytes:
        """The packets [first, last)."""
        begin, end = self.starts[first], self.starts[last]
        return joined(self.leads[begin:end], self.units[begin:end])


def joined(leads: list[bytes], units: list[memoryview]) -> bytes:
    """Each of the units behind its lead."""
    parts: list[bytes | memoryview] = [b""] * (2 * len(units))
    parts[::2], parts[1::2] = leads, units
    return b"".join(parts)


def elementary_packets(cut: Cut) -> list[tuple[int, bytes]]:
    """(row, bytes) of each packet: `elementary_pieces`, joined.

    Raises:
        DecodeError: a packet or the configuration is malformed.
    """
    pieces, rows = elementary_pieces(cut), cut.packets.rows.tolist()
    return [(row, pieces.joined(place, place + 1)) for place, row in enumerate(rows)]


def elementary_pieces(cut: Cut) -> Pieces:
    """H.264 and HEVC: Annex B, the parameter sets of the configuration before the first packet of each segment.

    Others: as stored; MPEG-1, -2 and -4, and AV1 get their configuration there.

    Raises:
        DecodeError: a packet or the configuration is malformed.
    """
    try:
        header = parameter_sets(cut.info) if cut.info.codec in NAL_CODECS else _raw_header(cut.info)
    except ValueError as error:
        raise DecodeError(str(error), uri=cut.uri, frame_index=_frame_after(cut, -1)) from error
    length_size, delimiter = nal_length_size(cut.info), DELIMITER.get(cut.info.codec)
    try:
        payloads = cut.packets.payloads
        pieces = _length_prefixed(payloads, length_size, delimiter) if length_size else _as_stored(payloads, delimiter)
    except _MalformedSampleError as error:
        row = cut.packets.rows.item(error.place)
        raise DecodeError(f"coded sample {row}: {error}", uri=cut.uri, frame_index=_frame_after(cut, row)) from error
    for place in cut.segment_starts if header else ():
        start = pieces.starts[place]
        if start < len(pieces.leads):
            pieces.leads[start], pieces.tag_places[place] = header + pieces.leads[start], start
    return pieces


class _MalformedSampleError(ValueError):
    def __init__(self, place: int) -> None:
        super().__init__("a NAL unit runs past the end of its sample")
        self.place = place


def _length_prefixed(payloads: Payloads, length_size: int, delimiter: Delimiter | None) -> Pieces:
    """The NAL units of samples that have them behind their lengths.

    A bare loop, since most samples are one unit or two: a few steps of Python each, where columns cost more.

    Raises:
        _MalformedSampleError: one runs past the end of its sample.
    """
    block, length_at = payloads.block, LENGTH_AT[length_size]
    units: list[memoryview] = []
    starts, tag_places = [], []
    for at, end in payloads.edges():
        first = len(units)
        starts.append(first)
        while at < end:
            begin = at + length_size
            try:
                at = begin + length_at(block, at)[0]
            except struct.error:  # the block ends within the length
                raise _MalformedSampleError(len(starts) - 1) from None
            units.append(block[begin:at])
        if at > end:
            raise _MalformedSampleError(len(starts) - 1)
        is_behind = len(units) - first > 1 and delimiter is not None and _is_delimiter(units[first], delimiter)
        tag_places.append(first + is_behind)
    return Pieces([START_CODE] * len(units), units, [*starts, len(units)], tag_places, are_units=True)


def _is_delimiter(unit: memoryview, delimiter: Delimiter) -> bool:
    return len(unit) > 0 and unit[0] & delimiter[0] == delimiter[1]


def _as_stored(payloads: Payloads, delimiter: Delimiter | None) -> Pieces:
    """Samples that are in the right form, those that begin with a delimiter in two parts."""
    units: list[memoryview] = []
    starts, tag_places = [0], []
    for sample in payloads:
        split = 0 if delimiter is None else _end_of_delimiter(sample, delimiter)
        tag_places.append(len(units) + (split > 0))
        units += (sample[:split], sample[split:]) if split else (sample,)
        starts.append(len(units))
    return Pieces([b""] * len(units), units, starts, tag_places, are_units=False)


def _end_of_delimiter(sample: memoryview, delimiter: Delimiter) -> int:
    """Where the access unit delimiter ends that a sample with start codes begins with; 0 = there is none."""
    first = bytes(sample[:8]).find(b"\1") + 1
    if not first or not _is_delimiter(sample[first:], delimiter):
        return 0
    behind = _SHORT_START_CODE.search(sample, first)
    return behind.start() if behind else 0


def _raw_header(info: StreamInfo) -> bytes:
    """What a raw decoder must be fed before the first packet."""
    if info.codec == "av1" and info.codec_config[:1] == b"\x81":
        return info.codec_config[4:]  # av1C (AV1 in ISOBMFF, 2.3.3): the sequence header OBU follows four bytes
    return info.codec_config if info.codec in HEADER_CODECS else b""


def _frame_after(cut: Cut, row: int) -> int | None:
    later = cut.frames[cut.frame_rows >= row]
    return int(later[0]) if len(later) else None
