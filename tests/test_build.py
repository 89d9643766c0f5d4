"""Building an index: every file a row, killed anywhere and resumed, brought up to date."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from vidprep.errors import IndexFormatError, LimitError, Reason, SourceError
from vidprep.indexes import build_index, open_index
from vidprep.indexes.build import Shard
from vidprep.indexes.schema import COLUMNS
from vidprep.indexes.state import HashSet, cut_into, hashes_here, part_paths, state_folder, uri_hash
from vidprep.indexes.worker import Options, Task, index_batch
from vidprep.records import Identity
from vidprep.sources.listing import Item, Rules, list_items

ROOT = Path(__file__).parent.parent
#: (name, n): die at its n-th passing
FAILPOINTS = [
    ("part_unfinished", 1),
    ("part_unsynced", 2),
    ("before_rename", 1),
    ("before_rename", 3),
    ("after_rename", 2),
    ("after_sync", 2),
]


@pytest.fixture
def videos(tmp_path: Path, cases: Path) -> Path:
    """Four good videos and two bad ones."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in ["fd_leak", "one_frame", "clip_window", "open_gop", "zero_bytes", "moov_missing"]:
        shutil.copy(cases / "files" / f"{name}.mp4", folder)
    return folder


@pytest.fixture
def many(tmp_path: Path, cases: Path) -> Path:
    """700 names of one small file: several parts."""
    folder = tmp_path / "many"
    folder.mkdir()
    shutil.copy(cases / "files" / "one_frame.mp4", folder / "0000.mp4")
    for number in range(1, 700):
        (folder / f"{number:04d}.mp4").hardlink_to(folder / "0000.mp4")
    return folder


def _rows(index: Path) -> list[dict[str, Any]]:
    return [row for part in part_paths(index) for row in parquet.read_table(part).to_pylist()]


def _names(index: Path) -> list[str]:
    return [Path(row["path"]).name for row in _rows(index)]


def _run(source: Path, index: Path, *options: str, failpoint: str = "") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "vidprep", "index", str(source), "-o", str(index), *options]
    environment = os.environ | {"VIDPREP_FAILPOINT": failpoint, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, timeout=120)


def test_every_file_is_a_row_and_bad_ones_say_why(videos: Path, tmp_path: Path) -> None:
    summary = build_index([videos], tmp_path / "index", workers=2)
    assert (summary.videos, summary.ok, summary.failed, summary.skipped) == (6, 4, 2, 0)
    assert sum(summary.reasons.values()) == 2
    rows = {Path(row["path"]).name: row for row in _rows(tmp_path / "index")}
    assert len(rows) == 6
    assert rows["zero_bytes.mp4"]["error_reason"] == "empty"
    assert rows["clip_window.mp4"]["num_frames"] == 75
    assert len(rows["clip_window.mp4"]["sample_sizes"]) == rows["clip_window.mp4"]["num_samples"]


def test_the_folder_holds_parts_only_and_columns_of_the_schema(videos: Path, tmp_path: Path) -> None:
    build_index([videos], tmp_path / "index", workers=1)
    assert {path.suffix for path in (tmp_path / "index").iterdir()} == {".parquet"}
    names = parquet.read_schema(part_paths(tmp_path / "index")[0]).names
    assert names == [column.name for column in COLUMNS]
    assert not list((state_folder(tmp_path / "index") / "aside-part").iterdir())


def test_a_second_run_does_nothing_and_a_new_file_is_added(videos: Path, tmp_path: Path, cases: Path) -> None:
    build_index([videos], tmp_path / "index", workers=1)
    before = [path.stat().st_mtime_ns for path in part_paths(tmp_path / "index")]
    again = build_index([videos], tmp_path / "index", workers=1)
    assert (again.videos, again.ok, again.failed, again.skipped, again.failed_before) == (6, 0, 0, 6, 2)
    assert [path.stat().st_mtime_ns for path in part_paths(tmp_path / "index")] == before
    shutil.copy(cases / "files" / "rotate90.mp4", videos / "a_new_one.mp4")
    assert build_index([videos], tmp_path / "index", workers=1).added == 1
    assert len(set(_names(tmp_path / "index"))) == len(_names(tmp_path / "index")) == 7


def test_a_file_named_twice_is_one_row(videos: Path, tmp_path: Path) -> None:
    summary = build_index([videos, videos / "fd_leak.mp4", videos], tmp_path / "index", workers=1)
    assert (summary.videos, summary.ok + summary.failed, summary.skipped) == (13, 6, 7)
    assert len(_rows(tmp_path / "index")) == 6


