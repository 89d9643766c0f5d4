"""`vidprep inspect`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from vidprep.cli.explain import explanations
from vidprep.cli.indexes import holds_index
from vidprep.cli.outputs import OutputFile
from vidprep.cli.pictures import lines, pictures_of
from vidprep.errors import VidprepError
from vidprep.indexes.rows import info_of, path_of, uri_of
from vidprep.pages.text import shown
from vidprep.records import Identity, ParsedVideo, Video

if TYPE_CHECKING:
    from vidprep.cli.pictures import Pictures
    from vidprep.indexes.rows import Row
    from vidprep.records import SampleTable

_COLOUR = ("matrix", "range", "primaries", "transfer")
_ERROR = ("class", "reason", "message", "offset")
_FOLDED = (
    {f"colour_{name}" for name in _COLOUR}
    | {f"error_{name}" for name in _ERROR}
    | {
        "uri_bytes",
        "codec_config",
        "later_configs",
    }
)


@click.command()
@click.argument("path", metavar="FILE|INDEX", type=click.Path())
@click.option("--video", type=int, metavar="N", help="Which video of an INDEX, counted from 0.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--frames", is_flag=True, help="Also every frame's pts, and the key frames (checked against their bytes)."
)
@click.option("--explain", is_flag=True, help="Say how the facts were had and what is odd about the file.")
@click.option("--html", type=OutputFile(), metavar="OUT.html", help="Also a page; one file.")
@click.option("--png", type=OutputFile(), metavar="OUT.png", help="Also the diagrams as a picture.")
def command(
    path: str, video: int | None, as_json: bool, frames: bool, explain: bool, html: str | None, png: str | None
) -> None:
    r"""Show what an index says (or would say) of one video: facts, picture types, bit rate and frame times.

    A file that cannot be read is described too, with its error: exit 0. Exit 2: no such file.

    \b
    Examples:
      vidprep inspect a.mp4
      vidprep inspect a.mp4 --json --frames
      vidprep inspect shard.tar::clips/a.mp4 --explain
      vidprep inspect index --video 12 --html video.html
    """
    if "://" not in path and not os.path.lexists(path) and ".tar::" not in path:
        raise click.UsageError(f"no such file: {path}")
    is_index = holds_index(path)
    if video is not None and not is_index:
        raise click.UsageError(f"--video is for an index; {shown(path)} is one file")
    try:
        row, table = _from_index(path, video) if is_index else _from_file(path, verify_keys=frames)
    except VidprepError as error:
        raise click.ClickException(str(error)) from error
    facts = describe(row, table if frames else None)
    shows_pictures = not as_json or html is not None or png is not None
    pictures = pictures_of(video_of(row, table)) if shows_pictures and table is not None else None
    try:
        _write(html, png, facts, row, table, pictures)
    except (VidprepError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=True))
        return
    _print(facts)
    for line in lines(pictures) if pictures else ():
        click.echo(shown(line))
    for line in explanations(row, table, uri_of(row)) if explain else ():
        click.echo(f"- {shown(line)}")


def _write(
    html: str | None, png: str | None, facts: dict[str, Any], row: Row, table: SampleTable | None,
    pictures: Pictures | None,
) -> None:  # fmt: skip
    from vidprep.cli.inspect_page import inspect_page, inspect_png
    from vidprep.pages.render import write_aside, write_page

    if html is not None:
        write_page(html, inspect_page(facts, pictures, explanations(row, table, uri_of(row))))
        click.echo(html, err=True)
    if png is not None and pictures is None:
        click.echo(f"{png}: not written, there is nothing to draw of a video that cannot be read", err=True)
    if png is not None and pictures is not None:
        write_aside(png, inspect_png(facts, pictures))
        click.echo(png, err=True)


def video_of(row: Row, table: SampleTable) -> Video:
    """The video that a row describes."""
    parsed = ParsedVideo(
        info=info_of(row), table=table, method=row["method"], access=row["access"], keys_verified=row["keys_verified"]
    )
    identity = Identity(
        size_bytes=row["size_bytes"], mtime_ns=row["mtime_ns"], etag=row["etag"], member_offset=row["member_offset"]
    )
    return Video(uri=uri_of(row), identity=identity, parsed=parsed)


def _from_file(path: str, *, verify_keys: bool) -> tuple[Row, SampleTable | None]:
    from vidprep.indexes import probe_row
    from vidprep.indexes.rows import TABLE
    from vidprep.sources.listing import absolute

    row = probe_row(absolute(path), path=path, verify_keys=verify_keys)
    return row, row.get(TABLE)


def _from_index(path: str, video: int | None) -> tuple[Row, SampleTable | None]:
    from vidprep.indexes import open_index

    index = open_index(path)
    if not len(index):
        raise click.UsageError(f"the index holds no videos: {shown(path)}")
    if video is None:
        raise click.UsageError(f"an index holds many videos: give --video 0..{len(index) - 1}")
    if not 0 <= video < len(index):
        raise click.UsageError(f"--video {video}: the index holds {len(index)} videos, counted from 0")
    found = index[video]
    return found.values(), found.table if found.status == "ok" else None


def describe(row: Row, table: SampleTable | None) -> dict[str, Any]:
    """A row as the JSON object that `inspect` prints; with a table, its frames too. Names are byte for byte."""
    from vidprep.indexes.schema import VIDEO_NAMES

    facts: dict[str, Any] = {"path": path_of(row), "uri": uri_of(row), "status": row["status"]}
    failed = row["status"] != "ok"
    facts["error"] = {name: row.get(f"error_{name}") for name in _ERROR} if failed else None
    facts["warnings"] = row.get("warnings") or []
    facts.update((name, row.get(name)) for name in VIDEO_NAMES if name not in _FOLDED and name not in facts)
    facts["colour"] = {name: row.get(f"colour_{name}") for name in _COLOUR}
    facts["doubts"] = row.get("doubts") or []
    facts["codec_config"] = (row.get("codec_config") or b"").hex()
    facts["later_configs"] = [
        {"row": each["row"], "config": each["config"].hex()} for each in row.get("later_configs") or ()
    ]
    if table is not None:
        facts["frames"] = {"pts": table.frame_pts.tolist(), "keyframes": table.keyframes.tolist()}
    return facts


def _print(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        if name == "frames":
            _print_frames(value)
        elif value not in (None, [], "") and name not in ("codec_config", "later_configs"):
            click.echo(f"{name:24} {shown(value) if isinstance(value, str) else json.dumps(value)}")


def _print_frames(frames: dict[str, list[int]]) -> None:
    keys = set(frames["keyframes"])
    click.echo("frame        pts  key")
    for number, pts in enumerate(frames["pts"]):
        click.echo(f"{number:5} {pts:10}  {'K' if number in keys else ''}".rstrip())
