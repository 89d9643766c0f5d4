"""A tiny MP4 around a cut's packets (ISO/IEC 14496-12), for decoders that want a file: one track, one chunk.

Written here because a muxer of FFmpeg takes a stream to copy from, and a cut has none: it never opened the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import DecodeError
from vidprep.loaders.packet_forms import (
    annexb_units,
    av1_sequence_header,
    is_annexb,
    nal_length_size,
    parameter_set_units,
)
from vidprep.loaders.pictures_come import pictures_come

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.loaders.cut import Cut, Packet
    from vidprep.records import StreamInfo
    from vidprep.timebase import IntArray

#: FFmpeg's codec name → sample entry, and the box of its configuration.
ENTRIES = {
    "h264": (b"avc1", b"avcC"),
    "hevc": (b"hvc1", b"hvcC"),
    "vp8": (b"vp08", b"vpcC"),
    "vp9": (b"vp09", b"vpcC"),
    "av1": (b"av01", b"av1C"),
    "mpeg4": (b"mp4v", b"esds"),
    "mjpeg": (b"jpeg", b""),
}

#: Codecs whose pictures may come in another order than their packets.
REORDERED_CODECS = frozenset({"h264", "hevc", "mpeg4"})

TICKS_PER_SECOND = 30
IDENTITY_MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)


def cut_to_mp4(cut: Cut) -> tuple[bytes, IntArray]:
    """An MP4 of the cut's packets, and where its wanted frames are in it.

    Returns:
        (file, int64[u] index of each of `cut.frames` among the pictures that a decoder gives). One comes per tick of
        1/30 s, in presentation order.

    Raises:
        DecodeError: MP4 has no form for the codec here, or a packet is malformed.
    """
    info, packets = cut.info, cut.packets
    if info.codec not in ENTRIES:
        raise DecodeError(f"{info.codec} has no MP4 form here", uri=cut.uri)
    try:
        payloads = [_sample(info, packet) for packet in packets]
        entry = _sample_entry(info, packets)
    except ValueError as error:
        raise DecodeError(str(error), uri=cut.uri) from error
    track = _Track(
        info=info,
        entry=entry,
        sizes=np.array([len(payload) for payload in payloads], np.int64),
        ranks=_presentation_ranks(cut),
        keys=np.union1d(cut.segment_starts, np.flatnonzero(packets.keys)),
    )
    file_type = _box(b"ftyp", b"isom", struct.pack(">I", 0x200), b"isomiso2mp41")
    media = b"".join(payloads)
    media_header = struct.pack(">I4sQ", 1, b"mdat", 16 + len(media))
    media_offset = len(file_type) + len(_movie(track, 0)) + len(media_header)
    return file_type + _movie(track, media_offset) + media_header + media, _places(cut, track.ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Track:
    """What the boxes are made from."""

    info: StreamInfo
    entry: bytes
    sizes: IntArray
    ranks: IntArray
    """place of each sample in presentation order"""
    keys: IntArray
    """places of samples at which decoding can start"""


def _presentation_ranks(cut: Cut) -> IntArray:
    """int64[p]: place of each packet when the segments follow each other, each in order of pts.

    Where pictures are not reordered that is the order of the packets, whatever times a container gives them.
    """
    if cut.info.codec not in REORDERED_CODECS or cut.info.reorder_depth == 0:
        return np.arange(len(cut.packets))
    segment = np.zeros(len(cut.packets), np.int64)
    segment[list(cut.segment_starts[1:])] = 1
    order = np.lexsort((cut.packets.pts, np.cumsum(segment)))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _places(cut: Cut, ranks: IntArray) -> IntArray:
    """int64[u]: how many pictures come before each wanted one, those included that an edit list hides."""
    comes = np.zeros(len(ranks), np.int64)
    comes[ranks] = pictures_come(cut)
    place = ranks[np.searchsorted(cut.packets.rows, cut.frame_rows)]
    return (np.cumsum(comes) - comes)[place]


def _sample(info: StreamInfo, packet: Packet) -> bytes | memoryview:
    """The packet as MP4 stores it: NAL units behind four-byte lengths."""
    length_size = nal_length_size(info)
    if info.codec not in ("h264", "hevc") or length_size == 4:
        return packet.payload
    units = annexb_units(packet.data, length_size)
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


def _box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def _full_box(kind: bytes, *parts: bytes, version: int = 0, flags: int = 0) -> bytes:
    return _box(kind, struct.pack(">I", version << 24 | flags), *parts)


def _sample_entry(info: StreamInfo, packets: Sequence[Packet]) -> bytes:
    kind, config_kind = ENTRIES[info.codec]
    visual = struct.pack(">6xH16xHHIII H32sHh", 1, info.width, info.height, 0x480000, 0x480000, 0, 1, b"", 24, -1)
    config = _configuration(info, packets)
    if config_kind == b"esds":
        return _box(kind, visual, _full_box(config_kind, _descriptors(config)))
    if config_kind == b"vpcC":
        return _box(kind, visual, _full_box(config_kind, _vp_configuration(info), version=1))
    return _box(kind, visual, _box(config_kind, config) if config else b"")


def _configuration(info: StreamInfo, packets: Sequence[Packet]) -> bytes:
    """avcC, hvcC, av1C or MPEG-4 set-up: the stream's own, or made from parameter sets in band."""
    config = info.codec_config
    if info.codec == "av1" and config[:1] != b"\x81":
        return b"\x81\x00\x00\x00" + (config or av1_sequence_header(packets[0].data))
    if info.codec not in ("h264", "hevc"):
        return config
    if config and not is_annexb(config) and nal_length_size(info) == 4:
        return config
    units = parameter_set_units(info, packets[0].data)
    return _avcc(units) if info.codec == "h264" else _hvcc(units)


