"""A cut's packets as elementary streams, the form that NVDEC takes: Annex B, raw VP8 and VP9 frames, AV1 OBUs."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vidprep.errors import DecodeError
from vidprep.loaders.packet_forms import NAL_CODECS, START_CODE, nal_length_size, parameter_sets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.loaders.cut import Cut
    from vidprep.loaders.packets import Payloads
    from vidprep.records import StreamInfo
    from vidprep.timebase import IntArray

#: First byte (masked) of an access unit delimiter (H.264, table 7-1; H.265, table 7-1).
DELIMITER = {"h264": (0x1F, 9), "hevc": (0x7E, 35 << 1)}

#: Fewer samples than this are walked through one by one.
FEW_SAMPLES = 16

#: Codecs whose configuration is a piece of their elementary stream.
HEADER_CODECS = frozenset({"mpeg4", "mpeg1video", "mpeg2video"})

_SHORT_START_CODE = re.compile(rb"\x00\x00\x01")


class Pieces(NamedTuple):
    """Packets in pieces to be joined by whoever feeds them, so that they are copied once."""

    parts: list[bytes | memoryview]
    """at even places start codes and parameter sets; at odd ones views: NAL units, or packets with start codes in them"""
    starts: list[int]
    """n + 1: where the parts of each packet begin, and where those of the last one end"""
    tag_places: list[int]
    """n: the even place before which a NAL unit may be put that is to belong to the packet's picture"""
    are_units: bool
    """each odd place holds one NAL unit"""


def elementary_packets(cut: Cut) -> list[tuple[int, bytes]]:
    """(row, bytes) of each packet: `elementary_pieces`, joined.

    Raises:
        DecodeError: a packet or the configuration is malformed.
    """
    pieces, rows = elementary_pieces(cut), cut.packets.rows.tolist()
    return [(row, b"".join(pieces.parts[a:b])) for row, (a, b) in zip(rows, pairwise(pieces.starts), strict=True)]


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
    payloads, length_size = cut.packets.payloads, nal_length_size(cut.info)
    try:
        units = _length_prefixed(payloads, length_size) if length_size else _whole(payloads, cut.info.codec)
    except _MalformedSampleError as error:
        row = cut.packets.rows.item(error.place)
        raise DecodeError(f"coded sample {row}: {error}", uri=cut.uri, frame_index=_frame_after(cut, row)) from error
    start_code = START_CODE if length_size else b""
    parts: list[bytes | memoryview] = [start_code] * (2 * len(units.begin))
    parts[1::2] = payloads.pieces(units.begin, units.end)
    first = units.sample.searchsorted(np.arange(len(payloads) + 1))
    starts, tag_places = (2 * first).tolist(), (2 * first[:-1]).tolist()
    for place in _behind_delimiter(payloads, units, first, cut.info.codec, length_size):
        tag_places[place] += 2
    for place in cut.segment_starts if header else ():
        if starts[place] < len(parts):
            parts[starts[place]], tag_places[place] = header + start_code, starts[place]
    return Pieces(parts, starts, tag_places, bool(length_size))


class _MalformedSampleError(ValueError):
    def __init__(self, place: int) -> None:
        super().__init__("a NAL unit runs past the end of its sample")
        self.place = place


class _Units(NamedTuple):
    """Byte ranges of a block, those of one sample one after the other."""

    sample: IntArray
    """whose each is, ascending"""
    begin: IntArray
    end: IntArray


