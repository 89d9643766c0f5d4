"""Decoding many videos at once in the threads of one process, as on a GPU: by the cpu engine, which any machine has."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from validation_files import make_files, scene, write

from vidprep.cli.decode_worker import Thumbnailer, piece_ends
from vidprep.cli.memory_budget import MemoryBudget
from vidprep.cli.validate import _run
from vidprep.indexes import build_index, open_index
from vidprep.indexes.worker import Options as Limits
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.validation.examine import Options
from vidprep.validation.findings import read_findings
from vidprep.validation.run import Settings

if TYPE_CHECKING:
    from vidprep.validation.run import Report

ROOT = Path(__file__).parent.parent
THREADS = 8


def run(index: Path, aside: Path, threads: int, level: str = "sampled", seconds: float = 60) -> Report:
    limits = Limits(timeout_seconds=seconds, memory_bytes=1 << 34)
    settings = Settings(options=Options(level=level), limits=limits, fresh=True, videos_at_once=threads)
    return _run(index, aside, settings, 1)


def findings(report: Report) -> list[str]:
    return sorted(json.dumps(finding, sort_keys=True, default=str) for finding in read_findings(report.findings))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cases: Path) -> Path:
    folder = tmp_path_factory.mktemp("threads")
    make_files(folder / "files", cases)
    build_index([folder / "files"], folder / "index", workers=0)
    return folder


@pytest.mark.parametrize("level", ["keyframes", "sampled", "full"])
def test_threads_find_what_one_after_the_other_finds(made: Path, tmp_path: Path, level: str) -> None:
    alone = run(made / "index", tmp_path / "alone", 1, level)
    together = run(made / "index", tmp_path / "together", THREADS, level)
    assert findings(together) == findings(alone)
    assert together.summary["frames_decoded"] == alone.summary["frames_decoded"] > 0
    lines = {
        line["row"]: line for line in map(json.loads, (tmp_path / "alone/examined.jsonl").read_text().split("\n")[1:-1])
    }
    for line in map(json.loads, (tmp_path / "together/examined.jsonl").read_text().split("\n")[1:-1]):
        assert line == lines.pop(line["row"])
    assert not lines


def hostile(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """Workers run `body` when they decode a file whose name holds "bad"."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(
        "import os, signal, sys, threading, time\n"
        "import vidprep.loaders.cut as cut\n"
        "first = cut.read_cut\n"
        "def read_cut(video, *rest, **more):\n"
        f"    if 'bad' in video.uri:\n        {body}\n"
        "    return first(video, *rest, **more)\n"
        "cut.read_cut = read_cut\n"
    )
    monkeypatch.setattr(sys, "path", [str(folder / "site"), str(ROOT), *sys.path])


@pytest.fixture
def some_bad(tmp_path: Path) -> Path:
    """An index of twelve healthy videos and two that are bad."""
    files = tmp_path / "files"
    files.mkdir()
    healthy = write(files / "00.mp4", show=scene(1))
    for name in [f"{number:02}" for number in range(1, 12)] + ["03_bad", "09_bad"]:
        shutil.copyfile(healthy, files / f"{name}.mp4")
    build_index([files], tmp_path / "index", workers=0)
    return tmp_path / "index"


def checks_by_video(report: Report) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in read_findings(report.findings):
        if "duplicate" not in finding["check"]:
            found.setdefault(Path(finding["video"]).name, []).append(finding["check"])
    return found


IN_THREADS = "threading.current_thread() is not threading.main_thread()"


@pytest.mark.parametrize(
    ("body", "check", "seconds"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "worker_died", 60),
        ("os.kill(os.getpid(), signal.SIGKILL)", "worker_died", 60),
        ("os._exit(3)", "worker_died", 60),
        ("time.sleep(99)", "timeout", 2),
        ("raise RuntimeError('a bug')", "undecodable_frames", 60),
        ("raise MemoryError", "out_of_memory", 60),
        (f"{IN_THREADS} and os._exit(3)", None, 60),
    ],
    ids=["segfault", "killed", "exit", "hang", "bug", "memory", "only together"],
)
def test_a_video_that_harms_its_worker_costs_itself_alone(
    some_bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, check: str | None, seconds: float
) -> None:
    monkeypatch.setattr("vidprep.indexes.pool._GRACE_SECONDS", 0.5)
    hostile(monkeypatch, tmp_path, body)
    report = run(some_bad, tmp_path / "aside", THREADS, seconds=seconds)
    assert checks_by_video(report) == ({f"{name}_bad.mp4": [check] for name in ("03", "09")} if check else {})
    assert len((tmp_path / "aside/examined.jsonl").read_text().splitlines()) == 1 + 14


