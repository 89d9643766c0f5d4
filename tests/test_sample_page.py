"""`vidprep sample --html`: frames, times, padding, and a page that stays small."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from click.testing import CliRunner, Result

from vidprep.cli import main, sample_page
from vidprep.indexes import probe
from vidprep.samplers import parse_policy

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["sample", *(str(argument) for argument in arguments)])


def test_the_page_shows_frames_times_and_padding(cases: Path, tmp_path: Path) -> None:
    page = tmp_path / "clips.html"
    name = cases / "files" / "one_frame.mp4"
    result = run(name, "--policy", "first:frames=3,pad=constant", "--html", page)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert text.count('<div class="place padding">') == 2
    assert text.count('<div class="place">') == 1
    assert text.count("data:image/jpeg") == 3
    assert "<b>0</b> 0.000 s" in text
    assert str(name) in text


def test_a_video_that_vanished_is_a_clip_with_a_reason(cases: Path, tmp_path: Path) -> None:
    videos, index, page = tmp_path / "videos", tmp_path / "index", tmp_path / "clips.html"
    videos.mkdir()
    for name in ("a.mp4", "b.mp4"):
        shutil.copy(cases / "files" / "vfr_steps.mp4", videos / name)
    CliRunner().invoke(main, ["index", str(videos), "-o", str(index), "--workers", "1"])
    (videos / "a.mp4").unlink()
    assert run(index, "--policy", "first:frames=2", "--html", page).exit_code == 0
    text = page.read_text()
    assert text.count("<section") == 2
    assert text.count("data:image/jpeg") == 2
    assert "vanished: no longer there" in text


def test_pictures_and_clips_end_where_the_page_would_grow_too_large(
    cases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = probe(str(cases / "files" / "vfr_steps.mp4"))
    spec = parse_policy("first:frames=8").choose(video.timeline)
    monkeypatch.setattr(sample_page._Budget, "__init__", _small)
    page = sample_page.sample_page("first", "", ((i, video, spec) for i in range(900)))
    assert 40_000 < len(page) < 150_000
    assert "listed without pictures" in page
    assert "more are left out" in page


def _small(budget: sample_page._Budget) -> None:
    budget.pictures, budget.page, budget.left_out = 1, 100_000, 0


def test_numbers_alone_have_no_page(tmp_path: Path) -> None:
    result = run("--num-frames", "5", "--policy", "first", "--html", tmp_path / "x.html")
    assert result.exit_code == 2
    assert "--html" in result.stderr