def _length_prefixed(payloads: Payloads, length_size: int) -> _Units:
    """The NAL units of samples: the first of all of them at once, then the second, while there are many.

    Raises:
        _MalformedSampleError: one runs past the end of its sample.
    """
    data, columns = np.frombuffer(payloads.block, np.uint8), np.arange(length_size)
    sample = payloads.size.nonzero()[0]
    at, end = payloads.begin[sample], (payloads.begin + payloads.size)[sample]
    found: list[tuple[IntArray, IntArray, IntArray]] = []
    while len(sample) >= FEW_SAMPLES:
        length = np.zeros((len(sample), 4), np.uint8)
        length[:, 4 - length_size :] = data.take(at[:, None] + columns, mode="clip")
        begin = at + length_size
        at = begin + length.view(">u4")[:, 0]
        wrong = (at > end).nonzero()[0]
        if len(wrong):
            raise _MalformedSampleError(sample.item(wrong.item(0)))
        found.append((sample, begin, at))
        more = (at < end).nonzero()[0]
        sample, at, end = sample[more], at[more], end[more]
    if len(sample) or not found:
        walked = zip(sample.tolist(), at.tolist(), end.tolist(), strict=True)
        rest = [unit for edges in walked for unit in _walked(payloads.block, *edges, length_size)]
        found.append(_columns(rest))
    if len(found) == 1:
        return _Units(*found[0])
    together = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = together[0].argsort(kind="stable")
    return _Units(*(column[order] for column in together))


def _columns(units: list[tuple[int, int, int]]) -> tuple[IntArray, IntArray, IntArray]:
    samples, begins, ends = np.array(units, np.int64).reshape(-1, 3).T
    return samples, begins, ends


def _walked(block: memoryview, sample: int, at: int, end: int, length_size: int) -> Iterator[tuple[int, int, int]]:
    """(sample, begin, end) of the NAL units of one sample."""
    while at < end:
        begin = at + length_size
        at = begin + int.from_bytes(block[at:begin], "big")
        if at > end:
            raise _MalformedSampleError(sample)
        yield sample, begin, at


def _whole(payloads: Payloads, codec: str) -> _Units:
    """Samples that are in the right form, those that begin with a delimiter in two parts."""
    end = payloads.begin + payloads.size
    if codec not in DELIMITER:
        return _Units(np.arange(len(payloads)), payloads.begin, end)
    found = []
    for sample, (view, begin, stop) in enumerate(zip(payloads, payloads.begin.tolist(), end.tolist(), strict=True)):
        split = begin + _end_of_delimiter(codec, view)
        found += [(sample, begin, split), (sample, split, stop)] if split > begin else [(sample, begin, stop)]
    return _Units(*_columns(found))


def _end_of_delimiter(codec: str, sample: memoryview) -> int:
    """Where the access unit delimiter ends that a sample with start codes begins with; 0 = there is none."""
    mask, delimiter = DELIMITER[codec]
    first = bytes(sample[:8]).find(b"\1") + 1
    if not 0 < first < len(sample) or sample[first] & mask != delimiter:
        return 0
    behind = _SHORT_START_CODE.search(sample, first)
    return behind.start() if behind else 0


def _behind_delimiter(payloads: Payloads, units: _Units, first: IntArray, codec: str, length_size: int) -> list[int]:
    """The samples whose first unit is an access unit delimiter, which nothing may precede, and not the only one."""
    places = (first[1:] - first[:-1] > 1).nonzero()[0]
    if length_size and len(places) and codec in DELIMITER:
        mask, delimiter = DELIMITER[codec]
        begin = units.begin[first[places]]
        header = np.frombuffer(payloads.block, np.uint8).take(begin, mode="clip")
        places = places[(header & mask == delimiter) & (units.end[first[places]] > begin)]
    return places.tolist() if codec in DELIMITER else []


def _raw_header(info: StreamInfo) -> bytes:
    """What a raw decoder must be fed before the first packet."""
    if info.codec == "av1" and info.codec_config[:1] == b"\x81":
        return info.codec_config[4:]  # av1C (AV1 in ISOBMFF, 2.3.3): the sequence header OBU follows four bytes
    return info.codec_config if info.codec in HEADER_CODECS else b""


def _frame_after(cut: Cut, row: int) -> int | None:
    later = cut.frames[cut.frame_rows >= row]
    return int(later[0]) if len(later) else None
