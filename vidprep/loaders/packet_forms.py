"""NAL units and parameter sets of samples, and a cut's packets as FFmpeg takes them.

The form that NVDEC takes is in `elementary`, the MP4 that DALI takes in `mp4_writer`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from vidprep.containers.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.loaders.packets import Packet
    from vidprep.records import StreamInfo

START_CODE = b"\x00\x00\x00\x01"

Data = TypeVar("Data", bytes, memoryview)

NAL_CODECS = frozenset({"h264", "hevc", "vvc"})


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
    return _parameter_sets(info.codec, info.codec_config)


@remembered(256)
def _parameter_sets(codec: str, config: bytes) -> bytes:
    return b"".join(START_CODE + unit for unit in units_of_configuration(codec, config))


def configuration_units(info: StreamInfo) -> tuple[bytes, ...]:
    """Parameter set NAL units from Annex B, avcC (ISO/IEC 14496-15, 5.3.3.1) or hvcC (8.3.3.1).

    Raises:
        ValueError: the configuration is cut off.
    """
    return units_of_configuration(info.codec, info.codec_config)


@remembered(256)
def units_of_configuration(codec: str, config: bytes) -> tuple[bytes, ...]:
    """The same, by FFmpeg's name of the codec and its extradata."""
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
    return [unit for unit in units if unit and is_parameter_set(info.codec, unit[0])]


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


def av_packet(packet: Packet) -> Any:
    """The packet for FFmpeg, its row as pts and dts: a decoder passes them on to the picture."""
    import av

    # Not Packet(data): that lends FFmpeg Python's own memory, without the zero padding that its bit readers run into.
    out = av.Packet(len(packet.payload))
    out.update(packet.payload)  # type: ignore[arg-type]  # any buffer will do
    out.pts = out.dts = packet.row
    out.is_keyframe = packet.key
    return out
