"""`vidprep validate`."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vidprep.cli.indexes import holds_index
from vidprep.cli.outputs import INTERRUPTED, OutputFile
from vidprep.cli.progress import Progress
from vidprep.cli.seconds import SecondsRange
from vidprep.errors import SamplingError, VidprepError
from vidprep.validation.checks import LEVELS, SEVERITIES, at_least

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vidprep.validation.rules import Rules
    from vidprep.validation.run import Report, Settings
    from vidprep.validation.tasks import Outcome, Task

_FILE = OutputFile()
_WORKER_MODULE = "vidprep.cli.decode_worker"


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SRC...|INDEX")
@click.option("--level", type=click.Choice(LEVELS), default="header", show_default=True, help="How deep to look.")
@click.option("--engine", type=click.Choice(["auto", "cpu", "nvdec"]), default="auto", show_default=True)
@click.option("--clips", type=click.IntRange(min=1), default=3, show_default=True, help="Of each video, when sampled.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which clips.")
@click.option(
    "--rules",
    "rules_path",
    type=click.Path(exists=True, dir_okay=False),
    metavar="RULES.toml",
    help="Which checks, how severe, from which value on; see docs/validation.md.",
)
@click.option("--policy", "policies", multiple=True, metavar="SPEC", help="Also dry-run this policy; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: summary and findings.")
@click.option("--html", "html_path", type=_FILE, metavar="OUT.html", help="Write a self-contained page.")
@click.option("--parquet", "parquet_path", type=_FILE, metavar="OUT.parquet", help="Write all findings.")
@click.option("--strict", is_flag=True, help="The same as --fail-on error.")
@click.option("--fail-on", type=click.Choice(SEVERITIES), help="Exit 1 if there are findings as bad as this.")
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Processes; default: one per CPU, one on a GPU."
)
@click.option(
    "--timeout",
    "timeout_seconds",
    type=SecondsRange(0.01),
    default=600.0,
    show_default=True,
    help="Seconds for a video.",
)
@click.option(
    "--memory",
    "memory_mib",
    type=click.IntRange(1, 1 << 30),
    default=4096,
    show_default=True,
    help="MiB for a video, on the CPU.",
)
def command(
    sources: tuple[str, ...], level: str, engine: str, clips: int, seed: int, rules_path: str | None,
    policies: tuple[str, ...], as_json: bool, html_path: str | None, parquet_path: str | None, strict: bool,
    fail_on: str | None, workers: int | None, timeout_seconds: float, memory_mib: int,
) -> None:  # fmt: skip
    r"""Check videos, or the videos of an index, before a training does.

    \b
    Levels
      header     tables, cross-checks, changed and missing files, duplicates; decodes nothing
      keyframes  also decodes every key frame
      sampled    also decodes --clips random clips of each video and some key frames
      full       also decodes every frame

    What was decoded is noted in OUT.vidprep/ beside the first output, so that a run that was ended goes on when it is
    started again; the folder is removed at the end. Checks, severities and rules: docs/validation.md.

    \b
    Exit 0: did its work, whatever was found. Exit 1: --strict or --fail-on found something, or the
    work could not be done. Exit 2: wrong usage, or no such SRC.

    \b
    Examples:
      vidprep validate index --html report.html
      vidprep validate videos/ --level keyframes --strict
      vidprep validate index --level sampled --clips 5 --parquet findings.parquet
      vidprep validate index --policy random:frames=16,stride=4,pad=drop --json
    """
    threshold = fail_on or ("error" if strict else None)
    rules = _rules(rules_path)
    outputs = [Path(path) for path in (html_path, parquet_path) if path]
    try:
        with _aside(outputs) as aside:
            index, fresh = _index(sources, aside, workers)
            settings = _settings(
                rules, policies, level, engine, clips, seed, timeout_seconds, memory_mib, workers, fresh
            )
            report = _run(index, aside, settings, workers)
            _write(report, ", ".join(sources), rules, as_json, html_path, parquet_path)
            findings = report.summary["findings"]
    except SamplingError as error:
        raise click.UsageError(str(error)) from error
    except (VidprepError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo(_stopped(outputs), err=True)
        sys.exit(INTERRUPTED)
    if threshold is not None and any(findings[name] for name in at_least(threshold)):
        sys.exit(1)


def _rules(path: str | None) -> Rules:
    from vidprep.validation.rules import Rules, load_rules

    try:
        return Rules() if path is None else load_rules(Path(path))
    except (ValueError, OSError) as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--rules") from error


def _state(outputs: list[Path]) -> Path:
    return outputs[0].with_name(outputs[0].name + ".vidprep")


def _stopped(outputs: list[Path]) -> str:
    """What Ctrl-C leaves, and how to go on."""
    if not outputs:
        return "Stopped. With --html or --parquet, what was decoded would be kept, and the same command would go on."
    return f"Stopped: what was decoded is kept in {_shown(str(_state(outputs)))}. The same command goes on from there."


@contextmanager
def _aside(outputs: list[Path]) -> Iterator[Path]:
    """Where a run keeps its state: beside the first output, kept if it ends early; else a temporary folder."""
    if not outputs:
        with tempfile.TemporaryDirectory(prefix="vidprep-") as folder:
            yield Path(folder)
        return
    state = _state(outputs)
    state.mkdir(parents=True, exist_ok=True)
    yield state
    shutil.rmtree(state, ignore_errors=True)


def _index(sources: tuple[str, ...], aside: Path, workers: int | None) -> tuple[Path, bool]:
    """The index that is meant, or one made of the sources; and whether it was made now."""
    from vidprep.cli.index import check_sources
    from vidprep.indexes import build_index
    from vidprep.indexes.mirror import local_folder
    from vidprep.sources.open import is_remote

    if len(sources) == 1 and _is_index(sources[0]):
        return local_folder(sources[0]) if is_remote(sources[0]) else Path(sources[0]), False
    check_sources(sources)
    index = aside / "index"
    with Progress("index", "videos") as progress:
        build_index(
            sources, index, workers=workers, update=True, progress=lambda done: progress.show(done.ok + done.failed)
        )
    return index, True


def _is_index(source: str) -> bool:
    """A folder of parts, one that a run left empty, or one part."""
    path = Path(source)
    if not path.is_dir():
        return holds_index(source)
    return any(path.glob("*.parquet")) or path.with_name(path.name + ".vidprep").is_dir()


def _settings(
    rules: Rules, policies: tuple[str, ...], level: str, engine: str, clips: int, seed: int, timeout_seconds: float,
    memory_mib: int, workers: int | None, fresh: bool,
) -> Settings:  # fmt: skip
    from vidprep.indexes.worker import Options as Limits
    from vidprep.samplers import parse_policy
    from vidprep.validation.examine import Options
    from vidprep.validation.run import Settings

    if engine == "auto":
        engine = "nvdec" if Path("/dev/nvidia0").exists() else "cpu"
    # CUDA maps far more address space than it uses: no limit can be put on it there.
    memory_bytes = memory_mib << 20 if engine == "cpu" else 1 << 46
    return Settings(
        options=Options(level=level, seed=seed, clips=clips),
        rules=rules,
        policies=tuple(parse_policy(text) for text in policies),
        engine=engine,
        limits=Limits(timeout_seconds=timeout_seconds, memory_bytes=memory_bytes),
        fresh=fresh,
        videos_at_once=videos_at_once(engine, workers),
    )


def videos_at_once(engine: str, workers: int | None) -> int:
    """Videos that each process decodes at a time: on a GPU, as many as keep its decoders busy.

    Processes take turns on a GPU, threads of one do not; on CPUs a process that dies of a file costs only that file.
    """
    if engine != "nvdec":
        return 1
    from vidprep.loaders.engines.choose import SPARE_THREADS
    from vidprep.loaders.engines.nvdec import DEFAULT_NUM_DECODERS

    return -(-(DEFAULT_NUM_DECODERS + SPARE_THREADS) // (workers or 1))


def _run(index: Path, aside: Path, settings: Settings, workers: int | None) -> Report:
    from vidprep.validation.run import validate_index

    bar: Any = None

    def show(done: int, total: int) -> None:
        nonlocal bar
        bar = bar or Progress("validate", "videos", total)
        bar.show(done)

    def runner(tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
        default = len(os.sched_getaffinity(0)) if settings.videos_at_once == 1 else 1
        return _decoded(tasks, workers or default, settings.videos_at_once)

    try:
        return validate_index(index, aside, settings, runner=runner, progress=show)
    finally:
        if bar is not None:
            bar.close()


def _decoded(tasks: Iterable[Task], workers: int, tasks_at_once: int) -> Iterator[tuple[Task, Outcome]]:
    """Do the tasks in processes that may die."""
    from vidprep.indexes.pool import Pool
    from vidprep.validation.tasks import with_claims

    if tasks_at_once == 1:
        with Pool(workers, _WORKER_MODULE) as pool:
            yield from pool.map(tasks)
        return
    # Whoever decodes in threads is spared what needs Python for long.
    num_judges = max(len(os.sched_getaffinity(0)) // 2, 1)
    with Pool(workers, _WORKER_MODULE, tasks_at_once) as pool, Pool(num_judges, _WORKER_MODULE) as judges:
        claims = judges.map(task._replace(only_claims=True) for task in tasks)
        yield from pool.map(with_claims(*done) for done in claims)


def _write(
    report: Report, source: str, rules: Rules, as_json: bool, html_path: str | None, parquet_path: str | None
) -> None:
    from vidprep.validation.report import page, write_json, write_parquet

    if parquet_path:
        write_parquet(report, Path(parquet_path))
    if html_path:
        from vidprep.pages import write_page

        write_page(html_path, page(report, source, rules))
    if as_json:
        write_json(report, sys.stdout)
    else:
        _print(report, rules)


def _print(report: Report, rules: Rules) -> None:
    summary = report.summary
    click.echo(
        f"{summary['videos']} videos, {summary['unreadable']} unreadable; "
        + ", ".join(f"{count} {name}" for name, count in reversed(summary["findings"].items()))
        + f" findings in {summary['seconds']:.1f} s"
    )
    for check, count in summary["checks"].items():
        click.echo(f"  {rules.severities[check]:8} {check:24} {count:>9}")
        first = report.examples[check][0]
        click.echo(f"           e.g. {_shown(first['video'])}: {_shown(first['message'])}")
    for policy in summary["policies"]:
        click.echo("\n".join(_policy_lines(policy)))


def _policy_lines(policy: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{policy['policy']}: {policy['clips']} clips, {policy['padded_clips']} padded, "
        f"{policy['refused_videos']} videos and {policy['refused_clips']} clips refused"
    )
    if policy["pictures_per_frame"] is not None:
        yield f"  {policy['pictures_per_frame']:.1f} pictures decoded for a useful frame, at most"
    for row in policy["gops"]:
        if row["gop"] is not None and row["gop"] == policy["suggested_gop"]:
            size = "" if row["size_ratio"] is None else f", files of about {100 * row['size_ratio']:.0f} % of the size"
            yield f"  with a key frame every {row['gop']} pictures: {row['pictures_per_frame']:.1f}{size}"


def _shown(text: str) -> str:
    from vidprep.pages import shown

    return shown(text)
