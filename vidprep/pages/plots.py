"""Plots as pictures inside a page (SVG data URIs) or as PNG files, drawn by matplotlib.

A plot in an `img` element can neither run script nor fetch anything, whatever its labels hold.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import MissingDependencyError
from vidprep.pages.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

__all__ = ["Plot", "bars", "draw_pictures", "draw_points", "draw_steps", "figure_png", "plot"]

#: Colours of series: first, second.
SERIES = ("#3566a8", "#d9822b")
#: Colours of picture types.
PICTURES = {"K": "#c0392b", "I": "#e67e73", "P": "#3566a8", "B": "#8fb4dd", "?": "#9a9a9a"}
INK, FAINT = "#30363d", "#d5d9de"

#: No mathtext ($ in a label), no fonts of the reader's machine, the same bytes for the same data.
_STYLE = {
    "text.parse_math": False, "svg.fonttype": "path", "svg.hashsalt": "vidprep", "font.size": 9.0,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": INK, "text.color": INK,
    "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.titlesize": 10.0,
    "axes.titleweight": "bold", "axes.titlelocation": "left", "path.simplify": True,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture for a page."""

    title: str
    """what it shows, also for those who cannot see it"""
    svg: bytes

    @property
    def uri(self) -> str:
        """As the address of an `img`."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()


def bars(title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> Plot:
    """Horizontal bars, one line for each label, one colour for each series (two at most), counts at their ends."""
    thick = 0.8 / len(series)

    def draw(axes: Any) -> None:
        places = np.arange(len(labels))
        for number, (name, values) in enumerate(series.items()):
            at = places + (number - (len(series) - 1) / 2) * thick
            drawn = axes.barh(at, values, height=thick * 0.92, color=SERIES[number], label=_ascii(name))
            axes.bar_label(drawn, [f"{value:,.0f}" if value else "" for value in values], padding=3, fontsize=8)
        axes.set_yticks(places, [_ascii(label) for label in labels])
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.16)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.spines["bottom"].set_visible(False)
        axes.set_xticks([])
        if len(series) > 1:
            axes.legend(frameon=False, fontsize=8, ncols=len(series), loc="lower right", bbox_to_anchor=(1.0, 1.0))

    return plot(title, draw, size=(4.8, 0.15 + 0.22 * (len(series) - 1) + (0.12 + 0.13 * len(series)) * len(labels)))


def draw_steps(title: str, unit: str, x: npt.ArrayLike, y: npt.ArrayLike) -> Callable[[Any], None]:
    """Values over time in seconds, each of which holds until the next."""

    def draw(axes: Any) -> None:
        axes.fill_between(x, y, step="post", color=SERIES[0], alpha=0.25, linewidth=0)
        axes.plot(x, y, drawstyle="steps-post", color=SERIES[0], linewidth=1)
        _finish(axes, title, unit)
        axes.set_ylim(bottom=0)

    return draw


def draw_points(title: str, unit: str, x: npt.ArrayLike, y: npt.ArrayLike) -> Callable[[Any], None]:
    """Values over time in seconds, a point each."""

    def draw(axes: Any) -> None:
        axes.plot(x, y, ".", color=SERIES[0], markersize=2.5)
        _finish(axes, title, unit)
        if np.min(y) >= 0:
            axes.set_ylim(0, max(np.max(y) * 1.1, 1e-9))

    return draw


def draw_pictures(
    title: str, unit: str, x: npt.NDArray[Any], heights: npt.NDArray[Any], kinds: Sequence[str]
) -> Callable[[Any], None]:
    """One stroke for each picture, coloured by its type (a key of PICTURES)."""
    letters = np.asarray(kinds)
    width = max(min(320 / max(len(x), 1), 6.0), 0.6)

    def draw(axes: Any) -> None:
        for depth, (letter, colour) in enumerate(PICTURES.items()):
            mask = letters == letter
            if mask.any():
                told = {"label": _NAMES[letter], "zorder": 3 - depth / 10}  # key pictures in front
                axes.vlines(x[mask], 0, heights[mask], colors=colour, linewidth=width, **told)
        _finish(axes, title, unit)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=8, ncols=len(PICTURES), loc="upper right", bbox_to_anchor=(1.0, 1.16))

    return draw


_NAMES = {"K": "key", "I": "I", "P": "P", "B": "B", "?": "unknown"}


def _finish(axes: Any, title: str, unit: str) -> None:
    axes.set_title(title)
    axes.set_xlabel("seconds")
    axes.set_ylabel(unit)
    axes.margins(x=0.01)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)


def plot(title: str, draw: Callable[[Any], None], *, size: tuple[float, float] = (9.6, 2.4)) -> Plot:
    """One diagram, its title left to the page; size in inches."""

    def untitled(axes: Any) -> None:
        draw(axes)
        axes.set_title("")

    return Plot(title=title, svg=_saved([untitled], size, "svg"))


def figure_png(draws: Sequence[Callable[[Any], None]], *, size: tuple[float, float], heading: str = "") -> bytes:
    """Diagrams one below the other as a PNG; size in inches of 150 pixels."""
    return _saved(draws, size, "png", heading=heading)


def _saved(draws: Sequence[Callable[[Any], None]], size: tuple[float, float], form: str, heading: str = "") -> bytes:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "html") from error
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        if heading:
            figure.suptitle(heading_text(heading), x=0.01, ha="left", fontsize=9)
        for axes, draw in zip(figure.subplots(len(draws), squeeze=False)[:, 0], draws, strict=True):
            draw(axes)
        out = io.BytesIO()
        figure.savefig(out, format=form, dpi=150, metadata={"Date": None} if form == "svg" else {"Software": None})
    return out.getvalue()


def heading_text(heading: str) -> str:
    """The lines of a heading, each as `_ascii` has it."""
    return "\n".join(_ascii(line) for line in heading.split("\n"))


def _ascii(text: str) -> str:
    """Labels stay within glyphs that matplotlib's own font surely has."""
    return shown(text).replace("\u2265", ">=").encode("ascii", "backslashreplace").decode()
