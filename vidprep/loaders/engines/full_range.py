"""A cut whose stream says that its samples use the full range, whatever it said before; its pictures are the same.

Decoders that give RGB alone cut off what lies beyond 0..255. Samples of the limited range that are converted as if they
used the full one come out between 16 and 235, with room on both sides for what is brighter, darker or more colourful
than RGB can be.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from vidprep.containers.remembered import remembered
from vidprep.containers.vpx_headers import vp9_frames
from vidprep.errors import DecodeError
from vidprep.loaders.engines.decoders import INPUT_PADDING_BYTES
from vidprep.loaders.packet_forms import START_CODE, annexb_units, configuration_units, nal_length_size
from vidprep.loaders.packets import Packets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.loaders.cut import Cut

#: FFmpeg's filters that rewrite video_full_range_flag (ITU-T H.264 and H.265, E.2.1).
FILTERS = {"h264": "h264_metadata", "hevc": "hevc_metadata"}

#: nal_unit_type of a video parameter set of HEVC.
VPS = 32

#: Codecs whose range can be restated here.
CODECS = frozenset((*FILTERS, "vp8", "vp9"))


def with_full_range(cut: Cut) -> Cut:
    """The cut, stating the full range. Of CODECS only.

    Raises:
        DecodeError: a sequence header is malformed.
    """
    try:
        if cut.info.codec in FILTERS:
            return _nal_cut(cut)
        restated = _vp8_frame if cut.info.codec == "vp8" else _vp9_sample
        packets = Packets.of(packet._replace(payload=restated(packet.data)) for packet in cut.packets)
    except ValueError as error:
        raise DecodeError(str(error), uri=cut.uri) from error
    return dataclasses.replace(cut, packets=packets)


def _vp8_frame(frame: bytes) -> bytes:
    """clamping_type of a key frame (RFC 6386, 9.2), which FFmpeg takes to tell the range.

    It is the second bit of the first partition, coded with even odds as the first is, which leaves the arithmetic
    decoder in the same state whatever they are: adding a quarter of its range to the value turns 0 into 1.
    """
    if len(frame) < 11 or frame[0] & 1 or frame[10] & 0x40:
        return frame
    return frame[:10] + bytes([frame[10] | 0x40]) + frame[11:]


def _vp9_sample(sample: bytes) -> bytes:
    """color_range of each key frame (VP9, 6.2 and 6.2.2): profile 0, and no sRGB, in which there is none."""
    out, at = bytearray(sample), 0
    for frame in vp9_frames(sample):
        at = sample.index(frame, at)
        is_key = len(frame) > 4 and frame[0] & 0xFC == 0x80 and frame[1:4] == b"\x49\x83\x42"
        if is_key and frame[4] >> 5 != 7:
            out[at + 4] |= 0x10
        at += len(frame)
    return bytes(out)


def _nal_cut(cut: Cut) -> Cut:
    info, length_size = cut.info, nal_length_size(cut.info)
    stored = configuration_units(info)
    config = b"".join(START_CODE + unit for unit in _restated(info.codec, stored, ()))
    packets = Packets.of(
        packet._replace(payload=_nal_sample(info.codec, packet.data, length_size, stored)) for packet in cut.packets
    )
    info = dataclasses.replace(info, codec_config=config, nal_length_size=length_size)
    return dataclasses.replace(cut, info=info, packets=packets)


def _nal_sample(codec: str, sample: bytes, length_size: int, stored: Sequence[bytes]) -> bytes:
    units = annexb_units(sample, length_size)
    if not any(_is_sps(codec, unit) for unit in units):
        return sample
    units = _restated(codec, units, stored)
    if length_size == 0:
        return b"".join(START_CODE + unit for unit in units)
    return b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in units)


def _restated(codec: str, units: Sequence[bytes], stored: Sequence[bytes]) -> list[bytes]:
    """The NAL units, sequence parameter sets restated; those of HEVC are read after a video parameter set."""
    is_vps = (unit for unit in (*units, *stored) if codec == "hevc" and unit[:1] and unit[0] >> 1 == VPS)
    vps = next(is_vps, b"")
    return [_restated_sps(codec, vps, unit) if _is_sps(codec, unit) else unit for unit in units]


def _is_sps(codec: str, unit: bytes) -> bool:
    return len(unit) > 2 and (unit[0] & 0x1F == 7 if codec == "h264" else unit[0] >> 1 == 33)


@remembered(256)
def _restated_sps(codec: str, vps: bytes, sps: bytes) -> bytes:
    import av
    from av.bitstream import BitStreamFilterContext

    packet = b"".join(START_CODE + unit for unit in (vps, sps) if unit)
    try:
        restating = BitStreamFilterContext(f"{FILTERS[codec]}=video_full_range_flag=1", codec)
        (restated,) = restating.filter(av.Packet(packet + bytes(INPUT_PADDING_BYTES)))
    except av.FFmpegError as error:
        raise ValueError(f"a sequence parameter set cannot be read: {error.strerror}") from error
    return annexb_units(bytes(restated))[-1]
