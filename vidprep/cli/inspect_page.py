"""`vidprep inspect --html` and `--png`: the facts of one video, its pictures, its bit rate and its frame times."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.cli.explain import joined
from vidprep.cli.pictures import LEGEND, PAGE_BINS, Pictures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["inspect_page", "inspect_png"]

#: Points of a curve of frame times.
POINTS = 2000


def inspect_page(facts: dict[str, Any], pictures: Pictures | None, sentences: Sequence[str]) -> str:
    """The page.

    Args:
        facts: as `inspect --json` prints them.
        pictures: None where the video cannot be read.
        sentences: as `explanations` gives them.
    """
    from vidprep.pages import render
    from vidprep.pages.plots import plot

    return render(
        "inspect.html",
        title=str(facts["path"]).rpartition("/")[2] or "video",
        path=facts["uri"] or facts["path"],
        error=facts["error"],
        facts=_told(facts),
        sentences=joined(sentences),
        plots=[] if pictures is None else [plot(title, draw) for title, draw in _diagrams(pictures)],
        runs=[] if pictures is None else [(_class(letter), "".join(run)) for letter, run in groupby(pictures.letters)],
        pictures=pictures,
        legend=LEGEND,
    )


def inspect_png(facts: dict[str, Any], pictures: Pictures) -> bytes:
    """The diagrams as one picture."""
    from vidprep.pages import shown
    from vidprep.pages.plots import figure_png

    heading = (
        f"{shown(str(facts['path']))}\n{facts['container']} {facts['codec']} {facts['width']}x{facts['height']}, "
        f"{facts['num_frames']} frames, {facts['duration_seconds']:.3f} s, {facts['avg_fps']:.4g} frames/s"
    )
    draws = [draw for _, draw in _diagrams(pictures)]
    return figure_png(draws, size=(10, 0.6 + 2.2 * len(draws)), heading=heading)


def _class(letter: str) -> str:
    return "u" if letter == "?" else letter.upper()


def _diagrams(pictures: Pictures) -> list[tuple[str, Callable[[Any], None]]]:
    from vidprep.pages.plots import draw_pictures, draw_points

    count = len(pictures.letters)
    some = "" if count == len(pictures.seconds) else f" of the first {count} frames"
    kinds = [letter.upper() for letter in pictures.letters]
    sizes = f"Sizes{some} by picture type"
    found = [
        (sizes, draw_pictures(sizes, "kB", pictures.seconds[:count], pictures.sizes[:count] / 1000, kinds)),
        ("Bit rate over time", _rate(pictures)),
    ]
    if len(pictures.steps_seconds):
        times, steps = _thinned(pictures.seconds[:-1], pictures.steps_seconds * 1000)
        title = "Time from each frame to the next"
        found.append((title, draw_points(title, "ms", times, steps)))
    return found


def _rate(pictures: Pictures) -> Callable[[Any], None]:
    from vidprep.pages.plots import draw_steps

    times, rate = pictures.bit_rate(PAGE_BINS)
    ends, held = np.append(times, pictures.end_seconds), np.append(rate, rate[-1])
    return draw_steps("Bit rate over time", "Mbit/s", ends, held / 1e6)


def _thinned(times: Any, values: Any) -> tuple[Any, Any]:
    """At most POINTS points: the extreme of each stretch, the one that is farther from the median."""
    if len(times) <= POINTS:
        return times, values
    far = np.abs(values - np.median(values))
    starts = np.linspace(0, len(values), POINTS + 1).astype(int)
    places = np.array([start + int(far[start:stop].argmax()) for start, stop in pairwise(starts)])
    return times[places], values[places]


def _told(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts that are known, as text."""
    left_out = {"path", "uri", "error", "warnings", "frames", "codec_config", "later_configs", "doubts"}
    pairs = [(name, value) for name, value in facts.items() if name not in left_out and name != "colour"]
    pairs += [(f"colour {name}", value) for name, value in facts["colour"].items()]
    return [(name.replace("_", " "), _text(value)) for name, value in pairs if value not in (None, "", [])]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
