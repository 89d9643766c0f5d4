"""Two processes of torch.distributed (gloo): who takes what, and failures counted over both."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from clip_videos import copied_videos

ROOT = Path(__file__).parent.parent
pytestmark = [
    pytest.mark.dali,
    pytest.mark.timeout(200),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]


def run(folder, max_failures):
    copied_videos(folder)
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    words = ["--nproc-per-node", "2", str(ROOT / "tests" / "distributed_run.py"), str(folder), str(max_failures)]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words],
        capture_output=True, text=True, timeout=180, check=False, env=env, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def test_failures_of_both_ranks_are_counted_together_at_the_end_of_the_epoch(tmp_path):
    ranks = run(tmp_path / "videos", 8)
    assert [rank["batches"] for rank in ranks] == [6, 6]
    assert sum(rank["failures"] for rank in ranks) == 9
    assert all(0 < rank["failures"] <= 8 for rank in ranks)  # neither alone is over the limit
    assert all(rank["told"].startswith("9 clips failed, max_failures is 8") for rank in ranks)
    assert ranks[0]["state"] == ranks[1]["state"]


def test_as_many_failures_as_are_allowed_end_nothing(tmp_path):
    ranks = run(tmp_path / "videos", 9)
    assert [rank["told"] for rank in ranks] == ["", ""]
    assert [rank["batches"] for rank in ranks] == [6, 6]
