"""The commands index, inspect, stats, merge and compact, as a shell sees them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from vidprep.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def _run(*words: object, **kwargs: Any) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], prog_name="vidprep", **kwargs)


@pytest.fixture
def videos(tmp_path: Path, cases: Path) -> Path:
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in ("fd_leak", "vfr_steps", "zero_bytes"):
        shutil.copy(cases / "files" / f"{name}.mp4", folder)
    return folder


def test_index_ends_with_one_json_line_and_exit_0_however_bad_the_videos(videos: Path, tmp_path: Path) -> None:
    result = _run("index", videos, "-o", tmp_path / "index", "--json", "--workers", 1)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout.splitlines()[-1])
    assert {"videos", "ok", "failed", "skipped", "updated", "seconds"} <= set(facts)
    assert (facts["videos"], facts["ok"], facts["failed"], facts["skipped"]) == (3, 2, 1, 0)
    again = json.loads(_run("index", videos, "-o", tmp_path / "index", "--json").stdout.splitlines()[-1])
    assert (again["videos"], again["ok"], again["failed"], again["skipped"]) == (3, 0, 0, 3)


def test_strict_exits_1_for_bad_videos_also_when_they_were_read_before(videos: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert _run("index", videos, "-o", tmp_path / "index", "--strict", "--workers", 1).exit_code == 1
    (videos / "zero_bytes.mp4").unlink()
    assert _run("index", videos, "-o", tmp_path / "clean", "--strict", "--workers", 1).exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["index", "nowhere", "-o", "index"],
        ["index", "@nowhere.txt", "-o", "index"],
        ["index", ".", "-o", "index", "--shard", "2/2"],
        ["index", ".", "-o", "index", "--workers", "0"],
        ["index", ".", "-o", "index", "--timeout", "-1"],
        ["index", ".", "-o", "index", "--memory", "0"],
        ["index", "."],
        ["inspect", "nowhere.mp4"],
        ["inspect", "nowhere", "--video", "3"],
        ["inspect", "."],
        ["stats", "nowhere"],
        ["merge", "nowhere", "-o", "index"],
        ["compact", "nowhere", "-o", "index"],
    ],
    ids=" ".join,
)
def test_wrong_usage_and_missing_paths_exit_2_with_a_clear_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = _run(*words)
    assert result.exit_code in ((1, 2) if words == ["inspect", "."] else (2,)), result.output
    assert "Error: " in result.stderr
    assert "Traceback" not in result.output


def test_an_empty_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = _run("index", tmp_path / "empty", "-o", tmp_path / "index")
    assert result.exit_code == 0
    assert result.stderr == f"no videos found in {tmp_path / 'empty'}\n"


def test_an_index_folder_with_other_things_is_one_clear_line(videos: Path) -> None:
    result = _run("index", videos, "-o", videos)
    assert result.exit_code == 1
    assert "holds *.parquet only" in result.stderr


def test_inspect_prints_the_promised_fields(cases: Path) -> None:
    result = _run("inspect", cases / "files" / "vfr_steps.mp4", "--json", "--frames")
    facts = json.loads(result.stdout)
    expected = json.loads((cases / "expected" / "vfr_steps.json").read_text())
    promised = (
        "path status error warnings container codec width height display_width display_height rotation pix_fmt colour "
        "time_base num_frames header_num_frames duration_seconds avg_fps is_vfr vfr_class method nvdec frames"
    )
    assert set(promised.split()) <= set(facts)
    assert (facts["status"], facts["error"], facts["warnings"]) == ("ok", None, [])
    assert set(facts["colour"]) == {"matrix", "range", "primaries", "transfer"}
    assert facts["time_base"] == expected["time_base"]
    assert facts["frames"]["pts"] == expected["pts_ticks"]
    assert facts["frames"]["keyframes"] == expected["key_indices"]
    assert facts["is_vfr"] is True


@pytest.mark.parametrize("name", ["zero_bytes.mp4", "box_size_bomb.mp4", "moov_missing.mp4", "shard_cases.json"])
def test_inspect_describes_a_bad_file_and_exits_0(cases: Path, name: str) -> None:
    result = _run("inspect", cases / "files" / name, "--json", "--frames")
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts["status"] == "error"
    assert set(facts["error"]) == {"class", "reason", "message", "offset"}
    assert facts["error"]["reason"]
    assert _run("inspect", cases / "files" / name, "--explain").exit_code == 0


def test_inspect_of_an_index_row_equals_that_of_its_file(videos: Path, tmp_path: Path) -> None:
    _run("index", videos, "-o", tmp_path / "index", "--workers", 1)
    by_row = json.loads(_run("inspect", tmp_path / "index", "--video", 1, "--json").stdout)
    by_file = json.loads(_run("inspect", videos / "vfr_steps.mp4", "--json").stdout)
    assert by_row == by_file
    assert _run("inspect", tmp_path / "index", "--video", 3).exit_code == 2


def test_inspect_explains(cases: Path) -> None:
    output = _run("inspect", cases / "files" / "vfr_steps.mp4", "--explain").stdout
    assert "- frame times vary" in output


def test_inspect_prints_names_of_any_bytes(tmp_path: Path, cases: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/latin-\xe9.mp4")
    shutil.copy(cases / "files" / "one_frame.mp4", path)
    result = _run("inspect", path, "--json")
    facts = json.loads(result.stdout)
    assert facts["path"] == facts["uri"] == path
    decoded = _run("decode", path, "--frames", "0", "-o", tmp_path / "out.npy", "--json")
    sampled = _run("sample", path, "--policy", "first", "--json")
    assert json.loads(decoded.stdout)["path"] == json.loads(sampled.stdout)[0]["video"] == path
    assert "latin-\\xe9.mp4" in _run("inspect", path).stdout


def test_inspect_names_a_row_as_its_file_was_named(
    tmp_path: Path, cases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.fsdecode(b"vid\xe9os")
    (tmp_path / folder).mkdir()
    shutil.copy(cases / "files" / "one_frame.mp4", tmp_path / folder / os.fsdecode(b"a\xe9.mp4"))
    monkeypatch.chdir(tmp_path)
    _run("index", folder, "-o", "index", "--workers", 1)
    facts = json.loads(_run("inspect", "index", "--video", 0, "--json").stdout)
    assert os.fsencode(facts["path"]) == b"vid\xe9os/a\xe9.mp4"
    assert os.fsencode(facts["uri"]) == os.fsencode(tmp_path) + b"/vid\xe9os/a\xe9.mp4"


def test_ctrl_c_says_what_is_safe_and_the_same_command_goes_on(tmp_path: Path) -> None:
    index = tmp_path / "index"
    command = [sys.executable, "-m", "vidprep", "index", "-", "-o", str(index), "--workers", "1", "--json"]
    pipe = subprocess.PIPE
    run = subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, text=True)
    assert run.stdin is not None
    names = "".join(f"{tmp_path}/{number:0150}.mp4\n" for number in range(8000))
    run.stdin.write(names)  # more than is read at a time
    run.stdin.flush()  # it stays open: the listing has not ended
    ends = time.monotonic() + 60
    while not list(index.glob("*.parquet")) and time.monotonic() < ends:
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    rows = sum(pyarrow.parquet.read_metadata(part).num_rows for part in index.glob("*.parquet"))
    assert 0 < rows < 8000
    assert f"{rows} rows are safe in {index}" in said
    again = subprocess.run(command, input=names, capture_output=True, text=True, check=True, timeout=60)
    facts = json.loads(again.stdout)
    assert (facts["skipped"], facts["failed"]) == (rows, 8000 - rows)


@pytest.mark.parametrize("command", ["index", "merge", "compact", "decode", "export"])
def test_every_command_that_writes_takes_output_and_the_older_out(command: str) -> None:
    said = _run(command, "--help").stdout
    assert "-o, --output" in said
    assert "--out " not in said
    assert "requires an argument" in _run(command, "--out").stderr


def test_stats_counts_as_text_and_as_json(videos: Path, tmp_path: Path) -> None:
    _run("index", videos, "-o", tmp_path / "index", "--workers", 1)
    facts = json.loads(_run("stats", tmp_path / "index", "--json").stdout)
    assert (facts["videos"], facts["ok"], facts["failures"]) == (3, 2, {"empty": 1})
    text = _run("stats", tmp_path / "index").stdout
    for word in ("videos", "hours", "160x144", "h264", "vfr", "empty"):
        assert word in text
    assert len(json.loads(_run("stats", tmp_path / "index", tmp_path / "index", "--json").stdout)) == 2
    assert _run("stats", tmp_path / "index", tmp_path / "index").exit_code == 0


def test_merge_and_compact_write_new_indexes(videos: Path, tmp_path: Path) -> None:
    for number in range(2):
        _run("index", videos, "-o", tmp_path / str(number), "--workers", 1, "--shard", f"{number}/2")
    assert "3 videos" in _run("merge", tmp_path / "0", tmp_path / "1", "-o", tmp_path / "both").stdout
    assert "3 videos" in _run("compact", tmp_path / "both", "-o", tmp_path / "small").stdout
    result = _run("merge", tmp_path / "0", "-o", tmp_path / "both")
    assert result.exit_code == 1
    assert "holds an index already" in result.stderr


def test_a_list_on_stdin_is_read(videos: Path, tmp_path: Path) -> None:
    listing = f"{videos}/fd_leak.mp4\n{videos}/nothing.mp4\n"
    result = _run("index", "-", "-o", tmp_path / "index", "--json", "--workers", 1, input=listing)
    facts = json.loads(result.stdout.splitlines()[-1])
    assert (facts["ok"], facts["reasons"]) == (1, {"not_found": 1})


def test_a_list_without_that_column_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("a,b\n1,2\n")
    for arguments in ((), ("--column", "c")):
        result = _run("index", f"@{tmp_path}/list.csv", "-o", tmp_path / "index", *arguments)
        assert result.exit_code == 2
        assert "no column" in result.output
        assert "--column" in result.output
    assert _run("index", f"@{tmp_path}/nothing.csv", "-o", tmp_path / "index").exit_code == 2
    assert not (tmp_path / "index").exists()


def test_the_older_name_of_output_still_works(videos: Path, tmp_path: Path) -> None:
    assert _run("index", videos, "--out", tmp_path / "index", "--workers", 1).exit_code == 0
    assert _run("merge", tmp_path / "index", "--out", tmp_path / "both").exit_code == 0
    assert _run("index", videos, "--out").exit_code == 2