def _avcc(units: Sequence[bytes]) -> bytes:
    """AVCDecoderConfigurationRecord (ISO/IEC 14496-15, 5.3.3.1.2), four-byte lengths."""
    sps = [unit for unit in units if unit[0] & 0x1F == 7]
    pps = [unit for unit in units if unit[0] & 0x1F == 8]
    if not sps or len(sps[0]) < 4:
        raise ValueError("no sequence parameter set in the configuration or the first packet")
    out = [b"\x01", sps[0][1:4], b"\xff", bytes([0xE0 | len(sps)]), *map(_with_size, sps), bytes([len(pps)])]
    return b"".join((*out, *map(_with_size, pps)))


def _hvcc(units: Sequence[bytes]) -> bytes:
    """HEVCDecoderConfigurationRecord (ISO/IEC 14496-15, 8.3.3.1.2), four-byte lengths.

    The general profile fields stand at bytes 3..14 of the SPS; what would need parsing is left at its commonest value.
    """
    arrays = [(kind, [unit for unit in units if unit[0] >> 1 & 0x3F == kind]) for kind in (32, 33, 34)]
    if not arrays[1][1] or len(arrays[1][1][0]) < 15:
        raise ValueError("no sequence parameter set in the configuration or the first packet")
    profile = arrays[1][1][0][3:15]
    head = b"\x01" + profile + b"\xf0\x00\xfc\xfd\xf8\xf8\x00\x00\x0f" + bytes([len(arrays)])
    body = (struct.pack(">BH", 0x80 | kind, len(found)) + b"".join(map(_with_size, found)) for kind, found in arrays)
    return head + b"".join(body)


def _with_size(unit: bytes) -> bytes:
    return len(unit).to_bytes(2, "big") + unit


def _vp_configuration(info: StreamInfo) -> bytes:
    """VPCodecConfigurationRecord (VP Codec ISO Media File Format Binding): 8 bytes, then no set-up data."""
    depth = info.bit_depth or 8
    return struct.pack(">BBBBBBH", 0, 10, depth << 4 | 2, 2, 2, 2, 0)


def _descriptors(config: bytes) -> bytes:
    """ES_Descriptor around a decoder-specific info (ISO/IEC 14496-1, 7.2.6); object type 0x20 = MPEG-4 Visual."""
    specific = _descriptor(5, config) if config else b""
    decoder = _descriptor(4, struct.pack(">BB3xII", 0x20, 0x11, 0, 0), specific)
    return _descriptor(3, struct.pack(">HB", 1, 0), decoder, _descriptor(6, b"\x02"))


def _descriptor(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    return bytes([tag, *(0x80 | size >> shift & 0x7F for shift in (21, 14, 7)), size & 0x7F]) + body


def _movie(track: _Track, offset: int) -> bytes:
    """The moov box of a file whose one chunk starts at `offset`."""
    n = len(track.sizes)
    duration = struct.pack(">IIII", 0, 0, TICKS_PER_SECOND, n)
    header = _full_box(
        b"mvhd", duration, struct.pack(">IH10x", 0x10000, 0x100), IDENTITY_MATRIX, bytes(24), b"\0\0\0\2"
    )
    size = struct.pack(">II", track.info.width << 16, track.info.height << 16)
    track_header = _full_box(b"tkhd", struct.pack(">IIIII16x", 0, 0, 1, 0, n), IDENTITY_MATRIX, size, flags=3)
    media = _box(
        b"mdia",
        _full_box(b"mdhd", duration, struct.pack(">HH", 0x55C4, 0)),
        _full_box(b"hdlr", struct.pack(">I4s12x", 0, b"vide"), b"\0"),
        _box(
            b"minf",
            _full_box(b"vmhd", bytes(8), flags=1),
            _box(b"dinf", _full_box(b"dref", struct.pack(">I", 1), _full_box(b"url ", flags=1))),
            _sample_tables(track, offset),
        ),
    )
    return _box(b"moov", header, _box(b"trak", track_header, media))


def _sample_tables(track: _Track, offset: int) -> bytes:
    n = len(track.sizes)
    shifts = np.stack((np.ones(n), track.ranks - np.arange(n)), axis=1).astype(">i4")
    reordered = bool(shifts[:, 1].any())
    return _box(
        b"stbl",
        _full_box(b"stsd", struct.pack(">I", 1), track.entry),
        _full_box(b"stts", struct.pack(">III", 1, n, 1)),
        _full_box(b"ctts", struct.pack(">I", n), shifts.tobytes(), version=1) if reordered else b"",
        _full_box(b"stss", struct.pack(">I", len(track.keys)), (track.keys + 1).astype(">u4").tobytes()),
        _full_box(b"stsc", struct.pack(">IIII", 1, 1, n, 1)),
        _full_box(b"stsz", struct.pack(">II", 0, n), track.sizes.astype(">u4").tobytes()),
        _full_box(b"co64", struct.pack(">IQ", 1, offset)),
    )