def test_rows_come_in_the_order_of_the_listing_whatever_the_workers(many: Path, tmp_path: Path) -> None:
    for workers in (0, 1, 3):
        build_index([many], tmp_path / str(workers), workers=workers)
    assert _names(tmp_path / "0") == sorted(path.name for path in many.iterdir())
    assert len(part_paths(tmp_path / "0")) > 3
    assert _rows(tmp_path / "0") == _rows(tmp_path / "1") == _rows(tmp_path / "3")


def test_nothing_found_is_an_index_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert build_index([tmp_path / "empty"], tmp_path / "index").videos == 0
    assert len(open_index(tmp_path / "index")) == 0


def test_a_missing_source_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not_found"):
        build_index([tmp_path / "nothing"], tmp_path / "index")


def test_a_folder_with_other_things_is_refused(videos: Path, tmp_path: Path) -> None:
    with pytest.raises(IndexFormatError, match=r"\.parquet only"):
        build_index([videos], videos)
    with pytest.raises(NotADirectoryError):
        build_index([videos], videos / "fd_leak.mp4")


def test_shards_share_the_work_without_overlap(many: Path, tmp_path: Path) -> None:
    for number in range(3):
        build_index([many], tmp_path / "index", workers=0, shard=f"{number}/3")
    assert sorted(_names(tmp_path / "index")) == sorted(path.name for path in many.iterdir())


@pytest.mark.parametrize("text", ["3/3", "1", "a/b", "-1/2", "1/0", ""])
def test_a_bad_shard_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="I/N"):
        Shard.parse(text)


