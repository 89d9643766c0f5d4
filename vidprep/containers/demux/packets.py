"""The packets that become rows, in row order: one generator for the parser and for whoever reads them again."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import av

from vidprep.containers.filelike import ReadAtFile
from vidprep.errors import LimitError, MalformedContainerError, NotMediaError, Reason, UnsupportedContainerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.records import ReadAt

#: FFmpeg demuxers that may open a file. No playlists, no text, no single images, nothing that fetches other resources;
#: ISO-BMFF is left out because of what FFmpeg does on hostile tables, and because it has a parser of its own.
FORMATS = (
    "avi", "mpegts", "mpeg", "flv", "ogg", "asf", "mxf", "matroska", "webm", "rm", "ivf", "obu", "av1", "nut", "gxf",
    "wtv", "dv", "nsv", "h264", "hevc", "vvc", "evc", "m4v", "mpegvideo", "mjpeg", "mjpeg_2000", "h263", "h261", "vc1",
    "vc1test", "dirac", "dnxhd", "cavsvideo", "avs2", "avs3", "yuv4mpegpipe", "roq", "smk", "bink", "flic", "gif",
    "apng",
)  # fmt: skip
_OPTIONS = {
    "format_whitelist": ",".join(FORMATS),
    "protocol_whitelist": "",
    "enable_drefs": "0",
    "max_pixels": str(1 << 28),
    "max_streams": "100",
}
#: What JPEG pictures start with: one of them, or a film of them without a container.
_JPEG = b"\xff\xd8\xff"
#: A demuxer may ask for this many times the file's bytes, and give this many times as payload, before it is stopped.
_MAX_READ_FACTOR, _READ_SLACK_BYTES = 16, 64 << 20
_MAX_PAYLOAD_FACTOR, _PAYLOAD_SLACK_BYTES = 2, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DemuxedPacket:
    """One row of a table whose `access` is "demux"."""

    data: bytes
    pos: int
    """where the demuxer found its first byte, or −1"""
    pts: int | None
    """as the container has it; the table's are repaired"""
    dts: int | None
    duration: int
    is_keyframe: bool
    is_discard: bool


def iter_packets(read_at: ReadAt, size_bytes: int) -> Iterator[DemuxedPacket]:
    """The packets of the video stream: row i of the table that `parse` gives is the i-th of them.

    Raises:
        ContainerError: FFmpeg cannot open the file, or it has no video stream.
        LimitError: the file makes the demuxer read or give far more than its own size.
    """
    with open_video(read_at, size_bytes) as (container, stream):
        for packet in stream_packets(container, stream, size_bytes):
            yield DemuxedPacket(
                data=bytes(packet),
                pos=-1 if packet.pos is None else packet.pos,
                pts=packet.pts,
                dts=packet.dts,
                duration=packet.duration or 0,
                is_keyframe=packet.is_keyframe,
                is_discard=packet.is_discard,
            )


@contextmanager
def open_video(read_at: ReadAt, size_bytes: int) -> Iterator[tuple[Any, Any]]:
    """The opened container and its first video stream that is no attached picture."""
    file = ReadAtFile(_bounded(read_at, size_bytes), size_bytes)
    try:
        is_jpeg = read_at(0, len(_JPEG)) == _JPEG  # of large pictures FFmpeg sees but one, and no film
        container = av.open(
            file, mode="r", format="mjpeg" if is_jpeg else None, metadata_errors="replace", options=_OPTIONS
        )
    except av.FFmpegError as error:
        raise NotMediaError(f"no container that FFmpeg and vidprep know ({error.strerror})", offset=0) from error
    with container:
        yield container, _video_stream(container)


def _video_stream(container: Any) -> Any:
    attached = av.stream.Disposition.attached_pic
    videos = [stream for stream in container.streams.video if not stream.disposition & attached]
    if not videos:
        raise NotMediaError("no video stream", reason=Reason.NO_VIDEO_STREAM)
    if videos[0].codec_context is None:
        raise UnsupportedContainerError("FFmpeg has no decoder for it", reason=Reason.UNSUPPORTED_CODEC)
    return videos[0]


def _bounded(read_at: ReadAt, size_bytes: int) -> ReadAt:
    left = _MAX_READ_FACTOR * size_bytes + _READ_SLACK_BYTES
    has_failed = False

    def read(offset: int, size: int) -> bytes:
        nonlocal left, has_failed
        if has_failed:  # FFmpeg may try again; PyAV raises one error, and prints any other with its traceback
            return b""
        left -= size
        has_failed = True
        if left < 0:
            raise LimitError("the demuxer reads the file over and over", reason=Reason.TIMEOUT, offset=offset)
        data = read_at(offset, size)
        has_failed = False
        return data

    return read


def stream_packets(container: Any, stream: Any, size_bytes: int) -> Iterator[Any]:
    """av.Packets with a payload, packed B-frames of MPEG-4 part 2 taken apart; a damaged end ends it."""
    left = _MAX_PAYLOAD_FACTOR * size_bytes + _PAYLOAD_SLACK_BYTES
    unpack = _unpacker(stream)
    for packet in _demuxed(container, stream):
        left -= packet.size
        if left < 0:
            raise MalformedContainerError("packets add up to more than the file", offset=packet.pos)
        for part in unpack.filter(packet) if unpack else (packet,):
            if part.size:
                yield part
    if unpack:
        yield from (part for part in unpack.filter(None) if part.size)


def _demuxed(container: Any, stream: Any) -> Iterator[Any]:
    try:
        yield from (packet for packet in container.demux(stream) if packet.size)
    except (av.FFmpegError, IndexError):
        # IndexError: a stream came up on the way, and PyAV, behind the last packet, looks for it among those of the start.
        return


def _unpacker(stream: Any) -> Any:
    """A bit-stream filter that takes packed B-frames apart (DivX, XviD), for the codec that has them."""
    is_mpeg4 = stream.codec_context.codec.canonical_name == "mpeg4"
    return av.BitStreamFilterContext("mpeg4_unpack_bframes", stream) if is_mpeg4 else None
