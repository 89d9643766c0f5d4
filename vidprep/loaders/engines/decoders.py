"""FFmpeg decoder contexts from stream facts."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import av

from vidprep.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.records import StreamInfo


@contextmanager
def open_decoder(info: StreamInfo, uri: str, *, num_threads: int = 1) -> Iterator[Any]:
    """An FFmpeg decoder for the stream. Raises DecodeError if there is none.

    Args:
        info: codec, configuration, fourcc, size and pixel format are what a decoder is set up with.
        uri: for the error.
        num_threads: threads that the decoder may use.
    """
    try:
        context: Any = av.CodecContext.create(info.codec, "r")
    except (av.codec.codec.UnknownCodecError, ValueError) as error:
        raise DecodeError(f"FFmpeg has no decoder for {info.codec}", uri=uri) from error
    context.width, context.height = info.coded_width or info.width, info.coded_height or info.height
    if info.codec_config:
        context.extradata = info.codec_config
    if len(info.codec_tag) == 4:
        context.codec_tag = info.codec_tag
    if info.pix_fmt:
        context.pix_fmt = info.pix_fmt
    context.thread_count = num_threads
    context.thread_type = "NONE" if num_threads == 1 else "AUTO"
    yield context
