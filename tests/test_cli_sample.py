"""`vidprep sample` and `vidprep export`: what scripts rely on, over numbers, a file and an index."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from vidprep.cli import main

CASE = "vfr_steps.mp4"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def sample(*arguments: str) -> list[dict[str, Any]]:
    result = run("sample", *arguments, "--json")
    assert result.exit_code == 0, result.output
    clips: list[dict[str, Any]] = json.loads(result.stdout)
    return clips


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from vidprep.indexes import build_index

    files = Path(__file__).parent / "cases" / "files"
    names = ("clip_window.mp4", "one_frame.mp4", "vfr_steps.mp4", "vp8_altref.webm", "zero_bytes.mp4")
    folder = tmp_path_factory.mktemp("index") / "index"
    build_index([str(files / name) for name in names], str(folder), workers=1)
    return folder


def test_json_lists_clips_with_the_four_keys() -> None:
    clips = sample("--num-frames", "100", "--fps", "25", "--policy", "list:frames=0/7/33")
    assert clips == [
        {
            "video": None,
            "frame_index": [0, 7, 33],
            "pts_seconds": [0.0, 0.28, 1.32],
            "is_padding": [False, False, False],
        }
    ]


def test_constant_padding_is_minus_one_and_null() -> None:
    (clip,) = sample("--num-frames", "3", "--policy", "first:frames=5", "--pad", "constant")
    assert clip["frame_index"] == [0, 1, 2, -1, -1]
    assert clip["pts_seconds"][3:] == [None, None]
    assert clip["is_padding"] == [False, False, False, True, True]


def test_pad_overrides_the_policy_and_seed_matters() -> None:
    (clip,) = sample("--num-frames", "3", "--policy", "first:frames=5,pad=constant", "--pad", "wrap")
    assert clip["frame_index"] == [0, 1, 2, 0, 1]
    draws = {
        sample("--num-frames", "999", "--policy", "random:frames=1", "--seed", s)[0]["frame_index"][0] for s in "0123"
    }
    assert len(draws) == 4


def test_several_clips_and_none() -> None:
    assert len(sample("--num-frames", "64", "--policy", "dense:frames=16")) == 4
    assert len(sample("--num-frames", "64", "--policy", "dense:frames=16", "--limit", "3")) == 3
    assert sample("--num-frames", "3", "--policy", "dense:frames=16") == []


def test_a_file_gives_its_own_times(cases: Path) -> None:
    path = str(cases / "files" / CASE)
    (clip,) = sample(path, "--policy", "uniform:frames=4")
    expected = json.loads((cases / "expected" / "vfr_steps.json").read_text())
    assert clip["video"] == path
    assert clip["pts_seconds"] == pytest.approx([float(expected["pts_seconds"][i]) for i in clip["frame_index"]])


def test_the_table_marks_padding(cases: Path) -> None:
    result = run("sample", str(cases / "files" / "one_frame.mp4"), "--policy", "first:frames=3", "--pad", "edge")
    assert result.exit_code == 0
    assert "3 frames, 2 padded (~)" in result.stdout
    assert result.stdout.count("0~") == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--num-frames"), (["a.mp4", "--num-frames", "3"], "--num-frames"), (["/no/such.mp4"], "no such file"),
        (["--num-frames", "5", "--fps", "0"], "fps"), (["--num-frames", "5", "--sheet", "x.png"], "--sheet"),
        (["--num-frames", "0"], "no frames"),
    ],
)  # fmt: skip
def test_wrong_usage_exits_with_2(arguments: list[str], says: str) -> None:
    result = run("sample", *arguments, "--policy", "first:frames=2")
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize("policy", ["first:frames=0", "nonsense", "first:frames", "first:frames=9,pad=error"])
def test_a_policy_that_makes_no_sense_exits_with_2(policy: str) -> None:
    assert run("sample", "--num-frames", "5", "--policy", policy).exit_code == 2


def test_an_index_is_counted(index: Path) -> None:
    result = run("sample", str(index), "--policy", "random:frames=8,stride=2,pad=drop")
    assert result.exit_code == 0, result.output
    counts = {line[:28].strip(): line[28:].split()[0] for line in result.stdout.splitlines() if line.startswith("  ")}
    assert counts["clips yielded"] == "3"
    assert counts["videos that give no clip"] == "2"
    assert "unreadable: empty" in result.stdout
    assert "pad='drop' fills no places" in result.stdout


def test_an_index_in_json_is_the_epoch_of_a_plan(index: Path) -> None:
    from vidprep.indexes import open_index
    from vidprep.samplers import parse_policy
    from vidprep.samplers.plan import Plan

    clips = sample(str(index), "--policy", "random:frames=4,pad=edge", "--seed", "5", "--epoch", "2")
    plan = Plan(open_index(index), parse_policy("random:frames=4,pad=edge"), seed=5)
    assert [c["frame_index"] for c in clips] == [plan.clip(2, p).spec.frame_index.tolist() for p in range(len(plan))]


def test_a_sheet_shows_the_chosen_frames(index: Path, cases: Path, tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "sheet.png"
    arguments = ("--policy", "first:frames=3,pad=constant,fill_value=200", "--sheet", str(path))
    assert run("sample", str(cases / "files" / "one_frame.mp4"), *arguments).exit_code == 0
    with Image.open(path) as image:
        pixels = np.asarray(image)
    assert pixels.shape == (4 + 152 + 4, 3 * 164 + 4, 3)
    assert (pixels[60, 164 + 84] == 200).all()  # the second place is filled
    assert (pixels[10:100, 20:140] > 200).any()  # the first shows the picture
    assert run("sample", str(index), *arguments).exit_code == 0


# --- export -----------------------------------------------------------------------------------------------------------


def test_csv_and_parquet_hold_one_row_per_video(index: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for form in ("csv", "parquet"):
        assert run("export", str(index), "--format", form, "-o", str(tmp_path / form)).exit_code == 0
    with (tmp_path / "csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(tmp_path / "parquet")
    assert [row["uri"] for row in rows] == table["uri"].to_pylist()
    assert [row["num_frames"] for row in rows if row["status"] == "ok"] == ["75", "1", "35", "60"]


def test_clips_are_exported_in_the_order_of_the_index(index: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "clips.parquet"
    assert (
        run("export", str(index), "--format", "parquet", "--policy", "dense:frames=16", "-o", str(out)).exit_code == 0
    )
    rows = pq.read_table(out).to_pylist()
    assert [(Path(r["video"]).name, r["clip"]) for r in rows] == [
        *(("clip_window.mp4", i) for i in range(4)), *(("vfr_steps.mp4", i) for i in range(2)),
        *(("vp8_altref.webm", i) for i in range(3)),
    ]  # fmt: skip
    assert rows[1]["frame_index"] == list(range(16, 32))


def test_torchcodec_gets_frame_mappings(index: Path, cases: Path, tmp_path: Path) -> None:
    out = tmp_path / "mappings.jsonl"
    result = run("export", str(index), "--format", "torchcodec", "-o", str(out))
    assert result.exit_code == 0
    assert "zero_bytes.mp4" in result.stderr
    mappings = [json.loads(line) for line in out.read_text().splitlines()]
    frames = next(m["frames"] for m in mappings if m["video"].endswith(CASE))
    expected = json.loads((cases / "expected" / "vfr_steps.json").read_text())
    assert [f["pts"] for f in frames] == expected["pts_ticks"]
    assert [i for i, f in enumerate(frames) if f["key_frame"]] == expected["key_indices"]
    assert all(a["pts"] + a["duration"] == b["pts"] for a, b in itertools.pairwise(frames))


def test_a_dali_file_list_names_what_it_leaves_out(index: Path, tmp_path: Path) -> None:
    out = tmp_path / "list.txt"
    result = run("export", str(index), "--format", "dali-file-list", "--policy", "first:frames=20", "-o", str(out))
    assert result.exit_code == 0, result.output
    assert "file_list_include_end=False, sequence_length=20" in result.stdout
    assert [line.split()[1:] for line in out.read_text().splitlines()] == [
        ["0", "0", "20"],
        ["2", "0", "20"],
        ["3", "0", "20"],
    ]
    assert "one_frame.mp4: the clip has 1 frames, the reader gives 20" in result.stderr


def test_a_policy_that_the_reader_cannot_say_exits_with_2(index: Path, tmp_path: Path) -> None:
    out = tmp_path / "list.txt"
    result = run("export", str(index), "--format", "dali-file-list", "--policy", "rate:fps=3", "-o", str(out))
    assert result.exit_code == 2
    assert "rate:" in result.stderr
    assert not out.exists()
    assert run("export", str(index), "--format", "torchcodec", "--policy", "first", "-o", str(out)).exit_code == 2


@pytest.mark.dali
def test_the_exported_list_runs_in_the_reader(index: Path, tmp_path: Path) -> None:
    from nvidia.dali import fn, pipeline_def

    out = tmp_path / "list.txt"
    result = run(
        "export", str(index), "--format", "dali-file-list", "--policy", "dense:frames=7,stride=3", "-o", str(out)
    )
    lines = [line.split() for line in out.read_text().splitlines() if "vp8" in line]
    out.write_text("\n".join(" ".join(line) for line in lines) + "\n")
    call = result.stdout.strip().removeprefix("fn.experimental.readers.video")
    kwargs = eval(f"dict{call}")

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline() -> Any:
        return fn.experimental.readers.video(name="r", device="cpu", enable_frame_num="sequence", **kwargs)[-1]

    built = pipeline()
    built.build()
    given = [np.array(built.run()[0][0]).ravel().tolist() for _ in range(built.epoch_size("r"))]
    assert given == [list(range(int(line[2]), int(line[3]), 3)) for line in lines]
    assert len(given) == 2


@pytest.fixture
def with_a_damaged_one(tmp_path: Path, cases: Path) -> Path:
    """An index of a sound video and of one whose coded samples are all overwritten: its tables are in order."""
    from vidprep.indexes import build_index, open_index

    for name in ("clip_window.mp4", "one_frame.mp4"):
        shutil.copy(cases / "files" / name, tmp_path / name)
    damaged = tmp_path / "one_frame.mp4"
    build_index([str(tmp_path)], str(tmp_path / "index"), workers=0)
    table = open_index(str(tmp_path / "index"))[1].table
    facts = damaged.stat()
    with damaged.open("r+b") as file:
        file.seek(int(table.offset[0]))
        file.write(b"\xff" * int(table.size[0]))
    os.utime(damaged, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    return tmp_path / "index"


def test_a_clip_that_cannot_be_decoded_does_not_cost_the_sheet(with_a_damaged_one: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    result = run("sample", str(with_a_damaged_one), "--policy", "uniform:frames=3", "--sheet", str(sheet))
    assert result.exit_code == 0, result.output
    assert sheet.exists()
    (said,) = [line for line in result.stderr.splitlines() if line.startswith("not drawn: ")]
    assert "one_frame.mp4: frame 0: " in said


def test_a_sheet_of_nothing_that_can_be_decoded_is_an_error(with_a_damaged_one: Path, tmp_path: Path) -> None:
    damaged = with_a_damaged_one.parent / "one_frame.mp4"
    result = run("sample", str(damaged), "--policy", "uniform:frames=3", "--sheet", str(tmp_path / "sheet.png"))
    assert result.exit_code == 1
    assert "one_frame.mp4: frame 0: " in result.stderr
    assert not (tmp_path / "sheet.png").exists()


def test_a_sheet_that_cannot_be_written_is_said(cases: Path, tmp_path: Path) -> None:
    path = str(cases / "files" / CASE)
    (tmp_path / "file").touch()
    result = run("sample", path, "--policy", "first", "--sheet", str(tmp_path / "file" / "sheet.png"))
    assert result.exit_code == 1
    assert re.search("Not a directory|File exists", result.stderr)
    assert "Traceback" not in result.output


def test_the_folder_of_a_sheet_is_made(cases: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "new" / "folder" / "sheet.png"
    result = run("sample", str(cases / "files" / CASE), "--policy", "first", "--sheet", str(sheet))
    assert result.exit_code == 0, result.output
    assert sheet.read_bytes()[:4] == b"\x89PNG"


def test_more_frames_than_can_be_held_are_wrong_usage() -> None:
    assert run("sample", "--num-frames", str(10**11), "--policy", "uniform:frames=4").exit_code == 2


@pytest.fixture
def oddly_named(cases: Path, tmp_path: Path) -> Path:
    """An index of a video whose name is not UTF-8 and would colour a terminal."""
    from vidprep.indexes import build_index

    videos = tmp_path / "videos"
    videos.mkdir()
    shutil.copy(cases / "files" / "clip_window.mp4", os.fsencode(videos) + b"/\x1b[31m\xff.mp4")
    build_index([str(videos)], str(tmp_path / "index"), workers=0)
    return tmp_path / "index"


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("policy", [(), ("--policy", "first:frames=2")], ids=["videos", "clips"])
def test_a_name_that_is_not_utf8_is_exported_as_the_index_shows_it(
    oddly_named: Path, tmp_path: Path, form: str, policy: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    result = run("export", str(oddly_named), "--format", form, *policy, "-o", str(out))
    assert result.exit_code == 0, result.output
    table = pyarrow.parquet.read_table(out) if form == "parquet" else pyarrow.csv.read_csv(out)
    assert table["video" if policy else "uri"].to_pylist() == [f"{tmp_path}/videos/\x1b[31m\\xff.mp4"]


def test_what_is_said_of_a_file_does_not_command_the_terminal(oddly_named: Path, tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(oddly_named.parent) + b"/videos/\x1b[31m\xff.mp4")
    words = ("-o", str(tmp_path / "out"))
    for result in (
        run("decode", name, "--frames", "99999", *words),
        run("sample", name + "x", "--policy", "first"),
        run("index", name + "x", *words),
        run("stats", name + "x"),
        run("export", str(oddly_named), "--format", "dali-file-list", "--policy", "first:frames=99", *words),
    ):
        assert "\\x1b[31m\\xff.mp4" in result.stderr
        assert "\x1b" not in result.stderr


def test_an_export_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    from vidprep.indexes.export import CLIP_SCHEMA, write_batches

    with pytest.raises(KeyError):
        write_batches(str(tmp_path / "out"), CLIP_SCHEMA, [{"clip": 1}], "csv")
    assert not any(tmp_path.iterdir())
