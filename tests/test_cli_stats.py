"""`vidprep stats`: figures, their page, two indexes compared, at any size."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from made_index import write_made_index
from pyarrow import parquet

from vidprep.cli import main
from vidprep.cli.distributions import change
from vidprep.indexes.schema import SCHEMA_VERSION, VERSION_KEY, arrow_schema

if TYPE_CHECKING:
    from pathlib import Path

MAX_PAGE_BYTES = 5_000_000


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_made_index(tmp_path_factory.mktemp("made") / "index", 10_000)


def test_figures_are_those_of_the_columns(made: Path) -> None:
    facts = json.loads(run("stats", made, "--json").stdout)
    table = parquet.read_table(made)
    ok = table.filter(pa.compute.equal(table["status"], "ok"))
    column = {name: ok[name].to_numpy() for name in ("num_frames", "num_keyframes", "size_bytes", "duration_seconds")}
    assert (facts["videos"], facts["ok"], facts["failures"]) == (10_000, 9_800, {"truncated": 200})
    gop = column["num_frames"] / column["num_keyframes"]
    rate = 8 * column["size_bytes"] / column["duration_seconds"]
    for name, values in (("gop_frames", gop), ("bits_per_second", rate)):
        assert facts[name]["median"] == pytest.approx(np.median(values))
        assert sum(count for _, _, count in facts[name]["histogram"]) == 9_800
        low, high, count = facts[name]["histogram"][3]
        assert count == int(((values >= low) & (values < high)).sum())
    assert facts["hours"] == pytest.approx(column["duration_seconds"].sum() / 3600)


def test_the_terminal_shows_every_distribution(made: Path) -> None:
    text = run("stats", made).stdout
    for title in ("Resolution", "Codec", "Bit rate, Mbit/s", "GOP length", "Duration", "Frame rate class", "truncated"):
        assert title in text


def test_the_page_is_small_and_lists_the_first_failures(made: Path, tmp_path: Path) -> None:
    page = tmp_path / "stats.html"
    result = run("stats", made, "--html", page)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert len(text) < MAX_PAGE_BYTES / 4
    assert text.count("data:image/svg+xml") >= 10
    assert text.count("<tr data-row>") == 200
    assert "/data/000000049&lt;b&gt;&amp;.mp4" in text


def test_two_indexes_stand_side_by_side_with_their_differences(made: Path, tmp_path: Path) -> None:
    other = write_made_index(tmp_path / "other", 5_000, seed=2)
    text = run("stats", made, other).stdout
    line = next(line.split() for line in text.splitlines() if line.startswith("videos"))
    assert line == ["videos", "10,000", "5,000", "−5,000", "(−50.0", "%)"]
    page = tmp_path / "two.html"
    assert run("stats", made, other, "--html", page).exit_code == 0
    assert "−5,000 (−50.0 %)" in page.read_text()
    assert len(json.loads(run("stats", made, other, "--json").stdout)) == 2


@pytest.mark.parametrize(
    ("before", "after", "told"), [(5, 5, "0"), (0, 7, "+7"), (100, 150, "+50 (+50.0 %)"), (4, 3, "−1 (−25.0 %)")]
)
def test_changes_are_told_with_sign_and_share(before: float, after: float, told: str) -> None:
    assert change(before, after) == told


def test_an_index_of_nothing_but_failures_has_a_page(tmp_path: Path) -> None:
    index = write_made_index(tmp_path / "bad", 3, failed_every=1)
    assert run("stats", index, "--html", tmp_path / "bad.html").exit_code == 0
    assert (tmp_path / "bad.html").read_text().count("<tr data-row>") == 3


def test_names_of_any_bytes_are_shown_in_terminal_and_page(cases: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"<script>alert(1)</script>'\"\n\xe9.mp4")
    folder = tmp_path / "videos"
    (folder / "<script>alert(2)<").mkdir(parents=True)
    (folder / "<script>alert(2)<" / "script>.mp4").write_bytes(b"not a video")
    shutil.copy(cases / "files" / "zero_bytes.mp4", folder / name.replace("/", "∕"))
    index, page = tmp_path / "in<i>dex\n", tmp_path / "page.html"
    assert run("index", folder, "-o", index, "--workers", "1").exit_code == 0
    result = run("stats", index, index, "--html", page)
    assert result.exit_code == 0, result.output
    assert "in<i>dex\\n" in result.stdout
    text = page.read_text()
    assert text.count("<script>") == 1
    assert "&lt;script&gt;alert(1)&lt;∕script&gt;&#39;&#34;\\n\\xe9.mp4" in text


def test_a_broken_index_is_one_clear_line(made: Path, tmp_path: Path) -> None:
    newer, cut, empty = tmp_path / "newer", tmp_path / "cut", tmp_path / "empty"
    newer.mkdir()
    with parquet.ParquetWriter(newer / "part.parquet", arrow_schema()) as writer:
        writer.write_table(arrow_schema().empty_table())
        writer.add_key_value_metadata({VERSION_KEY: str(SCHEMA_VERSION + 1)})
    cut.mkdir()
    whole = next(made.glob("*.parquet")).read_bytes()
    (cut / "part.parquet").write_bytes(whole[: len(whole) // 2])
    empty.mkdir()
    for index, says in ((newer, "newer than"), (cut, "not a whole Parquet file"), (empty, "holds no *.parquet parts")):
        for command in (["stats", index], ["inspect", index, "--video", "0"], ["sample", index, "--policy", "first"]):
            result = run(*command)
            assert result.exit_code == 1, command
            assert says in result.stderr
            assert len(result.stderr.splitlines()) == 1
    assert run("stats", tmp_path / "nowhere").exit_code == 2


def test_a_damaged_part_is_named(made: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(made, damaged)
    part = next(damaged.glob("*.parquet"))
    data = bytearray(part.read_bytes())
    data[4096 : len(data) // 2] = bytes(len(data) // 2 - 4096)
    part.write_bytes(data)
    result = run("stats", damaged)
    assert result.exit_code == 1
    assert part.name in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.long
def test_the_page_of_a_million_videos_is_small(tmp_path: Path) -> None:
    index = write_made_index(tmp_path / "index", 1_000_000)
    page = tmp_path / "stats.html"
    assert run("stats", index, "--html", page).exit_code == 0
    assert page.stat().st_size < MAX_PAGE_BYTES
    assert page.read_text().count("<tr data-row>") == 500


def test_a_video_in_place_of_an_index_is_said_and_nothing_is_left_beside_it(cases: Path, tmp_path: Path) -> None:
    video = tmp_path / "video.mp4"
    video.write_bytes((cases / "files" / "one_frame.mp4").read_bytes())
    result = run("stats", video)
    assert result.exit_code == 1
    assert "no index" in result.stderr
    assert list(tmp_path.iterdir()) == [video]


def test_times_that_end_before_they_begin_count_for_no_hours_and_have_no_bit_rate(cases: Path, tmp_path: Path) -> None:
    from vidprep.indexes import build_index, open_index

    build_index(
        [cases / "files" / name for name in ("mkv_rel_time_wrap.mkv", "one_frame.mp4")], tmp_path / "i", workers=0
    )
    index = open_index(tmp_path / "i")
    assert index.column("duration_seconds").min() < 0
    facts = json.loads(run("stats", tmp_path / "i", "--json").stdout)
    assert facts["hours"] == pytest.approx(index.column("duration_seconds").max() / 3600)
    assert facts["bits_per_second"]["min"] > 0
