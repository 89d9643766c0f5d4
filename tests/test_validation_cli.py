"""`vidprep validate` as a user runs it: exit codes, reports, hostile names, killed runs and workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet
from validation_files import flat, scene, write

from vidprep.errors import LimitError, Reason
from vidprep.indexes.pool import Pool
from vidprep.indexes.worker import Options as Limits
from vidprep.validation.examine import Options
from vidprep.validation.report import as_json
from vidprep.validation.rules import Rules
from vidprep.validation.tasks import Task

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<script>alert(1)</script>&amp;\n.mp4"
NOT_UTF8 = b"caf\xe9.mp4"


def vidprep(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vidprep", "validate", *map(str, arguments), "--workers", "1"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy video, a black one, two with hostile names, and a file that is no video."""
    folder = tmp_path_factory.mktemp("cli") / "videos"
    folder.mkdir()
    healthy = write(folder / "healthy.mp4", show=scene(1))
    shutil.copyfile(healthy, os.fsencode(folder) + b"/" + NOT_UTF8)
    write(folder / "black.mp4", 30, flat(0))
    (folder / HOSTILE.replace("/", "_")).write_bytes(b"no video at all")
    return folder


class Tags(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_reports_hold_every_finding_and_hostile_names_as_text(videos: Path, tmp_path: Path) -> None:
    page_path, table_path = tmp_path / "report.html", tmp_path / "findings.parquet"
    done = vidprep(videos, "--level", "full", "--json", "--html", page_path, "--parquet", table_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["videos"] == 4
    assert report["summary"]["unreadable"] == 1
    found = report["findings"]
    assert {finding["check"] for finding in found} >= {"not_media", "black", "exact_duplicate"}
    assert all(set(finding) >= {"video", "severity", "frame", "offset", "message", "fix"} for finding in found)
    copy = next(finding for finding in found if finding["check"] == "exact_duplicate")
    # The one that comes later is told, and one of the two has the name that is not UTF-8.
    assert NOT_UTF8 in bytes.fromhex(copy.get("video_bytes", "")) or "caf\\xe9.mp4" in copy["message"]
    assert parquet.read_table(table_path).num_rows == len(found)
    assert not (tmp_path / "report.html.vidprep").exists()
    page = Tags(page_path.read_text("utf-8"))
    assert [tag for tag, _ in page.tags].count("script") == 1  # the page's own
    assert not [attributes for _, attributes in page.tags if "src" in attributes]
    assert "<script>alert(1)<_script>" in page.text
    assert "caf\\xe9.mp4" in page.text


def test_json_names_a_video_byte_for_byte() -> None:
    told = as_json({"video": "caf\\xe9.mp4", "video_bytes": NOT_UTF8})
    assert os.fsencode(told["video"]) == bytes.fromhex(told["video_bytes"]) == NOT_UTF8


def test_exit_codes_are_those_of_the_findings(videos: Path, tmp_path: Path) -> None:
    good = tmp_path / "good.mp4"
    shutil.copyfile(videos / "healthy.mp4", good)
    assert vidprep(good, "--strict").returncode == 0
    assert vidprep(videos).returncode == 0
    assert vidprep(videos, "--strict").returncode == 1
    assert vidprep(videos, "--fail-on", "warning").returncode == 1
    assert vidprep(good, "--fail-on", "info").returncode == 0


def test_wrong_usage_is_exit_two_and_says_what_is_wrong(videos: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('disable = ["no_such_check"]\n')
    for arguments, words in (
        ((tmp_path / "nothing",), "no such file"),
        ((videos, "--rules", rules), "no_such_check"),
        ((videos, "--policy", "nonsense:frames=3"), "nonsense"),
        ((videos, "--level", "deep"), "deep"),
    ):
        done = vidprep(*arguments)
        assert done.returncode == 2, done.stderr
        assert words in done.stderr


def test_an_index_that_cannot_be_read_is_exit_one_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "part-0.parquet").write_bytes(b"PAR1 and no more")
    done = vidprep(tmp_path / "index")
    assert done.returncode == 1
    assert "part-0.parquet" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_killed_run_leaves_its_state_and_the_next_one_goes_on(videos: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    aside = tmp_path / "report.html.vidprep"
    command = [sys.executable, "-m", "vidprep", "validate", str(videos), "--level", "full", "--html", str(page)]
    run = subprocess.Popen([*command, "--workers", "1"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    ends = time.monotonic() + 60
    while not (aside / "examined.jsonl").exists() and run.poll() is None and time.monotonic() < ends:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert aside.is_dir() or page.exists()
    done = vidprep(videos, "--level", "full", "--html", page)
    assert done.returncode == 0, done.stderr
    assert page.exists()
    assert not aside.exists()


def test_ctrl_c_says_how_to_go_on(videos: Path, tmp_path: Path) -> None:
    listing = tmp_path / "listing"
    os.mkfifo(listing)  # a listing that never ends: the run is in its first minute whenever the signal comes
    command = [sys.executable, "-m", "vidprep", "validate", f"@{listing}", "--html", str(tmp_path / "report.html")]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    with listing.open("w"):
        while not (tmp_path / "report.html.vidprep").exists() and run.poll() is None:
            time.sleep(0.01)
        time.sleep(0.2)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert "report.html.vidprep" in said
    assert "goes on from there" in said


def _task(index: Path, limits: Limits, known: dict | None = None) -> Task:
    options = Options(level="full")
    return Task(0, str(index), [0], options, Rules(), "cpu", limits, known or {})


def test_a_video_that_takes_too_long_or_killed_its_worker_is_a_finding(videos: Path, tmp_path: Path) -> None:
    from vidprep.indexes import build_index

    build_index([videos / "healthy.mp4"], tmp_path / "index", workers=0)
    died = {0: LimitError("it died", reason=Reason.WORKER_DIED)}
    with Pool(1, "vidprep.cli.decode_worker") as pool:
        tasks = [_task(tmp_path / "index", Limits(timeout_seconds=0.001)), _task(tmp_path / "index", Limits(), died)]
        outcomes = [outcome for _, outcome in pool.map(tasks)]
    checks = [[finding.check for finding in outcome.examined[0].findings] for outcome in outcomes]
    assert checks == [["timeout"], ["worker_died"]]


def test_a_policy_and_rules_show_in_the_terminal_and_the_page(videos: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[require]\nmin_height = 1080\n")
    page = tmp_path / "report.html"
    done = vidprep(videos, "--rules", rules, "--policy", "first:frames=25,pad=drop", "--html", page)
    assert done.returncode == 0, done.stderr
    assert "requirement" in done.stdout
    assert "too_short" in done.stdout
    assert "pictures decoded for a useful frame" in done.stdout
    text = Tags(page.read_text("utf-8")).text
    assert "frames=25" in text
    assert "min_height = 1080 is required" in text
