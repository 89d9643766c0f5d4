"""The reference that decoded frames are compared with: PyAV from the first packet to the last, in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av
from av.video.reformatter import Interpolation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

FLAGS = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT


def sequential_frames(path: Path | str, stream_index: int | None = None) -> Iterator[Any]:
    """PyAV's frames of a video stream in output order; undecodable packets are passed over."""
    with av.open(str(path), metadata_errors="replace") as container:
        videos = container.streams.video
        stream = videos[0] if stream_index is None else container.streams[stream_index]
        stream.thread_count = 1
        for packet in container.demux(stream):
            try:
                yield from packet.decode()
            except av.FFmpegError:
                continue


def rgb(frame: Any) -> np.ndarray:
    """uint8 (H, W, 3) by swscale's bicubic+accurate_rnd+full_chroma_int, matrix and range as the frame says."""
    return frame.to_ndarray(format="rgb24", interpolation=FLAGS)
