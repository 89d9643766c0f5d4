"""Pages and plots: what is hostile is shown, not run, and nothing is fetched."""

from __future__ import annotations

import base64
import builtins
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.errors import MissingDependencyError
from vidprep.pages import render, shown, write_page
from vidprep.pages.plots import bars, draw_pictures, draw_points, draw_steps, figure_png, plot
from vidprep.pages.render import amount, data_bytes

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}\n\x1b[31m\u202e\udce9$x^2$.mp4"
FAILURE = {"error_class": "X", "error_reason": "empty", "error_message": HOSTILE, "error_offset": 7}


class Elements(HTMLParser):
    """Counts elements and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(page: str) -> Elements:
    elements = Elements()
    elements.feed(page)
    return elements


def stats_page(name: str) -> str:
    return render(
        "stats.html", title=name, names=[("A", name)], totals=[], distributions=[], plots=[], change=None,
        failures=[("A", [FAILURE | {"uri": name}], 1)],
    )  # fmt: skip


def test_names_are_shown_whole_and_never_become_markup() -> None:
    elements = parsed(stats_page(HOSTILE))
    assert elements.tags.count("script") == 1
    assert shown(HOSTILE) in elements.text
    assert shown(HOSTILE) == "<script>alert(1)</script>\"'&{{7*7}}\\n\\x1b[31m\\u202e\\xe9$x^2$.mp4"


@given(st.text(st.characters(exclude_categories=[])))
def test_shown_text_can_be_written_and_commands_no_terminal(text: str) -> None:
    told = shown(text)
    told.encode()
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", told)
    assert shown(told) == told


def test_plain_names_stay_as_they_are() -> None:
    for name in ("/data/a b.mp4", "ä/日本語.mkv", "emoji 🎬.webm", "a\\nb"):
        assert shown(name) == name


def test_a_page_refers_to_nothing_outside_and_lets_no_other_script_run() -> None:
    elements = parsed(stats_page("x"))
    policy = next(value for name, value in elements.attributes if name == "content" and value and "default" in value)
    assert policy.startswith("default-src 'none'")
    assert "unsafe-inline" not in policy.split("script-src")[1]
    links = [value for name, value in elements.attributes if name in ("src", "href")]
    assert all(value and value.startswith("data:") for value in links)


def test_a_value_that_a_template_lacks_is_an_error() -> None:
    import jinja2

    with pytest.raises(jinja2.UndefinedError):
        render("stats.html", title="x")


def test_numbers_for_people() -> None:
    assert [amount(value) for value in (0, 12.0, 1234567, 12.345, 0.00123, None)] == [
        "0", "12", "1,234,567", "12.35", "0.00123", "",
    ]  # fmt: skip
    assert [data_bytes(value) for value in (0, 999, 1500, 2.5e9, 3e15, 4e19)] == [
        "0 B", "999 B", "1.50 kB", "2.50 GB", "3.00 PB", "40,000.00 PB",
    ]  # fmt: skip


def test_a_page_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    write_page(tmp_path / "a.html", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
    nowhere = tmp_path / "nowhere"
    nowhere.touch()  # a file where a folder should be
    with pytest.raises(OSError, match="nowhere"):
        write_page(nowhere / "a.html", "x")
    nowhere.unlink()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_page(tmp_path / "folder", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "folder"]


def test_plots_are_svg_with_a_bar_for_each_count() -> None:
    labels = ("h264", HOSTILE, "≥ 3")
    drawn = bars("Codec", labels, {"A": (3, 0, 1), "B": (1, 2, 0)})
    assert drawn.uri.startswith("data:image/svg+xml;base64,")
    assert base64.b64decode(drawn.uri.partition(",")[2]) == drawn.svg
    root = ET.fromstring(drawn.svg)
    colours = [path.get("style", "") for path in root.iter("{http://www.w3.org/2000/svg}path")]
    assert sum("#3566a8" in style for style in colours) >= 3
    assert sum("#d9822b" in style for style in colours) >= 3
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_the_same_data_gives_the_same_plot() -> None:
    first, second = (bars("Codec", ("a", "b"), {"A": (1, 2)}) for _ in range(2))
    assert first == second


def test_curves_and_pictures_are_drawn_also_of_one_value(tmp_path: Path) -> None:
    for count in (1, 2, 700):
        x, y = np.arange(count) / 25, np.full(count, 3.0)
        draws = [
            draw_pictures("Sizes", "kB", x, y, ["KPB?I"[i % 5] for i in range(count)]),
            draw_steps("Rate", "Mbit/s", x, y), draw_points("Step", "ms", x, -y),
        ]  # fmt: skip
        assert all(ET.fromstring(plot("x", draw).svg).tag.endswith("svg") for draw in draws)
        assert figure_png(draws, size=(6, 6), heading=HOSTILE).startswith(b"\x89PNG")


def test_without_matplotlib_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=re.escape("pip install 'vidprep[html]'")):
        bars("x", ("a",), {"A": (1,)})


def test_a_heading_keeps_its_lines_and_writes_out_what_a_name_hides() -> None:
    from vidprep.pages.plots import heading_text

    assert heading_text(f"{shown(chr(10) + 'é.mp4')}\nmp4 h264") == "\\n\\xe9.mp4\nmp4 h264"
