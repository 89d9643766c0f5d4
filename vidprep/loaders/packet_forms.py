"""A cut's packets in the forms that decoders take: Annex B or raw frames (NVDEC), av.Packet (FFmpeg).

The in-memory MP4 that DALI takes is in mp4_writer.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from vidprep.containers.remembered import remembered
from vidprep.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vidprep.loaders.cut import Cut, Packet
    from vidprep.records import StreamInfo
    from vidprep.timebase import IntArray

START_CODE = b"\x00\x00\x00\x01"
_START_CODE = np.frombuffer(START_CODE, np.uint8)
_FOUR = np.arange(4)

#: Fewer samples than this are walked through one by one.
FEW_SAMPLES = 48

Data = TypeVar("Data", bytes, memoryview)

NAL_CODECS = frozenset({"h264", "hevc", "vvc"})


def annexb(data: bytes, length_size: int) -> bytes:
    """A sample whose NAL units carry length prefixes, with start codes instead (H.264/H.265 Annex B).

    Args:
        data: one coded sample.
        length_size: bytes of each length prefix, 1 to 4; 0 = it has start codes already.

    Raises:
        ValueError: a length runs past the end of the sample.
    """
    if length_size == 0:
        return data
    return b"".join(part for unit in nal_units(memoryview(data), length_size) for part in (START_CODE, unit))


def nal_units(data: Data, length_size: int) -> Iterator[Data]:
    """The NAL units of a length-prefixed sample. Raises ValueError where one runs past its end."""
    at, end = 0, len(data)
    while at < end:
        unit = int.from_bytes(data[at : at + length_size], "big")
        at += length_size
        if at + unit > end:
            raise ValueError(f"a NAL unit runs {at + unit - end} bytes past the end of its sample")
        yield data[at : at + unit]
        at += unit


def annexb_units(data: bytes, length_size: int = 0) -> list[bytes]:
    """The NAL units of a sample with length prefixes, or with start codes where length_size is 0.

    Zero bytes before a start code are padding (H.264 and H.265, B.1.1): no NAL unit ends in one.
    """
    if length_size:
        return list(nal_units(data, length_size))
    return [unit for piece in re.split(b"\0\0\1", data)[1:] if (unit := piece.rstrip(b"\0"))]


def parameter_sets(info: StreamInfo) -> bytes:
    """The parameter sets of the stream's configuration as Annex B; empty if it has none (they are in band).

    Raises:
        ValueError: the configuration is cut off.
    """
    return b"".join(START_CODE + unit for unit in configuration_units(info))


def configuration_units(info: StreamInfo) -> tuple[bytes, ...]:
    """Parameter set NAL units from Annex B, avcC (ISO/IEC 14496-15, 5.3.3.1) or hvcC (8.3.3.1).

    Raises:
        ValueError: the configuration is cut off.
    """
    return _configuration_units(info.codec, info.codec_config)


@remembered(256)
def _configuration_units(codec: str, config: bytes) -> tuple[bytes, ...]:
    if codec not in NAL_CODECS or not config:
        return ()
    if is_annexb(config):
        return tuple(annexb_units(config))
    if codec == "vvc":
        raise ValueError("vvcC is not read here")
    return tuple(_avcc_units(config) if codec == "h264" else _hvcc_units(config))


def is_annexb(config: bytes) -> bool:
    """Whether a configuration, or a sample, starts with a start code."""
    return config[:3] == START_CODE[1:] or config[:4] == START_CODE


def nal_length_size(info: StreamInfo) -> int:
    """Bytes of each NAL unit's length prefix, from the configuration where the facts do not say; 0 = start codes."""
    config, place = info.codec_config, {"h264": 4, "hevc": 21}.get(info.codec)
    if info.nal_length_size or place is None or len(config) <= place or is_annexb(config):
        return info.nal_length_size
    return (config[place] & 3) + 1


