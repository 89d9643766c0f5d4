"""The process that decodes for `vidprep validate`: ties validation's tasks to the loaders' engines."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.frames import iter_frames, iter_groups, make_engine
from vidprep.validation.pictures import thumbnails
from vidprep.validation.tasks import Outcome, Task, examine_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    import numpy.typing as npt

    from vidprep.records import VideoLike
    from vidprep.timebase import IntArray

#: Pictures that lie on the GPU at a time.
GPU_FRAMES = 64
#: (height, width) of pictures of a video whose size changes.
SMALL = (256, 256)


class Thumbnailer:
    """`vidprep.validation.examine.Decode` over an engine.

    Args:
        engine: name, as for `read_frames`.
    """

    def __init__(self, engine: str) -> None:
        self._engine: Any = make_engine(engine).__enter__()
        self._resizing: Any = make_engine("cpu", size=SMALL).__enter__()

    def __call__(self, video: VideoLike, frames: IntArray, resize: bool) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """(frame, uint8 (32, 32) luma) of each frame. Raises DecodeError, MediaError."""
        if not resize and not hasattr(self._engine, "iter_decode"):
            yield from self._batches(video, frames)
            return
        for frame, picture in iter_frames(video, frames, engine=self._resizing if resize else self._engine):
            yield frame, thumbnails(picture[None])[0]

    def _batches(self, video: VideoLike, frames: IntArray) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """Pictures that come many at a time, reduced where they lie."""
        with open_indexed(video) as source:
            for group in iter_groups(video, frames):
                for begin in range(0, len(group), GPU_FRAMES):
                    cut = read_cut(video, source, group[begin : begin + GPU_FRAMES])
                    yield from zip(cut.frames.tolist(), thumbnails(self._engine.decode(cut)), strict=True)


_thumbnailer = lru_cache(maxsize=1)(Thumbnailer)


def serve(task: Task, beat: Callable[[int], None]) -> Outcome:
    """Do one task."""
    return examine_batch(task, _thumbnailer(task.engine), beat)


if __name__ == "__main__":
    # Libraries may print: keep their words off what a caller of `vidprep validate --json` parses.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from vidprep.cli import decode_worker  # by its own name: what it pickles must not be called __main__
    from vidprep.indexes import worker

    worker.main(decode_worker.serve, *map(int, sys.argv[1:4]))
