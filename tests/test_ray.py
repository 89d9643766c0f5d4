"""The Ray engine, on a two-node cluster on this machine."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from vidprep.indexes import build_index
from vidprep.indexes.state import part_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'vidprep[ray]'")
# Ray leaves sockets, files and deprecations of its own dependencies to the interpreter.
pytestmark = [pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))  # inherited by the nodes' workers
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "120")  # a busy machine takes longer than its 30 s
    both = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    monkeypatch.setenv("RAY_ADDRESS", both.address)
    try:
        yield both
    finally:
        ray.shutdown()
        both.shutdown()


@pytest.fixture
def many(tmp_path: Path, cases: Path) -> Path:
    folder = tmp_path / "many"
    folder.mkdir()
    for name in ("clip_window.mp4", "zero_bytes.mp4"):
        shutil.copy(cases / "files" / name, tmp_path)
    for number in range(1200):
        original = "zero_bytes.mp4" if number % 50 == 7 else "clip_window.mp4"
        (folder / f"{number:04d}.mp4").hardlink_to(tmp_path / original)
    return folder


def rows_of(index: Path) -> list[dict[str, Any]]:
    return [row for part in part_paths(index) for row in parquet.read_table(part).to_pylist()]


def test_a_node_killed_midway_costs_no_row(cluster: Any, many: Path, tmp_path: Path) -> None:
    """Units that the lost node had are done again by the other one; rows are those of a local run, in its order."""
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    killed: list[int] = []

    def kill_midway() -> None:
        while len(part_paths(tmp_path / "index")) < 2:
            time.sleep(0.01)
        cluster.remove_node(node, allow_graceful=False)
        killed.append(len(part_paths(tmp_path / "index")))

    killer = threading.Thread(target=kill_midway, daemon=True)
    killer.start()
    summary = build_index([many], tmp_path / "index", engine="ray")
    killer.join(30)
    assert killed
    assert (summary.videos, summary.failed) == (1200, 24)
    build_index([many], tmp_path / "calm", workers=0)
    assert rows_of(tmp_path / "index") == rows_of(tmp_path / "calm")
