"""Killed, starved of disk, refused: whatever ends a run, the next one ends with the rows of an undisturbed run.

Every run here is the command in a process of its own; 2 % of its files are hostile ones.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from vidprep.indexes import build_index, open_index
from vidprep.indexes.schema import arrow_schema
from vidprep.indexes.state import part_paths, state_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
GOOD = ("one_frame.mp4", "fd_leak.mp4", "clip_window.mp4", "vfr_steps.mp4", "rotate90.mp4", "stsz_const.mp4")
HOSTILE = (
    "zero_bytes.mp4", "moov_missing.mp4", "stsz_huge_count.mp4", "box_size_bomb.mp4", "trunc_faststart.mp4",
    "tables_disagree.mp4", "audio_only.mp4", "stts_delta_wrap.mp4",
)  # fmt: skip
#: One in so many is hostile.
HOSTILE_EVERY = 50
SHORT_FILES, LONG_FILES = 800, 3000
PARENT, WORKER = "parent", "worker"
WRITE_FAILPOINTS = ("part_unfinished", "part_unsynced")
RENAME_FAILPOINTS = ("before_rename", "after_rename", "after_sync")


def make_videos(folder: Path, cases: Path, count: int) -> None:
    """Hard links to copies of a few cases, 2 % of them hostile."""
    (folder.parent / "originals").mkdir()
    for name in GOOD + HOSTILE:
        shutil.copy(cases / name, folder.parent / "originals" / name)
    folder.mkdir()
    for number in range(count):
        rest, place = divmod(number, HOSTILE_EVERY)
        name = HOSTILE[rest % len(HOSTILE)] if place == HOSTILE_EVERY // 2 else GOOD[number % len(GOOD)]
        (folder / f"{number:05d}.mp4").hardlink_to(folder.parent / "originals" / name)


class Scene:
    """Videos, an index of an undisturbed run, and runs over them."""

    def __init__(self, folder: Path, cases: Path, count: int) -> None:
        self.folder, self.videos, self.index, self.count = folder, folder / "videos", folder / "index", count
        make_videos(self.videos, cases, count)
        build_index([self.videos], folder / "calm", workers=0)
        self.calm = rows_of(folder / "calm")
        self._calm_uris = self.calm["uri"].combine_chunks()
        assert len(self.calm) == count
        assert "error" in self.calm["status"].unique().to_pylist()

    def start(self, failpoint: str = "", workers: int = 2, **more: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "vidprep", "index", str(self.videos), "-o", str(self.index)]
        environment = os.environ | {"VIDPREP_FAILPOINT": failpoint, "PYTHONPATH": str(ROOT)}
        command += ["--workers", str(workers)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def check_whole_parts(self) -> int:
        """No part is torn, no row is there twice, and each is the row of the undisturbed run."""
        rows = rows_of(self.index)
        places = pc.index_in(rows["uri"], self._calm_uris)
        assert len(places.unique()) == len(rows)
        assert rows.equals(self.calm.take(places))
        return len(rows)

    def finish(self) -> None:
        """Run to the end; the rows are the same, in the same order."""
        process = self.start()
        _, errors = process.communicate(timeout=280)
        assert process.returncode == 0, errors
        assert rows_of(self.index).equals(self.calm)
        assert {path.suffix for path in self.index.iterdir()} == {".parquet"}

    def clear(self) -> None:
        for folder in (self.index, state_folder(self.index)):
            shutil.rmtree(folder, ignore_errors=True)


def rows_of(index: Path) -> pa.Table:
    parts = part_paths(index) if index.is_dir() else []
    return pa.concat_tables([arrow_schema().empty_table(), *map(parquet.read_table, parts)])


def children_of(pid: int) -> list[int]:
    """Worker processes; none once it is gone."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def wait_until(condition: Callable[[], Any], process: subprocess.Popen[bytes]) -> bool:
    """Whether it became true before the process ended."""
    while process.poll() is None:
        if condition():
            return True
        time.sleep(0.002)
    return False


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, cases: Path) -> Scene:
    count = LONG_FILES if request.config.getoption("--long") else SHORT_FILES
    return Scene(tmp_path_factory.mktemp("kills"), cases / "files", count)


@pytest.fixture(autouse=True)
def clean(scene: Scene) -> Iterator[None]:
    yield
    scene.clear()


