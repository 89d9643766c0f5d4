"""`vidprep export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vidprep.cli.indexes import check_index
from vidprep.cli.outputs import OutputFile, OutputOption
from vidprep.errors import SamplingError, VidprepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vidprep.records import VideoLike
    from vidprep.samplers.plan import Plan, PlannedClip
    from vidprep.samplers.policy import Policy


@click.command()
@click.argument("index_path", metavar="INDEX", type=click.Path())
@click.option(
    "--format", "form", type=click.Choice(["dali-file-list", "parquet", "csv", "torchcodec"]), required=True,
    help="What to write.",
)  # fmt: skip
@click.option("--policy", "policy_text", metavar="SPEC", help="Write the clips that a policy takes (see `sample`).")
@click.option("--pad", help="Overrides pad= of the policy.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--epoch", type=click.IntRange(min=0), default=0, show_default=True, help="Which draw of a random policy."
)
@click.option(
    "-o", "--output", cls=OutputOption, required=True, type=OutputFile(), metavar="OUT", help="The file to write."
)
def command(
    index_path: str, form: str, policy_text: str | None, pad: str | None, seed: int, epoch: int, output: str
) -> None:
    r"""Write an index, or the clips that a policy takes from it, for other tools. Clips come in the order of the index.

    \b
    dali-file-list  lines "path label start end" for fn.experimental.readers.video; the reader's
                    arguments are printed. A label is the number of the video in the index.
    parquet, csv    the index's columns with one value per video; with --policy one row per clip.
    torchcodec      a line of JSON per video, {"video", "frames": [{"pts", "duration", "key_frame"}]}:
                    what VideoDecoder takes as custom_frame_mappings.

    What cannot be written is named on stderr and left out.

    \b
    Examples:
      vidprep export index --format dali-file-list --policy dense:frames=16,stride=2 -o list.txt
      vidprep export index --format csv -o videos.csv
      vidprep export index --format parquet --policy random:frames=16 --seed 7 -o clips.parquet
    """
    if form == "torchcodec" and policy_text is not None:
        raise click.UsageError("torchcodec: frame mappings are of whole videos, without --policy")
    try:
        plan = _plan(index_path, policy_text, pad, seed)
        count = _WRITERS[form](plan, epoch, output)
    except SamplingError as error:
        raise click.UsageError(str(error)) from error
    except (VidprepError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{output}: {count} rows", err=True)


def _plan(index_path: str, policy_text: str | None, pad: str | None, seed: int) -> Plan | Any:
    """The plan, or the index where there is no policy."""
    from vidprep.cli.sample import policy_of
    from vidprep.indexes import open_index
    from vidprep.samplers.plan import Plan

    check_index(index_path)
    index = open_index(index_path)
    return index if policy_text is None else Plan(index, policy_of(policy_text, pad, None), seed=seed, shuffle=False)


def _clips(plan: Plan, epoch: int) -> Iterator[PlannedClip]:
    """The clips of an epoch in the order of the index; what is refused is named and left out."""
    from vidprep.samplers.dry_run import planned_clips

    for unit in plan.refused.tolist():
        _name(plan.videos[unit].uri, "gives no clip")
    return planned_clips(
        plan, epoch, range(len(plan)), lambda position, error: _name(_uri(plan, epoch, position), str(error))
    )


def _uri(plan: Plan, epoch: int, position: int) -> str:
    return str(plan.videos[plan.unit(epoch, position)[0]].uri)


def _name(uri: str, what: str) -> None:
    from vidprep.pages.text import shown

    click.echo(shown(what if uri in what else f"{uri}: {what}"), err=True)


def _readable(index: Any) -> Iterator[tuple[int, VideoLike]]:
    for number, video in enumerate(index):
        if video.status == "ok":
            yield number, video
        else:
            _name(video.uri, video["error_reason"])


# --- formats ----------------------------------------------------------------------------------------------------------


def _dali_file_list(plan: Any, epoch: int, output: str) -> int:
    from vidprep.samplers import dali

    policy: Policy | None = getattr(plan, "policy", None)
    kwargs = dali.FILE_LIST_KWARGS if policy is None else dali.reader_kwargs(policy)
    lines = _whole_lines(plan) if policy is None else _clip_lines(plan, epoch, kwargs)
    count = _write_lines(output, lines)
    if not count:
        click.echo("no clip can be given by the reader; the list is empty", err=True)
    said = "".join(f", {name}={value!r}" for name, value in kwargs.items())
    click.echo(f"fn.experimental.readers.video(file_list={output!r}{said})")
    return count


def _clip_lines(plan: Plan, epoch: int, kwargs: dict[str, Any]) -> Iterator[str]:
    from vidprep.samplers import dali

    for clip in _clips(plan, epoch):
        video = plan.videos[clip.video]
        try:
            _check_order(video)
            yield dali.file_list_line(clip.uri, clip.video, clip.spec, (0, video.timeline.num_frames), kwargs)
        except SamplingError as error:
            _name(clip.uri, str(error))


def _whole_lines(index: Any) -> Iterator[str]:
    from vidprep.samplers import dali

    for number, video in _readable(index):
        try:
            _check_order(video)
            yield dali.file_list_row(video.uri, number, (0, video.timeline.num_frames))
        except SamplingError as error:
            _name(video.uri, str(error))


def _check_order(video: VideoLike) -> None:
    if video.table.order is not None:
        raise SamplingError("its times jump back; the reader sorts frames by time")


def _parquet(plan: Any, epoch: int, output: str) -> int:
    return _table(plan, epoch, output, "parquet")


def _csv(plan: Any, epoch: int, output: str) -> int:
    return _table(plan, epoch, output, "csv")


def _table(plan: Any, epoch: int, output: str, form: str) -> int:
    from vidprep.indexes import export

    if not hasattr(plan, "policy"):
        return export.write_table(output, plan.to_table(), form)
    rows = (
        {"video": clip.uri, "clip": clip.clip, "cost_bound": clip.cost_bound} | _arrays(clip)
        for clip in _clips(plan, epoch)
    )
    return export.write_batches(output, export.CLIP_SCHEMA, rows, form)


def _arrays(clip: PlannedClip) -> dict[str, Any]:
    return clip.spec.to_dict()


def _torchcodec(index: Any, epoch: int, output: str) -> int:
    del epoch
    mappings = ({"video": video.uri, "frames": _frames(video)} for _, video in _readable(index))
    return _write_lines(output, (json.dumps(mapping) for mapping in mappings))


def _frames(video: VideoLike) -> list[dict[str, int]]:
    """Each frame's ticks in presentation order; a duration lasts until the next frame."""
    timeline = video.timeline
    pts, keys = timeline.pts.tolist(), set(timeline.keyframes.tolist())
    ends = [*pts[1:], timeline.end_pts]
    return [
        {"pts": start, "duration": max(end - start, 0), "key_frame": int(frame in keys)}
        for frame, (start, end) in enumerate(zip(pts, ends, strict=True))
    ]


def _write_lines(output: str, lines: Iterator[str]) -> int:
    """Write lines; the file appears whole or not at all."""
    from vidprep.indexes.export import written_aside

    count = 0
    with (
        written_aside(output) as partial,
        Path(partial).open("w", encoding="utf-8", errors="surrogateescape") as file,
    ):
        for line in lines:
            file.write(line + "\n")
            count += 1
    return count


_WRITERS: dict[str, Callable[[Any, int, str], int]] = {
    "dali-file-list": _dali_file_list,
    "parquet": _parquet,
    "csv": _csv,
    "torchcodec": _torchcodec,
}
