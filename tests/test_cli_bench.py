"""`vidprep bench` on real files."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from clip_videos import copied_videos

from vidprep.cli import main
from vidprep.indexes import build_index

pytestmark = [pytest.mark.dali, pytest.mark.timeout(120)]

POLICY = "random:frames=4,stride=2,pad=edge"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    copied_videos(folder / "videos", ("clip_window.mp4", "vfr_steps.mp4", "open_gop.mp4"))
    build_index([str(folder / "videos")], str(folder / "index"), workers=1)
    return str(folder / "index")


def run(*words):
    return CliRunner().invoke(main, ["bench", *words])


def test_json_has_all_stages_the_rule_and_the_estimates(index):
    done = run(index, "--policy", POLICY, "--seconds", "0.3", "--batch-size", "2", "--step-seconds", "10", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    for stage in ("loader", "engine", "reading"):
        assert found[stage]["clips"] > 0
        assert found[stage]["pictures_per_wanted_frame"] >= 1
        assert found[stage]["failures"] == 0
    assert found["training"]["clips_per_second"] == pytest.approx(0.2)
    assert found["training"]["holds"] is (found["training"]["loader_over_training"] >= 1.5)
    gops = {entry["gop"]: entry for entry in found["re_encoding"]}
    assert gops[1]["pictures_per_wanted_frame"] == 1
    assert gops[8]["pictures_per_wanted_frame"] > 1
    assert gops[1]["bytes_ratio"] > gops[250]["bytes_ratio"]


def test_the_table_says_whether_training_will_wait(index):
    done = run(index, "--policy", POLICY, "--seconds", "0.2", "--batch-size", "2", "--step-seconds", "0.000001")
    assert done.exit_code == 0, done.output
    assert "the step waits all the time" in done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--policy", "nonsense:frames=3"], "nonsense"), (["--policy", POLICY, "--size", "0x3"], "HxW"),
     (["--policy", "random:frames=100000,pad=error"], ""), (["--policy", POLICY, "--engine", "nvdec"], "cuda")],
)  # fmt: skip
def test_what_makes_no_sense_is_wrong_usage(index, words, told):
    done = run(index, "--seconds", "0.1", *words)
    assert done.exit_code in (1, 2), done.output
    assert told in done.output
    assert "Traceback" not in done.output


def test_a_broken_index_is_exit_1(tmp_path):
    (tmp_path / "part-0.parquet").write_bytes(b"PAR1 and no more")
    result = run(str(tmp_path), "--policy", "first")
    assert result.exit_code == 1
    assert "part-0.parquet" in result.stderr


def test_a_missing_index_is_wrong_usage(tmp_path):
    done = run(str(tmp_path / "none"), "--policy", POLICY)
    assert done.exit_code == 2
    assert "no such index" in done.output
