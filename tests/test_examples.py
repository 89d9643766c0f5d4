"""Every example runs at toy size on the CPU."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
pytestmark = [pytest.mark.dali, pytest.mark.timeout(240)]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def run(*words, python=(sys.executable,)):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*python, *map(str, words)], capture_output=True, text=True, timeout=200, check=False, env=env, cwd=ROOT
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples") / "videos"
    run(EXAMPLES / "make_videos.py", folder)
    return folder


@pytest.fixture(scope="module")
def index(videos):
    run("-m", "vidprep", "index", videos, "-o", videos.parent / "index", "--workers", "1")
    return videos.parent / "index"


def test_quickstart(index):
    assert "clips/s" in run(EXAMPLES / "quickstart.py", index)


def test_jax_batches(index):
    assert "(2, 8, 64, 64, 3) uint8" in run(EXAMPLES / "jax_batches.py", index)


def test_captions(index):
    lines = run(EXAMPLES / "captions.py", index).splitlines()
    for line in lines:
        second = int(line.rsplit(" ", 1)[1])
        assert second <= float(line.split("..")[0]) <= second + 1
    assert {line.rsplit(": ", 1)[1] for line in lines} == {"second 0", "second 1"}


def test_webdataset_tars(videos):
    told = run(EXAMPLES / "webdataset_tars.py", videos, videos.parent / "tars")
    assert "shard-0.tar::" in told
    assert "(2, 8, 64, 64, 3)" in told


@needs_torch
def test_train_goes_on_where_its_checkpoint_was_saved(index, tmp_path):
    checkpoint = tmp_path / "checkpoint.pt"
    first = run(EXAMPLES / "train.py", index, "--checkpoint", checkpoint)
    assert "loss" in first
    second = run(EXAMPLES / "train.py", index, "--checkpoint", checkpoint)
    assert "loss" in second


@needs_torch
def test_train_ddp_on_two_processes(index):
    told = run(
        "--nproc-per-node",
        "2",
        EXAMPLES / "train_ddp.py",
        index,
        python=(sys.executable, "-m", "torch.distributed.run"),
    )
    states = re.findall(r" state (\{[^}]*\})", told)  # two processes write: their lines may run into each other
    assert len(states) == 2
    assert states[0] == states[1]
    assert json.loads(states[0].replace("'", '"'))["position"] > 0


@needs_torch
def test_dali_proxy(index):
    assert "(2, 8, 64, 64, 3)" in run(EXAMPLES / "dali_proxy.py", index)
