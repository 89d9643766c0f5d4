"""`vidprep stats`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vidprep.errors import VidprepError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOP = 12
_COUNTED = ("failures", "resolution", "codec", "container", "vfr_class", "method", "nvdec", "pix_fmt", "rotation")
_SPREAD = ("duration_seconds", "avg_fps", "num_frames")


@click.command()
@click.argument("indexes", nargs=-1, required=True, metavar="INDEX [INDEX2]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object (a list of them for two indexes).")
def command(indexes: tuple[str, ...], as_json: bool) -> None:
    r"""Summarise an index: how much there is, of what, and what failed. Two indexes: side by side.

    \b
    Examples:
      vidprep stats index
      vidprep stats index --json
      vidprep stats index-before index-after
    """
    if len(indexes) > 2:
        raise click.UsageError("one index, or two to compare")
    found = [_summary(path) for path in indexes]
    if as_json:
        click.echo(json.dumps(found if len(found) > 1 else found[0]))
        return
    click.echo("\n".join(_lines(indexes, found)))


def _summary(path: str) -> dict[str, Any]:
    from vidprep.indexes import open_index
    from vidprep.indexes.summary import summarise

    if not Path(path).exists():
        raise click.UsageError(f"no such index: {path}")
    try:
        return summarise(open_index(path))
    except (VidprepError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _lines(names: Sequence[str], found: list[dict[str, Any]]) -> list[str]:
    lines = _row("", names) if len(names) > 1 else []
    for name in ("videos", "ok", "failed", "with_warnings", "frames", "keyframes"):
        lines += _row(name, [f"{facts[name]:,}" for facts in found])
    lines += _row("hours", [f"{facts['hours']:,.2f}" for facts in found])
    lines += _row("gigabytes", [f"{facts['bytes'] / 1e9:,.3f}" for facts in found])
    for name in _COUNTED:
        lines += _counted(name, [facts[name] for facts in found])
    for name in _SPREAD:
        lines += _spread(name, [facts[name] for facts in found])
    return lines


def _row(label: str, values: Sequence[str]) -> list[str]:
    return [f"{label:28}" + "".join(f"{value:>18}" for value in values)]


def _counted(name: str, found: list[dict[str, int]]) -> list[str]:
    """The most frequent values of all, and how many more there are."""
    total: dict[str, int] = {}
    for counts in found:
        for value, count in counts.items():
            total[value] = total.get(value, 0) + count
    values = sorted(total, key=lambda value: (-total[value], value))
    if not values:
        return []
    lines = ["", name]
    for value in values[:_TOP]:
        lines += _row(f"  {value}", [f"{counts.get(value, 0):,}" for counts in found])
    return lines + ([f"  ... and {len(values) - _TOP} more"] if len(values) > _TOP else [])


def _spread(name: str, found: list[dict[str, Any] | None]) -> list[str]:
    known = [facts for facts in found if facts]
    if not known:
        return []
    lines = ["", name]
    for key in ("min", "median", "mean", "max"):
        lines += _row(f"  {key}", [f"{facts[key]:,.2f}" if facts else "" for facts in found])
    for place, (low, high, _) in enumerate(known[0]["histogram"]):
        label = f"  < {high:g}" if low is None else f"  >= {low:g}" if high is None else f"  {low:g} to {high:g}"
        counts = [facts["histogram"][place][2] if facts else 0 for facts in found]
        if any(counts):
            lines += _row(label, [f"{count:,}" for count in counts])
    return lines
