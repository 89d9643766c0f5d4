"""`read_frames`: exactly the named frames of one video."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.containers import parse_container
from vidprep.errors import DecodeError, MediaError
from vidprep.loaders import arguments
from vidprep.loaders.cut import open_indexed, read_cut, start_rows
from vidprep.loaders.engines.choose import COLOUR_DEFAULTS, ENGINES
from vidprep.records import Video
from vidprep.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from vidprep.loaders.engines import Engine
    from vidprep.records import VideoLike
    from vidprep.timebase import IntArray

#: Coded bytes that are held at a time where many frames are decoded.
GROUP_BYTES = 64 << 20

#: What pictures may be asked for as.
DTYPES = ("uint8", "uint16")


def read_frames(
    video: VideoLike | str | os.PathLike[str],
    frames: Sequence[int] | IntArray,
    *,
    engine: str = "auto",
    size: tuple[int, int] | None = None,
    rotate: bool = False,
    dtype: str = "uint8",
    colour_default: str | None = None,
) -> npt.NDArray[Any]:
    """Exactly these frames.

    Args:
        video: a path or uri, a probed file, or a row of an index.
        frames: frame indices in any order, repeats allowed; negative ones count from the end. Integers: neither text nor
            truth values.
        engine: "cpu", "nvdec", "dali"; "auto" takes the GPU where there is one.
        size: (height, width) of what is returned, after any turn; needed where the size changes in mid-stream.
        rotate: turn the pictures as the container says that they are to be shown.
        dtype: "uint8", or "uint16" (engines cpu and nvdec) for videos of more than 8 bits: 0 to 65535 whatever their bit depth.
        colour_default: matrix of untagged pictures: "bt601" (None too), "bt709", "bt2020".

    Returns:
        (len(frames), H, W, 3) RGB.

    Raises:
        ArgumentError: an argument is none that is allowed; names it.
        DecodeError: a frame does not exist or cannot be decoded rightly.
        MediaError: the file cannot be read, is not a video, or changed since it was indexed.
    """
    size = arguments.size_of("size", size)
    integers = arguments.frame_numbers(frames)
    probed = as_video(video)
    indices = frame_indices(integers, probed)
    turn = probed.info.rotation if rotate else 0
    size = unturned(size, turn)
    height, width = size or (probed.info.height, probed.info.width)
    with (
        make_engine(engine, size=size, dtype=dtype, colour_default=colour_default) as decoder,
        open_indexed(probed) as source,
    ):
        arguments.check_pictures_fit(len(indices), height, width, 3 * np.dtype(dtype).itemsize)
        cut = read_cut(probed, source, indices)
        pictures = _to_numpy(decoder.decode(cut))
    pictures = gathered(pictures, cut.frames, indices)
    return rotated(pictures, turn) if turn else pictures


def as_video(video: VideoLike | str | os.PathLike[str]) -> VideoLike:
    """The video itself, or what a path names, probed. Raises MediaError; ArgumentError for what is neither."""
    if not isinstance(video, str | os.PathLike):
        if not hasattr(video, "uri"):
            raise arguments.wrong("video", video, "a path or uri (text or a Path), a probed file, or a row of an index")
        return video
    uri = os.fsdecode(video)
    try:
        with open_source(uri) as source:
            parsed = parse_container(source.read_at, source.identity.size_bytes)
            return Video(uri=uri, identity=source.identity, parsed=parsed)
    except MediaError as error:
        raise error.with_uri(uri) from None


def frame_indices(frames: Sequence[int] | IntArray, video: VideoLike) -> IntArray:
    """int64 indices from 0. Raises DecodeError for one that does not exist, ArgumentError for one that is no integer."""
    num_frames = video.table.num_frames
    integers = arguments.frame_numbers(frames)
    beyond = [frame for frame in integers if not -(1 << 63) <= frame < 1 << 63]
    if beyond:
        raise DecodeError(f"the video has {num_frames} frames", uri=video.uri, frame_index=beyond[0])
    asked = np.array(integers, dtype=np.int64)
    indices = np.where(asked < 0, asked + num_frames, asked)
    outside = np.flatnonzero((indices < 0) | (indices >= num_frames))
    if len(outside):
        raise DecodeError(
            f"the video has {num_frames} frames", uri=video.uri, frame_index=int(asked[outside[0]])
        )  # fmt: skip
    return indices


def make_engine(
    name: str, *, size: tuple[int, int] | None = None, dtype: str = "uint8", colour_default: str | None = None
) -> AbstractContextManager[Engine]:
    """An engine by name, closed at the end of its `with`; "auto" takes the GPU where there is one.

    Raises:
        ArgumentError: an unknown name; uint16 of engine dali.
        DecodeError: nvdec without a GPU.
        MissingDependencyError: what the engine needs is not installed.
    """
    arguments.choice("engine", name, ENGINES)
    arguments.choice("dtype", dtype, DTYPES)
    if colour_default is not None:
        arguments.choice("colour_default", colour_default, COLOUR_DEFAULTS)
    device = "cuda:0" if Path("/dev/nvidia0").exists() else "cpu"
    if name == "cpu" or (name == "auto" and (device == "cpu" or dtype != "uint8")):
        from vidprep.loaders.engines.cpu import CpuEngine

        return closing(CpuEngine(size=size, dtype=dtype, colour_default=colour_default))
    if name == "nvdec" and device == "cpu":
        raise DecodeError("no NVIDIA GPU is here; take engine cpu")
    from vidprep.loaders.engines.choose import choose_engine
    from vidprep.loaders.engines.resize import ResizingEngine

    engine = choose_engine(name, device, dtype=dtype, colour_default=colour_default)
    return closing(ResizingEngine(engine, size, colour_default=colour_default) if size else engine)


def iter_groups(video: VideoLike, frames: IntArray, *, max_bytes: int = GROUP_BYTES) -> Iterator[IntArray]:
    """Ascending frames in runs that share no GOP, each of about `max_bytes` of coded samples (one GOP at least)."""
    table = video.table
    if len(frames) == 0:
        return
    rows = table.frame_rows[frames]
    starts = start_rows(table, rows)
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(table.size)))
    cost = before[rows + 1] - before[starts]
    edges = np.flatnonzero(starts[1:] != starts[:-1]) + 1
    begin, spent = 0, 0
    for edge, previous in zip(edges.tolist(), [0, *edges.tolist()], strict=False):
        spent += int(cost[previous:edge].max())
        if spent >= max_bytes:
            yield frames[begin:edge]
            begin, spent = edge, 0
    yield frames[begin:]


def gathered(pictures: npt.NDArray[Any], have: IntArray, want: IntArray) -> npt.NDArray[Any]:
    """Pictures of the distinct frames `have` (ascending), in the order and number of `want`."""
    if len(have) == len(want) and bool((have == want).all()):
        return pictures
    return pictures[np.searchsorted(have, want)]


def unturned(size: tuple[int, int] | None, degrees_clockwise: int) -> tuple[int, int] | None:
    """(height, width) before a turn that gives `size`."""
    return (size[1], size[0]) if size and degrees_clockwise in (90, 270) else size


def rotated(pictures: npt.NDArray[Any], degrees_clockwise: int) -> npt.NDArray[Any]:
    """(F, H, W, 3) pictures turned by 0, 90, 180 or 270 degrees."""
    return np.ascontiguousarray(np.rot90(pictures, k=-degrees_clockwise // 90, axes=(1, 2)))


def iter_frames(
    video: VideoLike, frames: IntArray, *, engine: Any, max_bytes: int = GROUP_BYTES
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """(frame index, RGB uint8 (H, W, 3)) of each of the distinct ascending frames, in bounded memory.

    Args:
        video: a probed file or a row of an index.
        frames: int64[f] indices from 0, ascending, no repeats.
        engine: what decodes; one that can give frames one by one (`iter_decode`) is asked to.
        max_bytes: coded bytes held at a time; one GOP is held whole.

    Raises:
        DecodeError, MediaError: as read_frames; frames before have been given by then.
    """
    with open_indexed(video) as source:
        for group in iter_groups(video, frames, max_bytes=max_bytes):
            cut = read_cut(video, source, group)
            one_by_one = getattr(engine, "iter_decode", None)
            pictures = one_by_one(cut) if one_by_one else enumerate(_to_numpy(engine.decode(cut)))
            for place, picture in pictures:
                yield int(cut.frames[place]), picture


def _to_numpy(pictures: Any) -> npt.NDArray[Any]:
    return pictures if isinstance(pictures, np.ndarray) else np.asarray(pictures.cpu())
