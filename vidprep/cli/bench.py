"""`vidprep bench`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from vidprep.cli.indexes import check_index
from vidprep.cli.seconds import SecondsRange
from vidprep.errors import ArgumentError, SamplingError, VidprepError

if TYPE_CHECKING:
    from collections.abc import Iterator

GOPS = (1, 8, 16, 48, 250)
#: Clips that the estimates look at.
ESTIMATE_CLIPS = 2000


def _size(_context: click.Context, _param: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    height, width = [*text.split("x", 1), ""][:2]
    if not (height.isdigit() and width.isdigit() and int(height) and int(width)):
        raise click.BadParameter(f"{text!r}: expected HxW, such as 224x224")
    return int(height), int(width)


@click.command()
@click.argument("index", type=click.Path())
@click.option("--policy", "policy_text", required=True, metavar="SPEC", help="Which frames make a clip.")
@click.option("--engine", default="auto", show_default=True, type=click.Choice(["auto", "cpu", "dali", "nvdec"]))
@click.option("--device", default="cpu", show_default=True, help="cpu, or cuda:0.")
@click.option("--batch-size", default=8, show_default=True, type=click.IntRange(1))
@click.option("--size", callback=_size, metavar="HxW", default="224x224", show_default=True, help="Size of the frames.")
@click.option("--seconds", default=10.0, show_default=True, type=SecondsRange(0.1), help="Time for each stage.")
@click.option("--threads", type=click.IntRange(1), help="Reading threads; by default what suits the engine.")
@click.option("--step-seconds", type=SecondsRange(0, min_open=True), help="Time of one training step, per batch.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    index: str, policy_text: str, engine: str, device: str, batch_size: int, size: tuple[int, int] | None,
    seconds: float, threads: int | None, step_seconds: float | None, seed: int, *, as_json: bool,
) -> None:  # fmt: skip
    r"""Measure how fast clips of your own videos come: read only, decoded, and through the whole loader.

    With --step-seconds it says whether the loader is 1.5 times as fast as training, the room that keeps it from
    waiting. What another GOP length would change is estimated from the index's tables.

    \b
    Examples:
      vidprep bench index --policy random:frames=16,stride=4,pad=edge
      vidprep bench index --policy uniform:frames=8 --engine nvdec --device cuda:0 --step-seconds 0.12
    """
    try:
        plan = _plan(index, policy_text, seed)
        options = {"batch_size": batch_size, "size": size}
        found = _measure(plan, engine, device, seconds, threads, options)
    except (ArgumentError, SamplingError) as error:
        raise click.UsageError(str(error)) from error
    except (VidprepError, OSError) as error:
        raise click.ClickException(str(error)) from error
    found["training"] = None if step_seconds is None else _training(found, batch_size, step_seconds)
    click.echo(json.dumps(found) if as_json else "\n".join(_lines(found)))


def _plan(index: str, policy_text: str, seed: int) -> Any:
    from vidprep.indexes import open_index
    from vidprep.samplers.parse import parse_policy
    from vidprep.samplers.plan import Plan

    check_index(index)
    return Plan(open_index(index).where(status="ok"), parse_policy(policy_text), seed=seed)


def _measure(
    plan: Any, engine: str, device: str, seconds: float, threads: int | None, options: dict[str, Any]
) -> dict[str, Any]:
    from vidprep.loaders import measure

    loader = {**options, "engine": engine, "device": device, "threads": threads}
    loader |= {"output": "numpy" if device == "cpu" else "torch"}
    next(plan.batches(options["batch_size"], drop_last=False))  # a plan without clips is an error before any work
    stages = {
        "loader": measure.measure_loader(plan, seconds=seconds, **loader),
        "engine": measure.measure_engine(plan, engine=engine, device=device, seconds=seconds, threads=threads),
        "reading": measure.measure_reading(plan, seconds=seconds, threads=threads or 4),
    }
    found: dict[str, Any] = {name: rate.to_dict() for name, rate in stages.items()}
    found["re_encoding"] = [asdict(e) for e in measure.estimate_gops(plan, GOPS, clips=ESTIMATE_CLIPS)]
    return found


def _training(found: dict[str, Any], batch_size: int, step_seconds: float) -> dict[str, Any]:
    from vidprep.loaders.measure import HEADROOM

    needed, have = batch_size / step_seconds, found["loader"]["clips_per_second"]
    return {
        "clips_per_second": needed, "loader_over_training": have / needed, "rule": HEADROOM,
        "holds": have >= HEADROOM * needed,
    }  # fmt: skip


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'':10}{'clips/s':>12}{'pictures/s':>12}{'MB/s':>10}{'pictures/frame':>16}{'failed':>8}"
    for name in ("loader", "engine", "reading"):
        rate = found[name]
        yield (
            f"{name:10}{rate['clips_per_second']:12.1f}{rate['pictures_per_second']:12.0f}"
            f"{rate['bytes_read_per_second'] / 1e6:10.2f}{rate['pictures_per_wanted_frame']:16.2f}{rate['failures']:8}"
        )
    yield f"loader / engine {_ratio(found, 'engine')}, loader / reading {_ratio(found, 'reading')}"
    yield found["loader"]["bottleneck"]
    if found["training"] is not None:
        yield _verdict(found["training"])
    yield ""
    yield "Re-encoded with a key frame every so many frames (estimates from the tables):"
    yield f"{'GOP':>6}{'pictures/frame, at most':>26}{'size':>10}"
    for entry in found["re_encoding"]:
        size = "?" if entry["bytes_ratio"] is None else f"x {entry['bytes_ratio']:.2f}"
        yield f"{entry['gop']:>6}{entry['pictures_per_wanted_frame']:>26.2f}{size:>10}"
    yield "Decoding time goes with pictures x pixels: half the height and width costs about a quarter."


def _ratio(found: dict[str, Any], other: str) -> str:
    rate = found[other]["clips_per_second"]
    return f"{found['loader']['clips_per_second'] / rate:.2f}" if rate else "-"


def _verdict(training: dict[str, Any]) -> str:
    ratio, rule = training["loader_over_training"], training["rule"]
    said = "keeps up with room to spare" if training["holds"] else "is too slow for that: the step will wait at times"
    said = "is slower than training: the step waits all the time" if ratio < 1 else said
    return (
        f"Training takes {training['clips_per_second']:.1f} clips/s; the loader gives {ratio:.2f} times as many "
        f"(rule: {rule} or more) and {said}."
    )
