"""`vidprep index`."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import TYPE_CHECKING

import click

from vidprep.cli.outputs import INTERRUPTED, OutputOption
from vidprep.cli.progress import Progress
from vidprep.cli.seconds import SecondsRange
from vidprep.errors import VidprepError

if TYPE_CHECKING:
    from vidprep.indexes import Summary


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SRC...", type=click.Path())
@click.option(
    "-o", "--output", cls=OutputOption, required=True, metavar="INDEX",
    help="Folder of Parquet parts to write or go on with.",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes; default: one per CPU.")
@click.option("--update", is_flag=True, help="Re-index what changed, add what is new, mark what vanished.")
@click.option("--shard", metavar="I/N", help="Only the I-th of N shares of the videos, 0 <= I < N.")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Who runs it: this machine, or a Ray cluster (RAY_ADDRESS).",
)
@click.option(
    "--pattern", multiple=True, metavar="GLOB", help="Which names a folder or tar gives, for --pattern '*.mp4'."
)
@click.option("--column", metavar="NAME", help="The column of csv and parquet lists.")
@click.option("--checksums", is_flag=True, help="Store a CRC-32 of every sample; reads all bytes.")
@click.option("--verify-keys", is_flag=True, help="Check every key flag against the sample's own head.")
@click.option(
    "--timeout",
    "timeout_seconds",
    type=SecondsRange(0.01),
    default=60.0,
    show_default=True,
    help="Seconds for one file.",
)
@click.option(
    "--memory", "memory_mib", type=click.IntRange(1, 1 << 30), default=2048, show_default=True, help="MiB for one file."
)
@click.option("--strict", is_flag=True, help="Exit 1 if any video of the index could not be read.")
@click.option(
    "--json", "as_json", is_flag=True, help="End with one JSON line: videos, ok, failed, skipped, updated, ..."
)
def command(
    sources: tuple[str, ...],
    output: str,
    workers: int | None,
    update: bool,
    shard: str | None,
    engine: str,
    pattern: tuple[str, ...],
    column: str | None,
    checksums: bool,
    verify_keys: bool,
    timeout_seconds: float,
    memory_mib: int,
    strict: bool,
    as_json: bool,
) -> None:
    r"""Index videos: one Parquet row for each. Run it again after any end: it goes on where it was.

    \b
    SRC is any of
      a file         always taken, whatever its name
      a folder       all below it: names with a video extension or without any extension
                     (or what --pattern names); hidden names and ._ leftovers are passed over;
                     links are followed, a folder is entered once
      SHARD.tar      its members, in place, by the same rule as a folder; a member that is cut off and
                     a damaged archive are rows with an error, compressed archives are refused
      @LIST or -     a txt (one a line, or NUL-separated), csv or parquet list, or stdin
      s3://..., gs://...

    \b
    A video that cannot be read is a row with an error, not an end: exit 0. Exit 1: --strict and
    there are such rows, or the index cannot be written. Exit 2: wrong usage, or no such SRC.
    Exit 130: Ctrl-C; it says how many rows are safe.

    \b
    Examples:
      vidprep index videos/ -o index
      vidprep index shards/*.tar --workers 16 -o index
      find /data -name '*.mkv' -print0 | vidprep index - -o index
      vidprep index videos/ --update -o index --json
      vidprep index videos/ --shard $SLURM_ARRAY_TASK_ID/64 -o index
    """
    from vidprep.indexes import build_index

    check_sources(sources, column)
    try:
        with Progress("index", "videos") as progress:
            summary = build_index(
                sources, output, workers=workers, engine=engine, update=update, shard=_shard(shard), pattern=pattern, column=column,
                checksums=checksums, verify_keys=verify_keys, timeout_seconds=timeout_seconds,
                memory_bytes=memory_mib << 20, progress=lambda so_far: progress.show(so_far.ok + so_far.failed),
            )  # fmt: skip
    except (VidprepError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo(_stopped(output), err=True)
        sys.exit(INTERRUPTED)
    _report(summary, sources, as_json)
    if strict and (summary.failed or summary.failed_before):
        sys.exit(1)


def _stopped(output: str) -> str:
    """What Ctrl-C leaves, and how to go on."""
    from vidprep.indexes.build import rows_in_place
    from vidprep.pages.text import shown

    try:
        rows = rows_in_place(output)
    except (VidprepError, OSError):
        rows = 0
    return f"Stopped: {rows} rows are safe in {shown(output)}. The same command goes on from there."


def check_sources(sources: tuple[str, ...], column: str | None = None) -> None:
    """Exit 2 before any work if a source that can be looked up at once is missing, or a list has no such column."""
    from vidprep.sources.lists import check_list

    for source in sources:
        if source.startswith("@"):
            try:
                check_list(source[1:], column)
            except VidprepError as error:
                raise click.UsageError(str(error)) from error
            continue
        path = source.partition(".tar::")[0]
        if source != "-" and "://" not in source and not os.path.lexists(path) and not os.path.lexists(path + ".tar"):
            raise click.UsageError(f"no such file or folder: {source}")


def _shard(text: str | None) -> str | None:
    from vidprep.indexes.build import Shard

    if text is not None:
        try:
            Shard.parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--shard") from error
    return text


def _report(summary: Summary, sources: tuple[str, ...], as_json: bool) -> None:
    if summary.videos == 0:
        from vidprep.pages.text import shown

        click.echo(f"no videos found in {shown(', '.join(sources))}", err=True)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(summary)))
        return
    click.echo(
        f"{summary.videos} videos: {summary.ok} ok, {summary.failed} failed, {summary.skipped} skipped, "
        f"{summary.updated} updated, {summary.vanished} vanished in {summary.seconds:.1f} s"
    )
    for reason, count in summary.reasons.items():
        click.echo(f"  {reason}: {count}")
