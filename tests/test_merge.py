"""Merging and compacting: each video once, in order, in folders and in an object store, whole or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from pyarrow import parquet

from tests.object_store import BUCKET, ObjectStore, serving
from vidprep.cli import main
from vidprep.errors import IndexFormatError
from vidprep.indexes import build_index, open_index
from vidprep.indexes.merge import compact_index, merge_indexes
from vidprep.indexes.state import part_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent


@pytest.fixture
def shards(tmp_path: Path, cases: Path) -> list[Path]:
    """Two halves of the cases."""
    folders = [tmp_path / "0", tmp_path / "1"]
    for number, folder in enumerate(folders):
        build_index([cases / "files"], folder, workers=0, shard=(number, 2))
    return folders


@pytest.fixture
def many(tmp_path: Path, cases: Path) -> Path:
    """An index of 300 videos in 3 parts, two of them bad."""
    folder = tmp_path / "many"
    folder.mkdir()
    for name, numbers in {"one_frame.mp4": range(298), "zero_bytes.mp4": (298, 299)}.items():
        shutil.copy(cases / "files" / name, tmp_path / name)
        for number in numbers:
            (folder / f"{number:03d}.mp4").hardlink_to(tmp_path / name)
    build_index([folder], tmp_path / "index", workers=0)
    assert len(part_paths(tmp_path / "index")) == 3
    return tmp_path / "index"


def test_merged_shards_hold_each_video_once(shards: list[Path], tmp_path: Path, cases: Path) -> None:
    whole = tmp_path / "whole"
    build_index([cases / "files"], whole, workers=0)
    total = merge_indexes([*shards, shards[0]], tmp_path / "merged")
    merged, expected = (parquet.read_table(index).sort_by("uri") for index in (tmp_path / "merged", whole))
    assert total == len(merged)
    assert merged.equals(expected)


def test_of_a_video_that_several_hold_the_first_ones_row_is_taken(tmp_path: Path, cases: Path) -> None:
    video = tmp_path / "video.mp4"
    for number, name in enumerate(["fd_leak.mp4", "one_frame.mp4"]):
        shutil.copy(cases / "files" / name, video)
        build_index([video], tmp_path / str(number), workers=0)
    merge_indexes([tmp_path / "1", tmp_path / "0"], tmp_path / "merged")
    (row,) = open_index(tmp_path / "merged")
    assert row["num_frames"] == len(row.table) == 1


def test_an_index_is_not_written_over_and_must_be_one(shards: list[Path], tmp_path: Path) -> None:
    with pytest.raises(IndexFormatError, match="holds an index already"):
        merge_indexes(shards[:1], shards[1])
    for names in ([tmp_path / "nowhere"], [shards[0], tmp_path]):
        with pytest.raises(IndexFormatError, match="no index there"):
            merge_indexes(names, tmp_path / "new")
        assert not (tmp_path / "new").exists()


def test_compacting_keeps_rows_and_order_in_fewer_parts(many: Path, tmp_path: Path) -> None:
    assert compact_index(many, tmp_path / "new") == 300
    assert len(part_paths(tmp_path / "new")) == 1
    assert open_index(tmp_path / "new").to_table().equals(open_index(many).to_table())
    assert open_index(tmp_path / "new").fingerprint == open_index(many).fingerprint


@pytest.mark.parametrize("failpoint", ["part_unfinished", "part_unsynced", "before_rename", "after_rename"])
def test_a_merge_that_is_killed_leaves_the_whole_index_or_none(
    shards: list[Path], tmp_path: Path, failpoint: str
) -> None:
    command = [sys.executable, "-m", "vidprep", "merge", *map(str, shards), "-o", str(tmp_path / "merged")]
    environment = os.environ | {"VIDPREP_FAILPOINT": failpoint, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=environment).returncode == -signal.SIGKILL
    if failpoint == "after_rename":
        assert len(open_index(tmp_path / "merged")) == sum(len(open_index(shard)) for shard in shards)
    else:
        assert not (tmp_path / "merged").exists()
        merge_indexes(shards, tmp_path / "merged")


# ---- in an object store


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectStore]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    with serving(monkeypatch) as store:
        yield store


def _run(*words: object) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_stats_merge_and_compact_take_indexes_of_a_store(
    s3: ObjectStore, shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = sum(len(open_index(shard)) for shard in shards)
    for shard in shards:
        for part in part_paths(shard):
            s3.put_file(f"shard-{shard.name}/{part.name}", part)
    far = [f"s3://{BUCKET}/shard-{shard.name}" for shard in shards]
    assert f"{total} videos" in _run("merge", *far, "-o", f"s3://{BUCKET}/merged")
    assert f"{total} videos" in _run("compact", f"s3://{BUCKET}/merged", "-o", f"s3://{BUCKET}/small")
    assert f"{total} videos" in _run("compact", f"s3://{BUCKET}/merged", "-o", tmp_path / "near")
    assert str(total) in _run("stats", f"s3://{BUCKET}/small")
    merge_indexes(shards, tmp_path / "merged here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another host"))
    expected = open_index(tmp_path / "merged here").fingerprint
    for name in (f"s3://{BUCKET}/merged", f"s3://{BUCKET}/small", tmp_path / "near"):
        assert open_index(name).fingerprint == expected


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        (["stats", f"s3://{BUCKET}/none"], 2, f"no such index: s3://{BUCKET}/none"),
        (["merge", f"s3://{BUCKET}/none", "-o", "new"], 2, f"no such index: s3://{BUCKET}/none"),
        (
            ["compact", f"s3://{BUCKET}/held", "-o", f"s3://{BUCKET}/held"],
            1,
            f"s3://{BUCKET}/held: holds an index already",
        ),
        (["stats", "s3://no-such-bucket/index"], 2, "no such index: s3://no-such-bucket/index"),
    ],
)
def test_what_is_no_index_in_a_store_is_one_clear_line(
    s3: ObjectStore, many: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], exit_code: int,
    message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for part in part_paths(many):
        s3.put_file(f"held/{part.name}", part)
    result = CliRunner().invoke(main, words)
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


# ---- checksums go along


def test_checksums_stay_with_their_videos(tmp_path: Path, cases: Path) -> None:
    names = ("fd_leak.mp4", "open_gop.mp4")
    for name in names:
        build_index([cases / "files" / name], tmp_path / name, workers=0, checksums=name == "open_gop.mp4")
    merge_indexes([tmp_path / name for name in names], tmp_path / "merged")
    compact_index(tmp_path / "merged", tmp_path / "compact")
    for index in ("merged", "compact"):
        without, with_checksums = open_index(tmp_path / index)
        assert without.table.crc32 is None
        assert with_checksums.table.crc32.tolist() == open_index(tmp_path / "open_gop.mp4")[0].table.crc32.tolist()
        (part,) = part_paths(tmp_path / index)
        assert parquet.read_table(part)["sample_crc32"].null_count == 1
