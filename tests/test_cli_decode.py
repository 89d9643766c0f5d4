"""`vidprep decode`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from clips_made import X264, make_video
from drawn import drawn_number

from vidprep.cli import main
from vidprep.cli.decode import parse_frames
from vidprep.loaders import read_frames


def decode(*arguments):
    return CliRunner().invoke(main, ["decode", *map(str, arguments)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_video(tmp_path_factory.mktemp("decode") / "a.mp4", frames=30, gop=10, options=X264)


@pytest.mark.parametrize(
    ("text", "frames"),
    [
        ("all", range(30)),
        ("0,7,-1,7", [0, 7, 29, 7]),
        ("5", [5]),
        ("4:20:5", [4, 9, 14, 19]),
        ("::-1", range(29, -1, -1)),
        ("-3:", [27, 28, 29]),
        ("25:99", range(25, 30)),
        ("40:", []),
    ],
)
def test_the_array_holds_the_named_frames(made, tmp_path, text, frames):
    result = decode(made, "--frames", text, "-o", tmp_path / "out.npy")
    assert result.exit_code == 0, result.output
    assert np.array_equal(np.load(tmp_path / "out.npy"), read_frames(made, list(frames)))
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy"]


def test_json_says_what_was_done(made, tmp_path):
    result = decode(made, "--frames", "0,1", "-o", tmp_path / "out.npy", "--json")
    assert json.loads(result.stdout) | {"seconds": 0} == {
        "path": str(made), "output": str(tmp_path / "out.npy"), "shape": [2, 96, 128, 3], "seconds": 0, "error": None,
    }  # fmt: skip


def test_rotate_and_size(cases, tmp_path):
    path = cases / "files" / "rotate90.mp4"
    assert decode(path, "--frames", "all", "--rotate", "-o", tmp_path / "a.npy").exit_code == 0
    assert np.load(tmp_path / "a.npy").shape == (12, 160, 144, 3)
    assert decode(path, "--frames", "all", "--rotate", "--size", "80x72", "-o", tmp_path / "b.npy").exit_code == 0
    assert np.load(tmp_path / "b.npy").shape == (12, 80, 72, 3)


def test_a_size_change_fails_and_leaves_no_file_and_a_size_mends_it(cases, tmp_path):
    path = cases / "files" / "res_change.ts"
    result = decode(path, "--frames", "all", "-o", tmp_path / "a.npy")
    assert result.exit_code == 1
    assert "frame 12: the picture is 192x160" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert decode(path, "--frames", "all", "--size", "144x160", "-o", tmp_path / "a.npy").exit_code == 0
    assert [drawn_number(picture) for picture in np.load(tmp_path / "a.npy")] == list(range(24))


def test_an_earlier_output_survives_a_failure(made, cases, tmp_path):
    decode(made, "--frames", "3", "-o", tmp_path / "a.npy")
    before = (tmp_path / "a.npy").read_bytes()
    assert decode(cases / "files" / "moov_missing.mp4", "--frames", "0", "-o", tmp_path / "a.npy").exit_code == 1
    assert (tmp_path / "a.npy").read_bytes() == before


@pytest.mark.parametrize("name", ["zero_bytes.mp4", "moov_missing.mp4", "box_size_bomb.mp4", "audio_only.mp4"])
def test_a_file_that_cannot_serve_exits_1_with_its_reason(cases, tmp_path, name):
    result = decode(cases / "files" / name, "--frames", "0", "-o", tmp_path / "a.npy", "--json")
    error = json.loads(result.stdout)["error"]
    assert result.exit_code == 1
    assert error["reason"]
    assert error["class"].endswith("Error")


def test_a_frame_that_does_not_exist_exits_1_naming_it(made, tmp_path):
    result = decode(made, "--frames", "3,30", "-o", tmp_path / "a.npy", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"] == {
        "class": "DecodeError", "message": "the video has 30 frames", "frame_index": 30,
    }  # fmt: skip


def test_a_missing_file_exits_2(tmp_path):
    assert decode(tmp_path / "nope.mp4", "--frames", "0", "-o", tmp_path / "a.npy").exit_code == 2


@pytest.mark.parametrize("arguments", [["--frames", "a"], ["--frames", "0:1:0"], ["--frames", "0", "--size", "3"], []])
def test_wrong_usage_exits_2(made, tmp_path, arguments):
    assert decode(made, *arguments, "-o", tmp_path / "a.npy").exit_code == 2


def test_untagged_hd_pictures_are_warned_of(tmp_path):
    path = make_video(tmp_path / "hd.mp4", frames=2, size=(720, 64), options={"preset": "ultrafast"})
    assert "no colour matrix stated" in decode(path, "--frames", "0", "-o", tmp_path / "a.npy").stderr
    assert "matrix" not in decode(
        path, "--frames", "0", "--colour-default", "bt709", "-o", tmp_path / "a.npy"
    ).stderr  # fmt: skip


def test_frames_as_python_has_them():
    assert parse_frames("all") == slice(None)
    assert parse_frames("1,-2") == [1, -2]
    assert parse_frames("1:2") == slice(1, 2)


def test_the_help_has_an_example():
    assert "vidprep decode clip.mp4" in decode("--help").output


@pytest.mark.parametrize("frames", ["30", "-31", f"0,{1 << 70}"])
def test_a_frame_that_is_not_there_is_said_and_nothing_is_written(made, tmp_path, frames):
    result = decode(made, "--frames", frames, "-o", tmp_path / "out.npy")
    assert result.exit_code == 1
    assert "the video has 30 frames" in result.stderr
    assert not any(tmp_path.iterdir())


def test_a_pipe_or_device_is_not_replaced(made, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = decode(made, "--frames", "0", "-o", pipe)
    assert result.exit_code == 2
    assert "is not a regular file" in result.stderr
    assert pipe.is_fifo()


def test_the_video_itself_is_not_replaced(made, tmp_path):
    (tmp_path / "link.mp4").symlink_to(made)
    before = made.read_bytes()
    for output in (made, tmp_path / "link.mp4"):
        result = decode(made, "--frames", "0", "-o", output)
        assert result.exit_code == 2
        assert "is the video itself" in result.stderr
    assert made.read_bytes() == before


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def started(*arguments):
    command = [sys.executable, "-m", "vidprep", "decode", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def test_a_full_disk_is_a_clear_error(made, small_disk):
    process = started(made, "--frames", "all", "--size", "512x512", "-o", small_disk / "out.npy")
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert "No space left" in said
    assert "Traceback" not in said
    assert not any(small_disk.iterdir())


def test_an_interrupted_command_leaves_nothing_and_exits_130(made, tmp_path):
    frames = ",".join(["0", "29"] * 200)
    process = started(made, "--frames", frames, "--size", "1024x1024", "-o", tmp_path / "out.npy")
    while not any(tmp_path.iterdir()) and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130, said
    assert "nothing is written" in said
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="there is a GPU")
def test_nvdec_without_a_gpu_could_not_decode(made, tmp_path):
    result = decode(made, "--frames", "0", "--engine", "nvdec", "-o", tmp_path / "out.npy")
    assert result.exit_code == 1
    assert "no NVIDIA GPU" in result.stderr


def test_ten_bits_as_uint16(cases, tmp_path):
    path = cases / "files" / "h264_10bit.mp4"
    assert decode(path, "--frames", "0,5", "-o", tmp_path / "8.npy").exit_code == 0
    result = decode(path, "--frames", "0,5", "--dtype", "uint16", "-o", tmp_path / "16.npy")
    assert result.exit_code == 0
    assert result.stdout.rstrip().endswith("uint16")
    eight, sixteen = np.load(tmp_path / "8.npy"), np.load(tmp_path / "16.npy")
    assert sixteen.dtype == np.uint16
    assert np.abs(sixteen / 257 - eight).max() <= 1.5