def kill_at(scene: Scene, target: str, share: float, jitter_seconds: float) -> None:
    """Kill the parent or a worker when a share of the parts is there, a moment later."""
    parts = len(part_paths(scene.folder / "calm"))
    process = scene.start()
    started = wait_until(lambda: len(children_of(process.pid)) == 2, process)
    reached = wait_until(lambda: len(part_paths(scene.index)) >= share * parts, process)
    assert started
    assert reached, process.communicate()
    time.sleep(jitter_seconds)
    victims = children_of(process.pid) if target == WORKER else [process.pid]
    if victims:
        os.kill(random.choice(victims), signal.SIGKILL)
    process.communicate(timeout=280)
    scene.check_whole_parts()
    if target == WORKER:
        assert process.returncode == 0
        assert rows_of(scene.index).equals(scene.calm)


def cases_of_kills(total: int) -> list[tuple[str, float, float]]:
    """Kills spread evenly over a run, parent and worker in turn, with jitter of up to 50 ms."""
    draw = random.Random(7)
    return [((PARENT, WORKER)[n % 2], n / total * 0.9, draw.random() * 0.05) for n in range(total)]


@pytest.mark.parametrize(("target", "share", "jitter_seconds"), cases_of_kills(2))
def test_killed_on_the_way_the_next_run_ends_with_the_same_rows(
    scene: Scene, target: str, share: float, jitter_seconds: float
) -> None:
    kill_at(scene, target, share, jitter_seconds)
    scene.finish()


@pytest.mark.long
@pytest.mark.parametrize(("target", "share", "jitter_seconds"), cases_of_kills(32))
def test_thirty_two_kills_spread_over_a_run(scene: Scene, target: str, share: float, jitter_seconds: float) -> None:
    kill_at(scene, target, share, jitter_seconds)
    scene.finish()


def die_at(scene: Scene, failpoint: str, nth: int) -> None:
    process = scene.start(f"{failpoint}:{nth}", workers=1)
    _, errors = process.communicate(timeout=280)
    done = scene.check_whole_parts()
    if failpoint in RENAME_FAILPOINTS:
        assert process.returncode == -signal.SIGKILL
        assert done < scene.count
    elif nth == 1:  # each worker in turn dies in its first part, until the run is given up
        assert process.returncode == 1
        assert b"worker_died" in errors
        assert done == 0
    else:  # each new worker gets a part further, and the run to its end
        assert process.returncode == 0
        assert done == scene.count


@pytest.mark.parametrize(("failpoint", "nth"), [("part_unsynced", 1), ("part_unfinished", 3), ("before_rename", 2)])
def test_killed_inside_write_and_rename(scene: Scene, failpoint: str, nth: int) -> None:
    die_at(scene, failpoint, nth)
    scene.finish()


@pytest.mark.long
@pytest.mark.parametrize("nth", [1, 2, 6, 11])
@pytest.mark.parametrize("failpoint", WRITE_FAILPOINTS + RENAME_FAILPOINTS)
def test_twenty_kills_inside_write_and_rename(scene: Scene, failpoint: str, nth: int) -> None:
    die_at(scene, failpoint, nth)
    scene.finish()


@pytest.mark.long
def test_killed_again_and_again_it_still_ends(scene: Scene) -> None:
    """Every run does at least one part, then is killed; nothing is done twice."""
    done, kills = 0, 0
    while done < scene.count and kills < 4:
        process = scene.start("after_rename:2", workers=2)
        process.communicate(timeout=280)
        assert process.returncode in {0, -signal.SIGKILL}
        before, done = done, scene.check_whole_parts()
        kills += 1
        assert done > before
    scene.finish()


def test_readers_meanwhile_see_whole_parts_and_no_row_twice(scene: Scene) -> None:
    seen: list[int] = []
    trouble: list[BaseException] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            try:
                seen.append(scene.check_whole_parts())
            except BaseException as error:  # noqa: BLE001 - told by the test
                trouble.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    process = scene.start("after_rename:3", workers=2)
    process.communicate(timeout=280)
    scene.finish()
    ended.set()
    reader.join()
    assert not trouble
    assert seen == sorted(seen)
    assert len(open_index(scene.index)) == scene.count


