"""Every container that has no parser of its own here: PyAV demuxes it and the packets become rows."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from vidprep.containers.filelike import ReadAtFile
from vidprep.errors import NotMediaError, Reason
from vidprep.records import ParsedVideo, SampleFlag, SampleTable, StreamInfo

if TYPE_CHECKING:
    from vidprep.records import ReadAt


def parse(read_at: ReadAt, size_bytes: int) -> ParsedVideo:
    """Demux the whole file. Raises ContainerError."""
    try:
        container = av.open(ReadAtFile(read_at, size_bytes), mode="r", metadata_errors="replace")
    except av.FFmpegError as error:
        raise NotMediaError(f"FFmpeg cannot open it: {error}") from error
    with container:
        if not container.streams.video:
            raise NotMediaError("no video stream", reason=Reason.NO_VIDEO_STREAM)
        stream = container.streams.video[0]
        rows = [
            (packet.pos or 0, packet.size, _pts(packet), _flags(packet), packet.duration or 0)
            for packet in container.demux(stream)
            if packet.size
        ]
        if not rows:
            raise NotMediaError("the video stream has no packets", reason=Reason.NO_FRAMES)
        offset, size, pts, flags, duration = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        table = SampleTable(offset=offset, size=size, pts=pts, flags=flags.astype(np.uint8))
        last = int(duration[table.frame_rows[-1]]) if table.num_frames else 0
        return ParsedVideo(info=_info(container, stream, last), table=table, method="demux", access="demux")


def _pts(packet: Any) -> int:
    pts = packet.pts if packet.pts is not None else packet.dts
    return 0 if pts is None else int(pts)


def _flags(packet: Any) -> int:
    return (SampleFlag.KEY if packet.is_keyframe else 0) | (0 if packet.is_discard else SampleFlag.SHOWN)


def _info(container: Any, stream: Any, last_duration: int) -> StreamInfo:
    context = stream.codec_context
    return StreamInfo(
        container=container.format.name.split(",")[0],
        codec=context.name,
        codec_tag=context.codec_tag,
        codec_config=context.extradata or b"",
        stream_index=stream.index,
        width=context.width,
        height=context.height,
        coded_width=context.coded_width,
        coded_height=context.coded_height,
        display_width=context.width,
        display_height=context.height,
        pix_fmt=context.pix_fmt,
        time_base=stream.time_base or Fraction(1),
        last_duration_ticks=last_duration,
        header_num_frames=stream.frames or None,
    )