def test_names_of_any_bytes_come_back(tmp_path: Path, cases: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    names = [b"latin1-\xe9.mp4", b"new\nline.mp4", b"quote'\".mp4", "ü \u200b.mp4".encode(), b"%20#.mp4"]
    for name in names:
        shutil.copy(cases / "files" / "one_frame.mp4", os.fsdecode(os.fsencode(folder) + b"/" + name))
    build_index([folder], tmp_path / "index", workers=1)
    index = open_index(tmp_path / "index")
    assert sorted(os.fsencode(Path(video.uri).name) for video in index) == sorted(names)
    assert index.column("status").tolist() == ["ok"] * len(names)


@pytest.mark.parametrize(("name", "count"), [("weird_paths.tar", 14), ("wds_dotted_keys.tar", 3)])
def test_tar_members_are_rows_read_in_place(tmp_path: Path, cases: Path, name: str, count: int) -> None:
    summary = build_index([cases / "files" / name], tmp_path / "index", workers=1)
    assert (summary.videos, summary.ok) == (count, count)
    assert all(row["member_offset"] and "::" in row["uri"] for row in _rows(tmp_path / "index"))


# ---- workers that die, hang, or ask for too much


def _hostile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> None:
    """Workers run `body` when they read a file whose name holds "bad"."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import os, signal, time\n"
        "import vidprep.sources.local as local\n"
        "first = local.LocalSource.__init__\n"
        "def __init__(self, path):\n"
        f"    if 'bad' in path:\n        {body}\n"
        "    first(self, path)\n"
        "local.LocalSource.__init__ = __init__\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), str(ROOT), *sys.path])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "worker_died"),
        ("os._exit(3)", "worker_died"),
        ("time.sleep(99)", "timeout"),
        ("bytearray(3 << 30)", "out_of_memory"),
        ("raise RuntimeError('a bug')", "corrupt_table"),
    ],
    ids=["segfault", "exit", "hang", "memory", "bug"],
)
def test_a_file_that_harms_its_worker_costs_its_one_row(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, reason: str
) -> None:
    _hostile(monkeypatch, tmp_path, body)
    for name in ("a_bad.mp4", "p_bad.mp4"):
        shutil.copy(videos / "fd_leak.mp4", videos / name)
    summary = build_index([videos], tmp_path / "index", workers=2, timeout_seconds=5, memory_bytes=1 << 30)
    assert (summary.videos, summary.ok, summary.failed) == (8, 4, 4)
    assert summary.reasons[reason] == 2
    assert len(_rows(tmp_path / "index")) == 8


def test_a_hang_that_no_alarm_ends_is_killed(videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hostile(monkeypatch, tmp_path, "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); time.sleep(99)")
    monkeypatch.setattr("vidprep.indexes.pool._GRACE_SECONDS", 0.5)
    shutil.copy(videos / "fd_leak.mp4", videos / "bad.mp4")
    summary = build_index([videos], tmp_path / "index", workers=1, timeout_seconds=5)
    assert (summary.ok, summary.reasons["timeout"]) == (4, 1)


# ---- killed and resumed


@pytest.mark.parametrize(("failpoint", "nth"), FAILPOINTS)
def test_killed_at_a_failpoint_and_run_again_the_rows_are_the_same(
    many: Path, tmp_path: Path, failpoint: str, nth: int
) -> None:
    """The worker's failpoints kill workers, the parent's the parent; both end with the rows of an undisturbed run."""
    build_index([many], tmp_path / "calm", workers=0)
    killed = _run(many, tmp_path / "index", "--workers", "1", failpoint=f"{failpoint}:{nth}")
    if failpoint.startswith("part_"):  # a fresh worker does the unit again; one that dies each time gives it up
        assert (killed.returncode == 0) != (b"worker_died" in killed.stderr)
    else:
        assert killed.returncode == -signal.SIGKILL
    for part in part_paths(tmp_path / "index"):
        parquet.read_table(part)
    assert (len(_rows(tmp_path / "index")) == 700) == (killed.returncode == 0)
    assert _run(many, tmp_path / "index", "--workers", "1").returncode == 0
    assert _rows(tmp_path / "index") == _rows(tmp_path / "calm")


def test_killed_at_any_time_and_run_again_the_rows_are_the_same(many: Path, tmp_path: Path) -> None:
    build_index([many], tmp_path / "calm", workers=0)
    command = [sys.executable, "-m", "vidprep", "index", str(many), "-o", str(tmp_path / "index"), "--workers", "2"]
    for delay in (0.3, 0.6, 0.7, 0.8):
        process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)
        time.sleep(delay)
        process.kill()
        process.wait()
    assert subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode == 0
    assert _rows(tmp_path / "index") == _rows(tmp_path / "calm")


def test_two_runs_at_once_are_refused(videos: Path, tmp_path: Path) -> None:
    from vidprep.indexes.state import locked

    with locked(tmp_path / "index", "part"), pytest.raises(BlockingIOError, match="another run"):
        build_index([videos], tmp_path / "index", workers=0)


def test_an_index_has_one_lock_whatever_link_leads_to_it(videos: Path, tmp_path: Path) -> None:
    from vidprep.indexes.state import locked

    (tmp_path / "index").mkdir()
    (tmp_path / "link").symlink_to("index")
    with locked(tmp_path / "index", "part"), pytest.raises(BlockingIOError, match="another run"):
        build_index([videos], tmp_path / "link", workers=0)
    build_index([videos], tmp_path / "link", workers=0)
    assert len(_rows(tmp_path / "index")) == 6


@pytest.mark.parametrize(("running", "shard"), [(1, "0/2"), (2, None), (2, "0/3")])
def test_a_run_that_is_cut_otherwise_is_refused_meanwhile(
    videos: Path, tmp_path: Path, running: int, shard: str | None
) -> None:
    """Both would have some of the videos."""
    index = tmp_path / "index"
    state_folder(index).mkdir()
    with cut_into(index, running), pytest.raises(BlockingIOError, match=f"one of {running} shards"):
        build_index([videos], index, workers=0, shard=shard)
    build_index([videos], index, workers=0, shard=shard)


def test_shards_that_are_cut_alike_run_at_once(videos: Path, tmp_path: Path) -> None:
    state_folder(tmp_path / "index").mkdir()
    with cut_into(tmp_path / "index", 2):
        build_index([videos], tmp_path / "index", workers=0, shard="1/2")
        build_index([videos], tmp_path / "index", workers=0, shard="0/2")
    assert sorted(_names(tmp_path / "index")) == sorted(os.listdir(videos))


def test_an_index_made_among_its_videos_does_not_index_itself(videos: Path) -> None:
    for update in (False, True):
        assert build_index([videos], videos / "index", workers=0, update=update).videos == 6
        open_index(videos / "index")


# ---- brought up to date


def test_a_video_that_became_a_folder_has_vanished(videos: Path, tmp_path: Path) -> None:
    build_index([videos], tmp_path / "index", workers=0)
    (videos / "fd_leak.mp4").unlink()
    (videos / "fd_leak.mp4").mkdir()
    assert build_index([videos], tmp_path / "index", workers=0, update=True).vanished == 1


def test_a_video_that_changes_while_it_is_indexed_is_read_again_by_the_next_update(
    videos: Path, tmp_path: Path, cases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever became of the first reading: the row names what was opened, not what stands there afterwards."""
    from vidprep.sources.local import LocalSource

    read_at, other = LocalSource.read_at, (cases / "files" / "open_gop.mp4").read_bytes()

    def changing(source: LocalSource, offset: int, size: int) -> bytes:
        data = read_at(source, offset, size)
        if source.uri.endswith("clip_window.mp4"):
            Path(source.uri).write_bytes(other)  # in place: the open file is another one now
        return data

    monkeypatch.setattr(LocalSource, "read_at", changing)
    build_index([videos], tmp_path / "index", workers=0)
    monkeypatch.undo()
    assert build_index([videos], tmp_path / "index", workers=0, update=True).updated == 1
    rows = {Path(row["path"]).name: row["num_frames"] for row in _rows(tmp_path / "index")}
    assert rows["clip_window.mp4"] == rows["open_gop.mp4"]


def test_update_reindexes_what_changed_adds_what_is_new_and_marks_what_vanished(
    videos: Path, tmp_path: Path, cases: Path
) -> None:
    index = tmp_path / "index"
    build_index([videos], index, workers=0)
    shutil.copy(cases / "files" / "rotate90.mp4", videos / "new.mp4")
    shutil.copy(cases / "files" / "clip_window.mp4", videos / "open_gop.mp4")
    (videos / "one_frame.mp4").unlink()
    summary = build_index([videos], index, workers=0, update=True)
    counts = (summary.added, summary.updated, summary.vanished, summary.skipped, summary.failed_before)
    assert counts == (1, 1, 1, 4, 2)
    rows = {Path(row["path"]).name: row for row in _rows(index)}
    assert len(_rows(index)) == 7
    assert rows["open_gop.mp4"]["num_frames"] == 75
    assert (rows["one_frame.mp4"]["status"], rows["one_frame.mp4"]["error_reason"]) == ("error", "vanished")
    assert rows["one_frame.mp4"]["sample_sizes"] == []
    calm = build_index([videos], index, workers=0, update=True)
    assert (calm.added, calm.updated, calm.vanished, calm.skipped) == (0, 0, 0, 6)


def test_what_vanished_and_comes_back_is_read_again(videos: Path, tmp_path: Path) -> None:
    index, away = tmp_path / "index", tmp_path / "away.mp4"
    build_index([videos], index, workers=0)
    (videos / "fd_leak.mp4").rename(away)
    assert build_index([videos], index, workers=0, update=True).vanished == 1
    away.rename(videos / "fd_leak.mp4")
    assert build_index([videos], index, workers=0, update=True).updated == 1
    assert sum(row["status"] == "ok" for row in _rows(index)) == 4


def test_shards_that_rewrite_one_part_at_once_lose_nothing(
    videos: Path, tmp_path: Path, cases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index was made in one; while shard 0 rewrites its part, shard 1 has it replaced."""
    index, names = tmp_path / "index", sorted(os.listdir(videos))
    build_index([videos], index, workers=0)
    for name in names:
        shutil.copy(cases / "files" / "rotate90.mp4", videos / name)
    others = iter([True])

    def slower(task: Task) -> Any:
        outcome = index_batch(task)
        if next(others, False):
            build_index([videos], index, workers=0, update=True, shard="1/2")
        return outcome

    monkeypatch.setattr("vidprep.indexes.build.index_batch", slower)
    shares = [sum(uri_hash(f"{videos}/{name}") % 2 == number for name in names) for number in (0, 1)]
    assert build_index([videos], index, workers=0, update=True, shard="0/2").updated == shares[0]
    assert shares[0] * shares[1] > 0
    assert len({row["num_frames"] for row in _rows(index)}) == 1
    assert build_index([videos], index, workers=0, update=True).skipped == 6


def test_update_leaves_videos_of_other_sources_alone(videos: Path, tmp_path: Path, cases: Path) -> None:
    index = tmp_path / "index"
    build_index([videos, cases / "files" / "rotate90.mp4"], index, workers=0)
    assert build_index([videos], index, workers=0, update=True).vanished == 0


@pytest.mark.parametrize("failpoint", ["part_unsynced", "before_rename", "after_rename"])
def test_an_update_that_is_killed_leaves_one_row_per_video(
    many: Path, tmp_path: Path, cases: Path, failpoint: str
) -> None:
    index = tmp_path / "index"
    build_index([many], index, workers=0)
    for number in range(0, 700, 100):
        (many / f"{number:04d}.mp4").unlink()
        shutil.copy(cases / "files" / "fd_leak.mp4", many / f"{number:04d}.mp4")
    _run(many, index, "--update", "--workers", "1", failpoint=f"{failpoint}:2")
    assert len(set(_names(index))) == len(_names(index)) == 700
    _run(many, index, "--update", "--workers", "1")
    assert sum(row["num_frames"] == 12 for row in _rows(index)) == 7
    assert _names(index) == sorted(_names(index))


# ---- the unit of work, and the set of hashes


def test_the_unit_of_work_is_a_plain_function(videos: Path, tmp_path: Path) -> None:
    items = list(list_items([str(videos)]))
    outcome = index_batch(Task(7, items, str(tmp_path / "part.parquet"), Options(), {}))
    assert (outcome.unit, outcome.ok, outcome.failed) == (7, 4, 2)
    assert parquet.read_table(tmp_path / "part.parquet").num_rows == 6


def test_a_unit_is_the_same_in_another_process(videos: Path) -> None:
    listed = list_items([str(videos), "tests"], Rules(identities=False))
    items = [
        *listed,
        Item("/gone\udce9.mp4", "gone\udce9.mp4", error=SourceError("no such file", reason=Reason.NOT_FOUND)),
        Item("s3://b/k.mp4", "s3://b/k.mp4", Identity(size_bytes=7, etag="e")),
        Item("/a.tar::k.mp4", "a.tar::k.mp4", Identity(size_bytes=7, mtime_ns=3, member_offset=512)),
    ]
    known = {1: LimitError("its time is up", reason=Reason.TIMEOUT)}
    for unit in (
        Task(3, items, "aside", Options(checksums=True), known, "base", [4]),
        Task(4, [], "aside", Options(), {}),
    ):
        again = pickle.loads(pickle.dumps(unit))
        assert [repr(item) for item in again.items] == [repr(item) for item in unit.items]
        assert repr(again._replace(items=[])) == repr(unit._replace(items=[]))


def test_rows_say_the_size_and_time_of_files_that_can_be_read_and_of_those_that_cannot(
    videos: Path, tmp_path: Path
) -> None:
    build_index([videos], tmp_path / "index", workers=1)
    rows = _rows(tmp_path / "index")
    assert {row["status"] for row in rows} == {"ok", "error"}
    for row in rows:
        facts = Path(row["uri"]).stat()
        assert (row["size_bytes"], row["mtime_ns"]) == (facts.st_size, facts.st_mtime_ns)


def test_a_hash_set_knows_what_was_added() -> None:
    seen, known = HashSet(), set()
    for batch in ([1, 2, 2, 3], [3, 4], [], [1, 5, 5], list(range(100)), [2**64 - 1]):
        assert seen.add_new(batch).sum() == len(set(batch) - known)
        known |= set(batch)
    assert len(seen) == len(known)


def test_hashes_differ_for_names_of_any_bytes() -> None:
    names = ["a", "b", "\udce9", "é", ""]
    assert len({uri_hash(name) for name in names}) == len(set(hashes_here(names).tolist())) == 5
    assert hashes_here(names).tolist() == hashes_here(list(names)).tolist()


def test_shards_cut_alike_on_every_machine() -> None:
    assert [uri_hash(name) % 64 for name in ("/data/a.mp4", "s3://bucket/b.mp4")] == [48, 58]


def test_the_corpus_has_a_row_for_each_file(corpus: Path, tmp_path: Path) -> None:
    files = sorted(path.name for path in (corpus / "files").iterdir())
    summary = build_index([corpus / "files"], tmp_path / "index", workers=2)
    assert summary.videos == summary.ok + summary.failed == len(files)
    assert sorted(_names(tmp_path / "index")) == files


def test_one_source_stands_by_itself_as_text_or_path(videos: Path, tmp_path: Path) -> None:
    listed = build_index([videos], tmp_path / "listed", workers=0)
    for name, source in (("text", str(videos)), ("path", videos)):
        assert build_index(source, tmp_path / name, workers=0).videos == listed.videos > 0


@pytest.mark.parametrize(
    "option",
    [
        {"timeout_seconds": float("nan")},
        {"timeout_seconds": float("inf")},
        {"timeout_seconds": 0.0},
        {"memory_bytes": 0},
        {"workers": -1},
        {"engine": "cloud"},
    ],
    ids=str,
)
def test_an_option_out_of_range_is_refused_before_any_work(
    videos: Path, tmp_path: Path, option: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        build_index([videos], tmp_path / "index", **option)
    assert not (tmp_path / "index").exists()