def test_every_reader_of_parquet_sees_each_video_once_after_a_kill(scene: Scene) -> None:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyarrow import dataset

    process = scene.start("before_rename:3", workers=2)
    process.communicate(timeout=280)
    for expected in (scene.check_whole_parts(), scene.count):
        if expected == scene.count:
            scene.finish()
        pattern = str(scene.index / "*.parquet")
        counts = {
            "pyarrow": dataset.dataset(scene.index).to_table(columns=["uri"])["uri"].to_pylist(),
            "duckdb": [row[0] for row in duckdb.sql(f"select uri from '{pattern}'").fetchall()],
            "polars": pl.read_parquet(pattern, columns=["uri"])["uri"].to_list(),
            "pandas": pd.read_parquet(scene.index, columns=["uri"])["uri"].tolist(),
        }
        for reader, uris in counts.items():
            assert len(uris) == len(set(uris)) == expected, reader


# ---- disks that are full or refuse


def limit_file_size(limit_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))


def test_a_file_that_may_not_grow_is_a_clear_error_and_the_next_run_ends_right(scene: Scene) -> None:
    largest = max(part.stat().st_size for part in part_paths(scene.folder / "calm"))
    process = scene.start(preexec_fn=lambda: limit_file_size(largest // 2))
    _, errors = process.communicate(timeout=280)
    assert process.returncode == 1
    assert b"File too large" in errors
    assert b"Traceback" not in errors
    scene.check_whole_parts()
    scene.finish()


def mounted(folder: Path, options: str, source: str = "none") -> bool:
    """Whether a file system could be mounted (as root in a container that allows it)."""
    folder.mkdir(exist_ok=True)
    command = ["mount", *options.split(), source, str(folder)]
    return shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def small_disk(scene: Scene) -> Iterator[Path]:
    """Half of what the index needs; skipped where nothing may be mounted."""
    need = sum(part.stat().st_size for part in part_paths(scene.folder / "calm"))
    disk = scene.folder / "disk"
    if not mounted(disk, f"-t tmpfs -o size={need // 2}"):
        pytest.skip("no file system may be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_a_clear_error_and_the_next_run_ends_right(scene: Scene, small_disk: Path) -> None:
    crowded = small_disk / "index"
    command = [sys.executable, "-m", "vidprep", "index", str(scene.videos), "-o", str(crowded), "--workers", "2"]
    for _ in range(2):  # full at first, and full still
        run = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=280)
        assert run.returncode == 1
        assert b"No space left" in run.stderr
        assert b"Traceback" not in run.stderr
        uris = rows_of(crowded)["uri"].to_pylist()
        assert len(uris) == len(set(uris)) < scene.count
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode == 0
    assert rows_of(crowded).equals(scene.calm)


def test_a_folder_that_may_not_be_written_is_a_clear_error(scene: Scene) -> None:
    """Root writes anywhere, so a read-only file system where one may be mounted, and permissions where not root."""
    shut = scene.folder / "shut"
    if os.geteuid() != 0:
        shut.mkdir()
        shut.chmod(0o555)
    elif not mounted(shut, "-t tmpfs -o ro"):
        pytest.skip("root writes anywhere, and no read-only file system may be mounted here")
    command = [sys.executable, "-m", "vidprep", "index", str(scene.videos), "-o", str(shut / "index")]
    try:
        run = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=280)
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", str(shut)], check=True)
    assert run.returncode == 1
    assert b"Read-only" in run.stderr or b"Permission denied" in run.stderr
    assert b"Traceback" not in run.stderr


# ---- a worker that others end is not its file's fault


def test_a_worker_that_the_kernel_kills_costs_no_row(scene: Scene) -> None:
    """Killed up to three times in one run: the files at hand are read again, not blamed."""
    process = scene.start(workers=2)
    kills = 0
    while kills < 3 and wait_until(lambda: len(children_of(process.pid)) == 2, process):
        time.sleep(0.2 * kills)  # the first at once: a quick machine is done before the third
        for victim in children_of(process.pid)[:1]:
            os.kill(victim, signal.SIGKILL)
            kills += 1
    process.communicate(timeout=280)
    assert process.returncode == 0
    assert kills
    assert rows_of(scene.index).equals(scene.calm)
