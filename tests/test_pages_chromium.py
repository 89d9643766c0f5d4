"""The pages in a real browser: Debian's chromium and chromium-driver, headless.

Skipped, with the reason, where they are not installed; VIDPREP_REQUIRE_CHROMIUM=1 makes that a failure.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from made_index import write_made_index

from vidprep.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1240,1600",
)  # fmt: skip
#: Names under which a video is stored, each of which would show if it were taken for markup or lost bytes.
MARKUP = "<script>document.title='run'</script>".replace("/", "∕")
IMAGE = "<img src=x onerror=document.title='run'>"
HOSTILE = (MARKUP, IMAGE, "quotes \"'`&amp;", "two\nlines", os.fsdecode(b"latin-\xe9"), "bidi-\u202egnp")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not (CHROMIUM.exists() and DRIVER.exists()):
        assert os.environ.get("VIDPREP_REQUIRE_CHROMIUM") != "1", "chromium is required"
        pytest.skip("no /usr/bin/chromium and chromedriver: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def hostile(cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of good and bad videos under hostile names."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "videos").mkdir()
    for name in HOSTILE:
        shutil.copy(cases / "files" / "vfr_steps.mp4", folder / "videos" / f"{name}.mp4")
        shutil.copy(cases / "files" / "moov_missing.mp4", folder / "videos" / f"{name}-bad.mp4")
    run("index", folder / "videos", "-o", folder / "index", "--workers", "1")
    return folder / "index"


def run(*arguments: str | Path) -> None:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output


def open_page(browser: Any, page: Path) -> str:
    """Open it; it must ask for nothing, break no rule of its own policy, and run no script but its own."""
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(page.as_uri())
    title = browser.title
    asked = {
        entry["params"]["request"]["url"]
        for line in browser.get_log("performance")
        if (entry := json.loads(line["message"])["message"])["method"] == "Network.requestWillBeSent"
        and entry["params"]["documentURL"] == page.as_uri()  # the browser's own start page may still be loading
    }
    assert {url for url in asked if not url.startswith("data:")} == {page.as_uri()}
    assert browser.get_log("browser") == []
    assert title != "run"
    assert len(browser.find_elements("tag name", "script")) == 1
    return str(title)


def texts(browser: Any, selector: str) -> list[str]:
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
    )
    return found


def images(browser: Any) -> list[int]:
    """Width of each picture as decoded; 0 where it could not be."""
    widths: list[int] = browser.execute_script("return [...document.images].map(i => i.complete ? i.naturalWidth : 0)")
    return widths


def visible_rows(browser: Any, query: str) -> int:
    box = browser.find_element("css selector", "input[data-filters]")
    box.clear()
    box.send_keys(query)
    return sum(row.is_displayed() for row in browser.find_elements("css selector", "[data-row]"))


def visible_groups(browser: Any) -> int:
    return sum(group.is_displayed() for group in browser.find_elements("css selector", "[data-group]"))


def shot(browser: Any, tmp_path: Path, name: str) -> None:
    """A screenshot, kept in VIDPREP_SCREENSHOTS for those who want to look."""
    browser.execute_script("scrollTo(0, 0)")
    folder = Path(os.environ.get("VIDPREP_SCREENSHOTS", tmp_path))
    assert browser.save_screenshot(str(folder / f"{name}.png"))


def test_the_page_of_an_index_shows_plots_and_finds_failures(browser: Any, tmp_path: Path) -> None:
    index = write_made_index(tmp_path / "index", 10_000)
    run("stats", index, "--html", tmp_path / "stats.html")
    assert open_page(browser, tmp_path / "stats.html") == "Dataset statistics"
    assert texts(browser, "#totals .card b")[:3] == ["10,000", "9,800", "200"]
    assert len(images(browser)) >= 10
    assert min(images(browser)) > 100
    assert visible_rows(browser, "") == 200
    assert visible_rows(browser, "000000049") == 1
    assert visible_rows(browser, "truncated 0000000") == 2
    assert visible_rows(browser, "nothing like it") == 0
    assert texts(browser, ".search output") == ["0 of 200"]
    shot(browser, tmp_path, "stats")


def test_two_indexes_are_compared_in_one_page(browser: Any, tmp_path: Path) -> None:
    indexes = [write_made_index(tmp_path / f"index-{n}", n, seed=n) for n in (3000, 2000)]
    run("stats", *indexes, "--html", tmp_path / "two.html")
    open_page(browser, tmp_path / "two.html")
    assert texts(browser, "#totals tbody tr:first-child td") == ["videos", "3,000", "2,000", "−1,000 (−33.3 %)"]
    assert min(images(browser)) > 100
    shot(browser, tmp_path, "stats-two")


def test_hostile_names_are_text_in_the_statistics(browser: Any, hostile: Path, tmp_path: Path) -> None:
    run("stats", hostile, "--html", tmp_path / "stats.html")
    open_page(browser, tmp_path / "stats.html")
    names = {name.rpartition("/")[2] for name in texts(browser, "td.name")}
    assert names == {
        f"{told}-bad.mp4"
        for told in (MARKUP, IMAGE, "quotes \"'`&amp;", "two\\nlines", "latin-\\xe9", "bidi-\\u202egnp")
    }
    assert visible_rows(browser, "<img onerror") == 1
    shot(browser, tmp_path, "stats-hostile")


def test_clips_of_hostile_names_are_shown_and_found(browser: Any, hostile: Path, tmp_path: Path) -> None:
    run("sample", hostile, "--policy", "first:frames=40,pad=edge", "--html", tmp_path / "clips.html")
    assert open_page(browser, tmp_path / "clips.html").startswith("Clips of first:")
    assert len(texts(browser, ".clip")) == len(HOSTILE)
    assert len(images(browser)) == 40 * len(HOSTILE)
    assert min(images(browser)) > 50
    assert len(texts(browser, ".place.padding")) == 5 * len(HOSTILE)
    assert visible_rows(browser, "latin-\\xe9") == 1
    assert visible_rows(browser, "<script>") == 1
    assert visible_rows(browser, "padding") == len(HOSTILE)
    shot(browser, tmp_path, "sample")


@pytest.mark.parametrize("number", range(len(HOSTILE) * 2))
def test_one_video_of_a_hostile_name_has_its_page(browser: Any, hostile: Path, tmp_path: Path, number: int) -> None:
    run("inspect", hostile, "--video", str(number), "--explain", "--html", tmp_path / "video.html")
    title = open_page(browser, tmp_path / "video.html")
    assert title.endswith(".mp4")
    is_bad = title.endswith("-bad.mp4")
    assert len(texts(browser, "#error")) == is_bad
    assert len(images(browser)) == (0 if is_bad else 3)
    assert [len(text) for text in texts(browser, "#strip")] == ([] if is_bad else [35])
    assert texts(browser, "#why li")
    shot(browser, tmp_path, f"inspect-{number}")


def test_the_report_of_a_validation_shows_hostile_names_as_text(browser: Any, hostile: Path, tmp_path: Path) -> None:
    run("validate", hostile, "--level", "header", "--policy", "first:frames=40,pad=drop", "--html", tmp_path / "v.html")
    open_page(browser, tmp_path / "v.html")
    names = {name.rpartition("/")[2] for name in texts(browser, "#findings td.name")}
    assert f"{IMAGE}-bad.mp4" in names
    assert f"{MARKUP}-bad.mp4" in names
    assert visible_rows(browser, "latin-\\xe9-bad") >= 1
    assert visible_rows(browser, "nothing like it") == 0
    assert visible_groups(browser) == 0
    assert visible_rows(browser, "truncated error") == len(HOSTILE)
    assert visible_groups(browser) == 1
    assert visible_rows(browser, "") > 2 * len(HOSTILE)
    shot(browser, tmp_path, "validation")
