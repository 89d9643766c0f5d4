"""`vidprep inspect`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vidprep.errors import VidprepError

if TYPE_CHECKING:
    from vidprep.indexes.rows import Row
    from vidprep.records import SampleTable

_COLOUR = ("matrix", "range", "primaries", "transfer")
_ERROR = ("class", "reason", "message", "offset")
_FOLDED = {f"colour_{name}" for name in _COLOUR} | {f"error_{name}" for name in _ERROR} | {"uri_bytes", "codec_config"}


@click.command()
@click.argument("path", metavar="FILE|INDEX")
@click.option("--video", type=int, metavar="N", help="Which video of an INDEX, counted from 0.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--frames", is_flag=True, help="Also every frame's pts, and the key frames (checked against their bytes)."
)
@click.option("--explain", is_flag=True, help="Say how the facts were had and what is odd about the file.")
def command(path: str, video: int | None, as_json: bool, frames: bool, explain: bool) -> None:
    r"""Show what an index says (or would say) of one video.

    A file that cannot be read is described too, with its error: exit 0. Exit 2: no such file.

    \b
    Examples:
      vidprep inspect a.mp4
      vidprep inspect a.mp4 --json --frames
      vidprep inspect shard.tar::clips/a.mp4 --explain
      vidprep inspect index --video 12
    """
    try:
        row, table = _from_index(path, video) if _is_index(path) else _from_file(path, verify_keys=frames)
    except VidprepError as error:
        raise click.ClickException(str(error)) from error
    facts = describe(row, table if frames else None)
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=True))
        return
    _print(facts)
    if explain:
        for line in explanations(row):
            click.echo(f"- {line}")


def _is_index(path: str) -> bool:
    """A folder, or one part of an index."""
    return Path(path).is_dir() or (path.endswith(".parquet") and Path(path).is_file())


def _from_file(path: str, *, verify_keys: bool) -> tuple[Row, SampleTable | None]:
    from vidprep.indexes import probe_row
    from vidprep.indexes.rows import TABLE
    from vidprep.sources.listing import absolute

    if "://" not in path and not os.path.lexists(path) and ".tar::" not in path:
        raise click.UsageError(f"no such file: {path!r}")
    row = probe_row(absolute(path), path=path, verify_keys=verify_keys)
    return row, row.get(TABLE)


def _from_index(path: str, video: int | None) -> tuple[Row, SampleTable | None]:
    from vidprep.indexes import open_index

    index = open_index(path)
    if video is None:
        raise click.UsageError(f"an index holds many videos: give --video 0..{len(index) - 1}")
    if not 0 <= video < len(index):
        raise click.UsageError(f"--video {video}: the index holds {len(index)} videos, counted from 0")
    found = index[video]
    return found.values(), found.table if found.status == "ok" else None


def describe(row: Row, table: SampleTable | None) -> dict[str, Any]:
    """A row as the JSON object that `inspect` prints; with a table, its frames too."""
    from vidprep.indexes.schema import VIDEO_NAMES

    facts: dict[str, Any] = {"path": row["path"], "status": row["status"]}
    failed = row["status"] != "ok"
    facts["error"] = {name: row.get(f"error_{name}") for name in _ERROR} if failed else None
    facts["warnings"] = row.get("warnings") or []
    facts.update((name, row.get(name)) for name in VIDEO_NAMES if name not in _FOLDED and name not in facts)
    facts["colour"] = {name: row.get(f"colour_{name}") for name in _COLOUR}
    facts["doubts"] = row.get("doubts") or []
    facts["codec_config"] = (row.get("codec_config") or b"").hex()
    if table is not None:
        facts["frames"] = {"pts": table.frame_pts.tolist(), "keyframes": table.keyframes.tolist()}
    return facts


def _print(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        if name == "frames":
            _print_frames(value)
        elif value not in (None, [], "") and name != "codec_config":
            click.echo(f"{name:24} {value if isinstance(value, str) else json.dumps(value)}")


def _print_frames(frames: dict[str, list[int]]) -> None:
    keys = set(frames["keyframes"])
    click.echo("frame        pts  key")
    for number, pts in enumerate(frames["pts"]):
        click.echo(f"{number:5} {pts:10}  {'K' if number in keys else ''}".rstrip())


def explanations(row: Row) -> list[str]:
    """What is worth knowing of how a row's facts were had, one sentence each."""
    if row["status"] != "ok":
        return [f"cannot be used: {row['error_reason']}: {row['error_message']}"]
    lines = [
        {
            "header": "the frame table was read from the container's own tables",
            "scan": "the frame table was made by walking the container's blocks",
            "demux": "the frame table was made by demuxing the whole file with FFmpeg",
        }[row["method"]],
        "key frames were checked against their bytes"
        if row.get("keys_verified")
        else "key frames are the container's claim",
    ]
    lines += [f"sample heads were read because {doubt}" for doubt in row.get("doubts") or ()]
    claimed, found = row.get("header_num_frames"), row["num_frames"]
    if claimed is not None and claimed != found:
        lines.append(f"the header claims {claimed} frames; a viewer sees {found}")
    if row["num_samples"] != found:
        lines.append(
            f"{row['num_samples'] - found} coded samples are not shown (edit list, hidden pictures, discarded)"
        )
    if row["is_vfr"]:
        lines.append(f"frame times vary (standard deviation {row['jitter_seconds'] * 1000:.1f} ms)")
    if row["num_gaps"]:
        lines.append(f"{row['num_gaps']} gaps longer than three times the usual distance")
    if row.get("rotation"):
        lines.append(f"to be rotated by {row['rotation']} degrees clockwise for display")
    return lines
