"""`vidprep decode`: exactly the named frames of a file, as one array."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from vidprep.cli.outputs import INTERRUPTED, OutputFile, OutputOption
from vidprep.errors import ArgumentError, DecodeError, MediaError, Reason, VidprepError
from vidprep.pages.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from vidprep.records import VideoLike

#: Untagged pictures of this many rows are BT.709 as often as not.
HD_ROWS = 720


#: Rows or columns that swscale is asked for.
MAX_SIZE = 1 << 15


def _frames_option(ctx: click.Context, param: click.Parameter, value: str) -> slice | list[int]:
    try:
        return parse_frames(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is neither all, nor a list 0,7,33, nor a slice A:B:S", ctx, param
        ) from None


def _size_option(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    height, _, width = value.partition("x")
    size = (int(height), int(width)) if height.isdecimal() and width.isdecimal() else (0, 0)
    if not 0 < min(size) <= max(size) <= MAX_SIZE:
        raise click.BadParameter(f"{value!r} is not HEIGHTxWIDTH, like 224x398", ctx, param)
    return size


def parse_frames(text: str) -> slice | list[int]:
    """Frames as the command line names them. Raises ValueError."""
    if text == "all":
        return slice(None)
    if ":" not in text:
        return [int(part) for part in text.split(",")]
    parts = [int(part) if part else None for part in text.split(":")]
    if len(parts) > 3 or (len(parts) == 3 and parts[2] == 0):
        raise ValueError(text)
    return slice(*parts)


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--frames", required=True, callback=_frames_option, help="all, a list 0,7,33 (negative = from the end), or A:B:S."
)
@click.option("--engine", type=click.Choice(["auto", "cpu", "nvdec", "dali"]), default="auto", show_default=True)
@click.option("--rotate", is_flag=True, help="Turn the pictures as the container says they are shown.")
@click.option(
    "--size",
    callback=_size_option,
    metavar="HxW",
    help="Resize to HxW, counted after any --rotate; needed where the size changes in mid-stream.",
)
@click.option(
    "--dtype",
    type=click.Choice(["uint8", "uint16"]),
    default="uint8",
    show_default=True,
    help="uint16 keeps what videos of more than 8 bits have (engines cpu, nvdec): 0 to 65535, whatever their bit depth.",
)
@click.option(
    "--colour-default",
    type=click.Choice(["bt601", "bt709", "bt2020"]),
    help="Matrix of pictures that are not tagged.  [default: bt601]",
)
@click.option("-o", "--output", cls=OutputOption, type=OutputFile(), required=True, help="The .npy to write.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done, or why not, as JSON.")
def command(
    file: str,
    frames: slice | list[int],
    engine: str,
    rotate: bool,
    size: tuple[int, int] | None,
    dtype: str,
    colour_default: str | None,
    output: str,
    as_json: bool,
) -> None:
    r"""Decode exactly the named frames of FILE to an array: (F, H, W, 3) RGB.

    A frame that is written is that frame; if one cannot be had, nothing is written, the reason is printed, and the
    exit code is 1 (2 if there is no such file).

    \b
    Examples:
      vidprep decode clip.mp4 --frames 0,7,33 -o frames.npy
      vidprep decode clip.mp4 --frames all --size 224x398 -o frames.npy
      vidprep decode hdr.mkv --frames 0:64:8 --dtype uint16 -o frames.npy
    """
    began = time.perf_counter()
    if _is_same(file, output):
        raise click.UsageError(f"{output} is the video itself")
    try:
        shape = decode_to(
            Path(output),
            file,
            frames,
            engine=engine,
            rotate=rotate,
            size=size,
            dtype=dtype,
            colour_default=colour_default,
        )
    except KeyboardInterrupt:
        click.echo("interrupted; nothing is written", err=True)
        sys.exit(INTERRUPTED)
    except ArgumentError as error:
        raise click.UsageError(str(error)) from error
    except VidprepError as error:
        said = json.dumps({"path": file, "error": describe(error)}) if as_json else shown(str(error))
        click.echo(said, err=not as_json)
        sys.exit(2 if getattr(error, "reason", None) == Reason.NOT_FOUND else 1)
    except OSError as error:
        raise click.FileError(output, hint=error.strerror or str(error)) from error
    seconds = time.perf_counter() - began
    done = {"path": file, "output": output, "shape": list(shape), "seconds": round(seconds, 3), "error": None}
    click.echo(json.dumps(done) if as_json else f"{output}: {'x'.join(map(str, shape))} {dtype}")


def _is_same(file: str, output: str) -> bool:
    try:
        return Path(output).samefile(file)
    except (OSError, ValueError):  # one of them is not there, or no path
        return False


def describe(error: VidprepError) -> dict[str, Any]:
    """An error as JSON has it."""
    facts: dict[str, Any] = {"class": type(error).__name__, "message": getattr(error, "message", str(error))}
    if isinstance(error, MediaError):
        facts |= {"reason": str(error.reason), "offset": error.offset}
    if isinstance(error, DecodeError):
        facts["frame_index"] = error.frame_index
    return facts


def decode_to(
    output: Path,
    file: str,
    frames: slice | list[int],
    *,
    engine: str = "auto",
    rotate: bool = False,
    size: tuple[int, int] | None = None,
    dtype: str = "uint8",
    colour_default: str | None = None,
) -> tuple[int, ...]:
    """Decode into `output` frame by frame; it appears whole or not at all. Returns the shape."""
    from vidprep.loaders.frames import as_video, frame_indices, iter_frames, make_engine, rotated, unturned

    video = as_video(file)
    _warn_untagged(video, colour_default)
    every = np.arange(video.table.num_frames)
    indices = every[frames] if isinstance(frames, slice) else frame_indices(frames, video)
    distinct, place = np.unique(indices, return_inverse=True)
    turn = video.info.rotation if rotate else 0
    size = unturned(size, turn)
    height, width = size or (video.info.height, video.info.width)
    shape = (len(indices), width, height, 3) if turn in (90, 270) else (len(indices), height, width, 3)
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], np.arange(len(distinct) + 1))
    with (
        make_engine(engine, size=size, dtype=dtype, colour_default=colour_default) as decoder,
        _written_aside(output, shape, dtype) as array,
        _progress(len(distinct)) as bar,
    ):
        for number, (_, picture) in enumerate(iter_frames(video, distinct, engine=decoder)):
            array[order[first[number] : first[number + 1]]] = rotated(picture[None], turn)
            bar.update()
    return shape


@contextmanager
def _written_aside(output: Path, shape: tuple[int, ...], dtype: str) -> Iterator[npt.NDArray[Any]]:
    """A memory-mapped .npy under another name, renamed when it is whole, removed when it is not."""
    from uuid import uuid4

    output.parent.mkdir(parents=True, exist_ok=True)
    aside = output.with_name(f"{output.name}.{uuid4().hex[:8]}.part")
    try:
        yield _mapped(aside, shape, dtype)
        aside.replace(output)
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()


def _mapped(path: Path, shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    if 0 in shape:  # an empty file cannot be mapped
        with path.open("wb") as file:
            np.save(file, np.zeros(shape, dtype))
        return np.zeros(shape, dtype)
    array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    _reserve(path)
    return array


def _reserve(path: Path) -> None:
    """Take the file's blocks now: where a disk is full, a write to mapped memory ends the process with SIGBUS."""
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _progress(total: int) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, unit="frame", delay=1, leave=False, disable=None)


def _warn_untagged(video: VideoLike, colour_default: str | None) -> None:
    info = video.info
    if colour_default is None and info.colour_matrix is None and info.height >= HD_ROWS and info.chroma != "rgb":
        click.echo(
            f"warning: {shown(video.uri)}: {info.height} rows and no colour matrix stated; BT.601 is taken, as FFmpeg does "
            f"(--colour-default bt709 overrides)",
            err=True,
        )