def parameter_set_units(info: StreamInfo, first_sample: bytes | memoryview) -> list[bytes]:
    """Parameter sets from the configuration, or else from the first sample."""
    units = configuration_units(info) or annexb_units(bytes(first_sample), nal_length_size(info))
    return [unit for unit in units if is_parameter_set(info.codec, unit[0])]


def is_parameter_set(codec: str, first_byte: int) -> bool:
    """Whether the NAL unit that starts with this byte is a VPS, SPS or PPS of H.264 or HEVC."""
    return first_byte & 0x1F in (7, 8) if codec == "h264" else first_byte >> 1 & 0x3F in (32, 33, 34)


def av1_sequence_header(sample: bytes) -> bytes:
    """The sequence header OBU of a sample (AV1, 5.3 and 5.5), empty if there is none."""
    at = 0
    while at < len(sample):
        header = sample[at]
        start = at + (2 if header & 0x04 else 1)
        size, start = _leb128(sample, start) if header & 0x02 else (len(sample) - start, start)
        if header >> 3 & 0x0F == 1:
            return sample[at : start + size]
        at = start + size
    return b""


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    """(value, place behind it); AV1, 4.10.5."""
    value = 0
    for place, byte in enumerate(data[at : at + 8]):
        value |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return value, at + place + 1
    return len(data), len(data)


def _avcc_units(config: bytes) -> Iterator[bytes]:
    at = 5
    for mask in (0x1F, 0xFF):  # SPS count in the low 5 bits, then PPS count
        count, at = _byte(config, at) & mask, at + 1
        for _ in range(count):
            unit, at = _sized(config, at)
            yield unit


def _hvcc_units(config: bytes) -> Iterator[bytes]:
    num_arrays, at = _byte(config, 22), 23
    for _ in range(num_arrays):
        count, at = int.from_bytes(config[at + 1 : at + 3], "big"), at + 3
        for _ in range(count):
            unit, at = _sized(config, at)
            yield unit


def _byte(config: bytes, at: int) -> int:
    if at >= len(config):
        raise ValueError(f"the decoder configuration ends at byte {len(config)}")
    return config[at]


def _sized(config: bytes, at: int) -> tuple[bytes, int]:
    """A unit behind its 16-bit length, and where the next begins."""
    size = int.from_bytes(config[at : at + 2], "big")
    if at + 2 + size > len(config):
        raise ValueError(f"the decoder configuration ends at byte {len(config)}")
    return config[at + 2 : at + 2 + size], at + 2 + size


def elementary_packets(cut: Cut) -> list[tuple[int, bytes]]:
    """(row, bytes) of each packet as NVDEC takes them.

    H.264 and HEVC: Annex B, the parameter sets of the configuration before the first packet of each segment. Others
    (VP8, VP9, AV1 OBUs, MPEG): as stored; MPEG-4 gets its configuration before the first packet.

    Raises:
        DecodeError: a packet or the configuration is malformed.
    """
    return [
        (row, bytes(memoryview(run.buffer)[start:end]))
        for run in elementary_runs(cut)
        for row, (start, end) in zip(run.rows.tolist(), pairwise(run.offsets.tolist()), strict=True)
    ]


class Run(NamedTuple):
    """The packets of one segment in the form that NVDEC takes, one behind the other."""

    buffer: bytearray
    offsets: IntArray
    """int64[n + 1]: where each packet begins, and where the last one ends"""
    rows: IntArray
    """int64[n]: the row of each packet"""


def elementary_runs(cut: Cut) -> list[Run]:
    """As `elementary_packets`, the packets of each segment in one buffer: they are copied once.

    Raises:
        DecodeError: a packet or the configuration is malformed.
    """
    try:
        header = parameter_sets(cut.info) if cut.info.codec in NAL_CODECS else _raw_header(cut.info)
    except ValueError as error:
        raise DecodeError(str(error), uri=cut.uri, frame_index=_frame_after(cut, -1)) from error
    length_size = nal_length_size(cut.info)
    runs = []
    for packets in cut.segments:
        try:
            runs.append(_run(packets, header, length_size))
        except _MalformedSampleError as error:
            row = error.row
            raise DecodeError(
                f"coded sample {row}: {error}", uri=cut.uri, frame_index=_frame_after(cut, row)
            ) from error  # fmt: skip
    return runs