def test_a_video_that_goes_on_for_too_long_is_ended_without_its_worker(
    some_bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its own thread looks at the time: the process that was started for it writes its id once."""
    pids = tmp_path / "pids"
    hostile(monkeypatch, tmp_path, f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} '); time.sleep(2)")
    report = run(some_bad, tmp_path / "aside", THREADS, seconds=1.5)
    assert checks_by_video(report) == {f"{name}_bad.mp4": ["timeout"] for name in ("03", "09")}
    assert len(set(pids.read_text().split())) == 1


def test_a_run_in_threads_goes_on_where_it_was_ended(
    some_bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(some_bad, tmp_path / "whole", THREADS)
    shutil.copytree(tmp_path / "whole", tmp_path / "aside")
    lines = (tmp_path / "aside/examined.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "aside/examined.jsonl").write_bytes(b"".join(lines[:8]) + lines[8][:20])
    done = {json.loads(line)["row"] for line in lines[1:8]}
    rows = open_index(some_bad)
    read = tmp_path / "read"
    hostile(monkeypatch, tmp_path, "pass")
    site = tmp_path / "site/sitecustomize.py"
    site.write_text(
        site.read_text().replace("    if 'bad'", f"    open({str(read)!r}, 'a').write(video.uri + '\\n')\n    if 'bad'")
    )
    again = run(some_bad, tmp_path / "aside", THREADS)
    assert findings(again) == findings(whole)
    assert set(read.read_text().split()) == {rows[row].uri for row in range(len(rows)) if row not in done}


class ManyAtATime:
    """The cpu engine as engines on a GPU are: it gives all pictures of a cut."""

    def __init__(self, engine: CpuEngine) -> None:
        self._engine = engine
        self.sizes: list[int] = []

    def decode(self, cut: Any) -> Any:
        self.sizes.append(len(cut.frames))
        return self._engine.decode(cut)


def test_pictures_that_come_many_at_a_time_are_those_that_come_one_by_one(tmp_path: Path) -> None:
    write(tmp_path / "a.mp4", 90, scene(1), gop=12)
    write(tmp_path / "b.mp4", 90, scene(2), gop=90)
    build_index([tmp_path], tmp_path / "index", workers=0)
    many = Thumbnailer("cpu", memory_bytes=1 << 20)
    many._engine, many._one_by_one = ManyAtATime(CpuEngine()), False
    for row in open_index(tmp_path / "index"):
        frames = np.arange(90)
        expected = list(Thumbnailer("cpu")(row, frames, False))
        given_now = list(many(row, frames, False))
        assert [frame for frame, _ in given_now] == [frame for frame, _ in expected] == frames.tolist()
        assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(given_now, expected, strict=True))
    # 1 MiB holds 18 pictures of 128 x 96 at 4.5 bytes; groups of 12 are whole, one of 90 is cut.
    assert many._engine.sizes == [12] * 6 + [12 + 6] + [18] * 5


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(1, 40), st.integers(0, 40))
def test_pieces_hold_whole_groups_unless_one_is_too_long(lengths: list[int], together: int, more: int) -> None:
    most = together + more
    group_ends = np.cumsum(lengths).tolist()
    ends = piece_ends(group_ends, together, most)
    sizes = np.diff([0, *ends])
    assert ends[-1] == group_ends[-1]
    assert sizes.min() > 0
    assert sizes.max() <= most
    within = {0, *group_ends}
    for begin, end in zip([0, *ends], ends, strict=False):
        if end not in within:  # a group was cut: it is longer than a piece may be, and began one
            group = next(place for place, last in enumerate(group_ends) if last > end)
            assert lengths[group] > most
            assert (begin - (group_ends[group] - lengths[group])) % most == 0


def test_a_budget_is_never_overdrawn_and_more_than_all_of_it_is_all_of_it() -> None:
    budget, most = MemoryBudget(10), [0, 0]
    lock = threading.Lock()

    def use(num_bytes: int) -> None:
        with budget.taken(num_bytes):
            with lock:
                most[0] += min(num_bytes, 10)
                most[1] = max(most)
            time.sleep(0.002)
            with lock:
                most[0] -= min(num_bytes, 10)

    threads = [threading.Thread(target=use, args=(size,)) for size in [3, 4, 5, 10, 25, 1] * 5]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 0
    assert 3 <= most[1] <= 10


@pytest.mark.gpu
def test_thumbnails_made_on_a_gpu_are_those_of_its_pictures(cases: Path, tmp_path: Path) -> None:
    build_index([cases / "files" / "clip_window.mp4"], tmp_path / "index", workers=0)
    video = open_index(tmp_path / "index")[0]
    frames = np.arange(video.table.num_frames)
    on_cpu, on_gpu = ([luma for _, luma in Thumbnailer(name)(video, frames, False)] for name in ("cpu", "nvdec"))
    assert np.abs(np.array(on_gpu, np.int64) - np.array(on_cpu, np.int64)).max() <= 2


@pytest.mark.gpu
def test_a_gpu_s_threads_survive_what_harms_them(
    some_bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(monkeypatch, tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)")
    limits = Limits(timeout_seconds=300, memory_bytes=1 << 46)
    settings = Settings(options=Options(level="full"), limits=limits, fresh=True, engine="nvdec", videos_at_once=34)
    report = _run(some_bad, tmp_path / "aside", settings, None)
    assert checks_by_video(report) == {f"{name}_bad.mp4": ["worker_died"] for name in ("03", "09")}
