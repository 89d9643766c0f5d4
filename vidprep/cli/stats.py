"""`vidprep stats`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from vidprep.cli.indexes import check_index
from vidprep.cli.outputs import OutputFile
from vidprep.errors import VidprepError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.indexes import Index

#: Failures that a page lists.
FAILURES = 500


@click.command()
@click.argument("indexes", nargs=-1, required=True, metavar="INDEX [INDEX2]", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object (a list of them for two indexes).")
@click.option("--html", type=OutputFile(), metavar="OUT.html", help="Also a page with plots; one file.")
def command(indexes: tuple[str, ...], as_json: bool, html: str | None) -> None:
    r"""Summarise an index: how much there is, of what, and what failed. Two indexes: side by side.

    \b
    Examples:
      vidprep stats index
      vidprep stats index --json
      vidprep stats index --html stats.html
      vidprep stats index-before index-after
    """
    if len(indexes) > 2:
        raise click.UsageError("one index, or two to compare")
    try:
        opened = [_opened(path) for path in indexes]
        found = [_summary(index) for index in opened]
        if html is not None:
            _write_html(html, indexes, opened, found)
    except (VidprepError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(found if len(found) > 1 else found[0]))
    else:
        click.echo("\n".join(_lines(indexes, found)))


def _opened(path: str) -> Index:
    from vidprep.indexes import open_index

    check_index(path)
    return open_index(path)


def _summary(index: Index) -> dict[str, Any]:
    from vidprep.indexes.summary import summarise

    return summarise(index)


def _write_html(path: str, names: Sequence[str], opened: Sequence[Index], found: Sequence[dict[str, Any]]) -> None:
    from vidprep.cli.stats_page import stats_page
    from vidprep.indexes.summary import first_failures
    from vidprep.pages import write_page

    write_page(path, stats_page(names, found, [first_failures(index, FAILURES) for index in opened]))
    click.echo(path, err=True)


def _lines(names: Sequence[str], found: Sequence[dict[str, Any]]) -> list[str]:
    from vidprep.cli.distributions import change, distributions, totals
    from vidprep.pages.render import amount
    from vidprep.pages.text import shown

    lines = []
    if len(names) > 1:
        lines = [f"{letter} = {shown(name)}" for letter, name in zip("AB", names, strict=True)]
        lines += _row("", ["A", "B", "change"])
    for total in totals(found):
        lines += _row(total.name, [*total.texts, *filter(None, [total.change])])
    for entry in distributions(found):
        lines += ["", entry.title]
        for name, values in entry.figures:
            lines += _row(f"  {name}", [amount(value) for value in values])
        for label, *counts in zip(entry.labels, *entry.counts, strict=True):
            lines += _row(f"  {label}", [f"{count:,}" for count in counts] + ([change(*counts)] if counts[1:] else []))
        if entry.left_out:
            lines.append(f"  ... and {entry.left_out} more")
    return lines


def _row(label: str, values: Sequence[str]) -> list[str]:
    return [f"{label:28}" + "".join(f"{value:>22}" for value in values)]