class _MalformedSampleError(ValueError):
    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


def _run(packets: Sequence[Packet], header: bytes, length_size: int) -> Run:
    """Raises _MalformedSampleError."""
    payloads = [packet.payload for packet in packets]
    if length_size not in (0, len(START_CODE)):
        payloads = [_annexb_of(packet, length_size) for packet in packets]
    buffer = bytearray().join([header, *payloads]) if payloads else bytearray()
    offsets = np.zeros(len(payloads) + 1, np.int64)
    np.cumsum([len(payload) for payload in payloads], out=offsets[1:])
    offsets[1:] += len(header)
    if length_size == len(START_CODE) and payloads:
        starts = offsets[:-1].copy()
        starts[0] = len(header)
        bad = _put_start_codes(buffer, starts, offsets[1:])
        if bad is not None:
            raise _MalformedSampleError("a NAL unit runs past the end of its sample", packets[bad].row)
    return Run(buffer, offsets, np.array([packet.row for packet in packets], np.int64))


def _annexb_of(packet: Packet, length_size: int) -> bytes:
    try:
        return annexb(packet.data, length_size)
    except ValueError as error:
        raise _MalformedSampleError(str(error), packet.row) from error


def _put_start_codes(buffer: bytearray, start: IntArray, end: IntArray) -> int | None:
    """Overwrite four-byte lengths, the first of all samples at once, then the second, while there are many.

    Args:
        buffer: length-prefixed samples.
        start: int64[n]: where each begins.
        end: int64[n]: where each ends.

    Returns:
        place of a sample one of whose units runs past its end, None if all are whole.
    """
    view, place = np.frombuffer(buffer, np.uint8), np.arange(len(start))
    while len(place) >= FEW_SAMPLES:
        if (start + 4 > end).any():
            return int(place[start + 4 > end][0])
        prefix = start[:, None] + _FOUR
        start = start + 4 + view[prefix].view(">u4")[:, 0]
        view[prefix] = _START_CODE
        if (start > end).any():
            return int(place[start > end][0])
        more = start < end
        start, end, place = start[more], end[more], place[more]
    samples = zip(place.tolist(), start.tolist(), end.tolist(), strict=True)
    return next((at for at, *edges in samples if not _has_start_codes_put(buffer, *edges)), None)


def _has_start_codes_put(buffer: bytearray, at: int, end: int) -> bool:
    """The same of one sample; whether its units end where it does."""
    while at + 4 <= end:
        unit = int.from_bytes(buffer[at : at + 4], "big")
        buffer[at : at + 4] = START_CODE
        at += 4 + unit
    return at == end


#: Codecs whose configuration is a piece of their elementary stream.
_HEADER_CODECS = frozenset({"mpeg4", "mpeg1video", "mpeg2video"})


def _raw_header(info: StreamInfo) -> bytes:
    """What a raw decoder must be fed before the first packet."""
    if info.codec == "av1" and info.codec_config[:1] == b"\x81":
        return info.codec_config[4:]  # av1C (AV1 in ISOBMFF, 2.3.3): the sequence header OBU follows four bytes
    return info.codec_config if info.codec in _HEADER_CODECS else b""


def _frame_after(cut: Cut, row: int) -> int | None:
    later = cut.frames[cut.frame_rows >= row]
    return int(later[0]) if len(later) else None


def av_packet(packet: Packet) -> Any:
    """The packet for FFmpeg, its row as pts and dts: a decoder passes them on to the picture."""
    import av

    # Not Packet(data): that lends FFmpeg Python's own memory, without the zero padding that its bit readers run into.
    out = av.Packet(len(packet.payload))
    out.update(packet.payload)  # type: ignore[arg-type]  # any buffer will do
    out.pts = out.dts = packet.row
    out.is_keyframe = packet.key
    return out
