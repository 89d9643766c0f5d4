"""The process that decodes for `vidprep validate`: ties validation's tasks to the loaders' engines."""

from __future__ import annotations

import os
import sys
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.cli.memory_budget import MemoryBudget
from vidprep.loaders.cut import open_indexed, read_cut, start_rows
from vidprep.loaders.frames import iter_frames, iter_groups, make_engine
from vidprep.loaders.pixels import gpu_memory_bytes, pixels_at
from vidprep.validation.pictures import thumbnails
from vidprep.validation.tasks import Claims, Outcome, Task, claims_of_batch, examine_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from vidprep.records import VideoLike
    from vidprep.timebase import IntArray

#: Pictures that one thread has on the GPU at a time: whole groups of pictures up to the first number, so that none is
#: decoded twice; a longer group in pieces of the second, each of which is decoded from the group's key frame on.
GPU_FRAMES, GPU_GROUP_FRAMES = 32, 64
#: Of a GPU's memory, what the pictures of all threads take at a time, those that the cpu engine decodes included. The
#: decoders' surfaces come on top (see the nvdec engine), and what torch keeps of it for later pictures.
GPU_SHARE = 1 / 3
#: (height, width) of pictures of a video whose size changes.
SMALL = (256, 256)


class Thumbnailer:
    """`vidprep.validation.examine.Decode` over an engine; may be shared by several threads, as engines may.

    Args:
        engine: name, as for `read_frames`.
        memory_bytes: that pictures which come many at a time may take, in all threads; None = as GPU_SHARE says.
    """

    def __init__(self, engine: str, memory_bytes: int | None = None) -> None:
        self._engine: Any = make_engine(engine).__enter__()
        self._resizing: Any = make_engine("cpu", size=SMALL).__enter__()
        self._one_by_one = hasattr(self._engine, "iter_decode")
        if memory_bytes is None:
            memory_bytes = 0 if self._one_by_one else int(gpu_memory_bytes() * GPU_SHARE)
        self._memory = MemoryBudget(memory_bytes)

    def __call__(self, video: VideoLike, frames: IntArray, resize: bool) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """(frame, uint8 (32, 32) luma) of each frame. Raises DecodeError, MediaError."""
        if not resize and not self._one_by_one:
            yield from self._batches(video, frames)
            return
        for frame, picture in iter_frames(video, frames, engine=self._resizing if resize else self._engine):
            yield frame, thumbnails(picture[None])[0]

    def _batches(self, video: VideoLike, frames: IntArray) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """Pictures that come many at a time, reduced where they lie."""
        with open_indexed(video) as source:
            for group in iter_groups(video, frames):
                for frames in self._pieces(video, group):
                    cut = read_cut(video, source, frames)
                    with self._memory.taken(len(frames) * _picture_bytes(video)):
                        small = _reduced(self._engine.decode(cut))
                    yield from zip(cut.frames.tolist(), small, strict=True)

    def _pieces(self, video: VideoLike, frames: IntArray) -> list[IntArray]:
        """The frames that are decoded at a time."""
        starts = start_rows(video.table, video.table.frame_rows[frames])
        group_ends = [*(np.flatnonzero(np.diff(starts)) + 1).tolist(), len(frames)]
        most = max(min(GPU_GROUP_FRAMES, self._memory.num_bytes // _picture_bytes(video)), 1)
        return np.split(frames, piece_ends(group_ends, min(GPU_FRAMES, most), most)[:-1])


def _reduced(pictures: Any) -> npt.NDArray[np.uint8]:
    return thumbnails(pictures) if isinstance(pictures, np.ndarray) else thumbnails(pictures, pixels_at)


def _picture_bytes(video: VideoLike) -> int:
    """RGB and a 4:2:0 surface."""
    surface = 1.5 if (video.info.bit_depth or 8) <= 8 else 3
    return max(int(video.info.width * video.info.height * (3 + surface)), 1)


def piece_ends(group_ends: list[int], together: int, most: int) -> list[int]:
    """Where pieces end: groups joined up to `together` frames, and those of more than `most` cut.

    Args:
        group_ends: where each group ends, ascending; the first begins at 0.
        together: frames, at most `most`.
        most: frames of a piece.
    """
    ends = [0]
    last = 0
    for end in group_ends:
        if end - ends[-1] > together and last > ends[-1]:
            ends.append(last)
        while end - ends[-1] > most:
            ends.append(ends[-1] + most)
        last = end
    return [*ends[1:], last]


_making = threading.Lock()


@lru_cache(maxsize=1)
def _thumbnailer(engine: str) -> Thumbnailer:
    return Thumbnailer(engine)


def serve(task: Task, beat: Callable[[int], None]) -> Outcome | Claims:
    """Do one task; several threads may at once."""
    if task.only_claims:
        return claims_of_batch(task, beat)
    with _making:
        thumbnailer = _thumbnailer(task.engine)
    return examine_batch(task, thumbnailer, beat)


if __name__ == "__main__":
    # Libraries may print: keep their words off what a caller of `vidprep validate --json` parses.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from vidprep.cli import decode_worker  # by its own name: what it pickles must not be called __main__
    from vidprep.indexes import worker

    worker.main(decode_worker.serve, *map(int, sys.argv[1:5]))
