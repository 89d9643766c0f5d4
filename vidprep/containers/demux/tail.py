"""Whether the last packet of a file is whole: a file that was cut off ends in a piece of one."""

from __future__ import annotations

from typing import Any

import av
import numpy as np

#: Codecs whose decoder needs no more than a configuration, and reports a sample that ends too early.
_TELLING = frozenset({
    "h264", "mpeg1video", "mpeg2video", "mpeg4", "mjpeg", "h263", "flv1", "wmv1", "wmv2", "msmpeg4v2", "msmpeg4v3",
})  # fmt: skip
#: Codecs whose slices say where they end in their arithmetic code alone, and whose decoders read on where they are cut
#: off: what they make of a whole slice does not depend on the bytes behind it.
_READING_ON = frozenset({"h264", "hevc", "vvc"})
_START_CODES = (b"\0\0\1", b"\0\0\0\1")
_BEHIND = (b"\x55" * 32, b"\xaa" * 32)
#: AV_INPUT_BUFFER_PADDING_SIZE.
_PADDING_BYTES = 64
#: Packets are kept up to this many bytes.
_MAX_TAIL_BYTES = 32 << 20
#: A transport stream consists of packets of one of these lengths (bytes), each with this first byte or that after four.
_TS_PACKETS, _TS_SYNC = (188, 192, 204), 0x47


class Tail:
    """The packets from the last key frame but one on."""

    def __init__(self) -> None:
        self._packets: list[tuple[bytes, bool]] = []
        self._bytes = 0
        self._last_is_corrupt = False

    def add(self, packet: Any, data: bytes) -> None:
        """One more packet."""
        if packet.is_keyframe:
            keys = [place for place, (_, key) in enumerate(self._packets) if key]
            self._packets = self._packets[keys[-1] :] if keys else []
            self._bytes = sum(len(kept) for kept, _ in self._packets)
        self._packets.append((data, packet.is_keyframe))
        self._bytes += len(data)
        self._last_is_corrupt = packet.is_corrupt
        if self._bytes > _MAX_TAIL_BYTES:
            self._packets, self._bytes = [], 0

    def is_cut_off(self, stream: Any, head: bytes, size_bytes: int) -> bool:
        """Whether the last packet is a piece.

        Args:
            stream: the stream.
            head: first bytes of the file, three transport stream packets or so.
            size_bytes: length of the file.
        """
        if self._last_is_corrupt:
            return True
        codec = stream.codec_context.codec.canonical_name
        if codec in _TELLING | _READING_ON and self._packets and self._last_is_a_piece(stream.codec_context):
            return True
        return codec not in _TELLING and ends_early(head, size_bytes)

    def _last_is_a_piece(self, context: Any) -> bool:
        """Whether the decoder refuses the last packet, or gives it a picture that depends on what stands behind it."""
        has_lengths = (context.extradata or b"").startswith(b"\1")  # avcC, hvcC: a length may look like a start code
        if has_lengths or not _ends_in_a_slice(context.codec.canonical_name, self._packets[-1][0]):
            return self._decode(context, b"")[0]
        refused, picture = self._decode(context, _BEHIND[0])
        if refused:
            return True
        _, other = self._decode(context, _BEHIND[1])
        return picture is not None and other is not None and not np.array_equal(picture, other)

    def _decode(self, context: Any, behind: bytes) -> tuple[bool, Any]:
        """Whether the decoder refuses the last packet with these bytes behind it, and its picture where it is to be had."""
        decoder: Any = av.CodecContext.create(context.codec.canonical_name, "r")
        if context.extradata:
            decoder.extradata = context.extradata + bytes(_PADDING_BYTES)  # leaves zeros behind the shorter value
            decoder.extradata = context.extradata
        decoder.thread_count = 1
        decoder.width, decoder.height = context.width, context.height
        decoder.options = {"err_detect": "explode", "skip_loop_filter": "all"}
        refused, picture = False, None
        last = len(self._packets) - 1
        for place, (data, _) in enumerate([*self._packets, (b"", False)]):
            packet = _packet(data + behind if place == last else data, place) if data else None
            try:
                frames = decoder.decode(packet)
            except av.EOFError:
                break
            except (av.FFmpegError, ValueError):
                refused |= place >= last
                continue
            for frame in frames:
                if frame.pts == last:
                    refused |= frame.is_corrupt
                    picture = _pixels(frame)
        return refused, picture


def _ends_in_a_slice(codec: str, data: bytes) -> bool:
    """Whether the last NAL unit behind a start code is a slice: in another a piece that is missing takes no picture."""
    if codec not in _READING_ON or not data.startswith(_START_CODES):
        return False
    first, second = (data[data.rindex(_START_CODES[0]) + 3 :] + b"\xff\xff")[:2]
    kind, num_slice_kinds = {"h264": (first & 31, 6), "hevc": (first >> 1 & 63, 32), "vvc": (second >> 3, 12)}[codec]
    return kind < num_slice_kinds


def _pixels(frame: Any) -> Any:
    try:
        return frame.to_ndarray()
    except ValueError:  # a pixel format that PyAV has no array for
        return None


def _packet(data: bytes, place: int) -> Any:
    """A packet with zeros behind its bytes, which av.Packet(data) has not: bit readers run into them."""
    packet = av.Packet(len(data))
    packet.update(data)
    packet.pts = place
    return packet


def ends_early(head: bytes, size_bytes: int) -> bool:
    """Whether the container says that the file goes on: a RIFF size, or a piece of a transport stream packet."""
    if head.startswith(b"RIFF") and len(head) >= 8:
        return int.from_bytes(head[4:8], "little") + 8 > size_bytes
    for length in _TS_PACKETS:
        at = 4 if length == 192 else 0
        if len(head) > at + 2 * length and all(head[at + place] == _TS_SYNC for place in (0, length, 2 * length)):
            return size_bytes % length > at
    return False
