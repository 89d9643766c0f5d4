"""The page of `vidprep stats`: totals, distributions as plots and numbers, the first failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vidprep.cli.distributions import change, distributions, totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.cli.distributions import Distribution
    from vidprep.pages.plots import Plot

__all__ = ["stats_page"]


def stats_page(
    names: Sequence[str], found: Sequence[dict[str, Any]], failures: Sequence[Sequence[dict[str, Any]]]
) -> str:
    """The page of one index, or of two beside each other.

    Args:
        names: of the indexes.
        found: their summaries (`indexes.summary.summarise`).
        failures: the first failures of each (`indexes.summary.first_failures`).
    """
    from vidprep.pages import render

    shown = distributions(found)
    return render(
        "stats.html",
        title="Dataset statistics" if len(names) == 1 else "Two datasets compared",
        names=list(zip("AB", names, strict=False)),
        totals=totals(found),
        distributions=shown,
        plots=[_plot(entry, len(names)) for entry in shown],
        failures=list(zip("AB", failures, [facts["failed"] for facts in found], strict=False)),
        change=change,
    )


def _plot(entry: Distribution, count: int) -> Plot:
    from vidprep.pages.plots import bars

    return bars(entry.title, entry.labels, dict(zip("AB"[:count], entry.counts, strict=True)))
