"""FFmpeg decoder contexts from stream facts."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import av

from vidprep.containers.filelike import ReadAtFile
from vidprep.errors import DecodeError
from vidprep.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.records import StreamInfo

#: Codecs whose decoder needs no more than StreamInfo has. Others (palettes, bits per sample, block sizes in the
#: container) are set up by FFmpeg from the file's own header.
SELF_CONTAINED = frozenset(
    {
        "av1", "dnxhd", "ffv1", "h263", "h264", "hevc", "mjpeg", "mpeg1video", "mpeg2video", "mpeg4",
        "prores", "theora", "vp8", "vp9", "vvc",
    }
)  # fmt: skip


#: Decoders whose name is not the codec's: FFmpeg's own "av1" needs hardware.
DECODER_NAMES = {"av1": "libdav1d"}

#: AV_INPUT_BUFFER_PADDING_SIZE.
INPUT_PADDING_BYTES = 64

#: max_num_reorder_frames of H.264 and HEVC (ITU-T H.264, E.2.1).
MAX_REORDER_DEPTH = 16


@contextmanager
def open_decoder(
    info: StreamInfo, uri: str, *, strict: bool = True, reorder_depth: int = 0, num_threads: int = 1
) -> Iterator[Any]:
    """An FFmpeg decoder for the stream. Raises DecodeError if there is none.

    Args:
        info: what the decoder is set up with.
        uri: the file, whose header is read for codecs that need more.
        strict: report what would be concealed. Not where a stream is entered while pictures from before are still
            spoken of: that they are missing would be reported of pictures that do without them too.
        reorder_depth: pictures that decode order runs ahead of presentation order. FFmpeg's H.264 decoder would guess
            it where the stream does not say, and give the first pictures out of order until it has learned.
        num_threads: threads that the decoder may use.
    """
    if info.codec in SELF_CONTAINED:
        context = _set_up(_from_facts(info, uri), strict, num_threads)
        if info.codec == "h264":
            context.reorder_depth = min(max(reorder_depth, info.reorder_depth or 0), MAX_REORDER_DEPTH)
        yield context
        return
    with _opened(uri) as container:
        yield _set_up(_from_header(container, info, uri), strict, num_threads)


@contextmanager
def _opened(uri: str) -> Iterator[Any]:
    with open_source(uri) as source:
        try:
            container = av.open(ReadAtFile(source.read_at, source.identity.size_bytes), metadata_errors="replace")
        except av.FFmpegError as error:
            raise DecodeError(f"FFmpeg cannot open it: {error.strerror}", uri=uri) from error
        with container:
            yield container


def restart(decoder: Any) -> None:
    """Make a decoder forget all pictures, ready to start at a key frame."""
    depth = decoder.reorder_depth
    decoder.flush_buffers()
    decoder.reorder_depth = depth  # a flush may make FFmpeg guess anew


def _from_facts(info: StreamInfo, uri: str) -> Any:
    try:
        context: Any = av.CodecContext.create(DECODER_NAMES.get(info.codec, info.codec), "r")
    except (av.codec.codec.UnknownCodecError, ValueError) as error:
        raise DecodeError(f"FFmpeg has no decoder for {info.codec}", uri=uri) from error
    context.width, context.height = info.coded_width or info.width, info.coded_height or info.height
    if info.codec_config:
        # FFmpeg reads past the end and wants zeros there, PyAV leaves them unset: the longer value first makes them so,
        # since shrinking keeps the bytes (C11 7.22.3.5).
        context.extradata = info.codec_config + bytes(INPUT_PADDING_BYTES)
        context.extradata = info.codec_config
    if len(info.codec_tag) == 4 and info.codec_tag.isascii():
        context.codec_tag = info.codec_tag
    if info.pix_fmt:
        context.pix_fmt = info.pix_fmt
    return context


def _from_header(container: Any, info: StreamInfo, uri: str) -> Any:
    streams = container.streams
    context = streams[info.stream_index].codec_context if info.stream_index < len(streams) else None
    if context is None or context.type != "video":
        raise DecodeError(f"FFmpeg has no decoder for {info.codec}", uri=uri)
    return context


def _set_up(context: Any, strict: bool, num_threads: int) -> Any:
    context.thread_count = num_threads
    context.options = {"err_detect": "explode"} if strict else {}
    context.thread_type = "NONE" if num_threads == 1 else "AUTO"
    return context
