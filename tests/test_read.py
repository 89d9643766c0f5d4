"""Reading an index: views, rows, the cache, pickles, and other people's readers."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pytest
from pyarrow import dataset

from vidprep.errors import IndexFormatError
from vidprep.indexes import build_index, open_index, probe
from vidprep.indexes.merge import compact_index
from vidprep.indexes.schema import VIDEO_NAMES
from vidprep.indexes.state import state_folder
from vidprep.indexes.summary import summarise

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cases: Path) -> Path:
    """An index of all cases."""
    index = tmp_path_factory.mktemp("read") / "index"
    build_index([cases / "files"], index, workers=2)
    return index


def test_every_readable_row_is_what_a_probe_says(built: Path) -> None:
    index = open_index(built).where(status="ok")
    assert len(index) > 50
    for row in index:
        video = probe(row.uri)
        assert row.identity == video.identity
        assert row.info == video.info
        assert row.access == video.access
        assert row.keys_verified == video.keys_verified
        for name in ("offset", "size", "pts", "flags"):
            assert np.array_equal(getattr(row.table, name), getattr(video.table, name)), (row, name)
        assert np.array_equal(row.timeline.pts, video.timeline.pts)
        assert np.array_equal(row.timeline.keyframes, video.timeline.keyframes)
        assert row.timeline.timing == video.timeline.timing


def test_positions_count_like_a_sequence(built: Path) -> None:
    index = open_index(built)
    assert index[-1].uri == index[len(index) - 1].uri == list(index)[-1].uri
    for position in (len(index), -len(index) - 1):
        with pytest.raises(IndexError):
            index[position]


def test_conditions_narrow_a_view(built: Path) -> None:
    index = open_index(built)
    view = index.where(status="ok", codec="h264", min_frames=16, max_frames=60, is_vfr=False)
    expected = [
        row.uri
        for row in index
        if row["status"] == "ok" and row["codec"] == "h264" and 16 <= row["num_frames"] <= 60 and row["is_vfr"] is False
    ]
    assert [row.uri for row in view] == expected
    assert 5 < len(expected) < len(index)
    assert [row.uri for row in index.where(status="ok").where(codec=["h264"])] == [
        row.uri for row in index.where(codec="h264", status="ok")
    ]


def test_any_expression_and_null_and_sets_are_conditions(built: Path) -> None:
    index = open_index(built)
    odd = pc.bit_wise_and(pc.field("num_frames"), pc.scalar(1)) == 1
    assert len(index.where(odd)) == int((index.column("num_frames") % 2 == 1).sum())
    assert len(index.where(error_reason=None)) == len(index.where(status="ok"))
    assert len(index.where(codec={"vp8", "vp9"})) == len(index.where(codec="vp8")) + len(index.where(codec="vp9"))
    assert len(index.where(codec="no such codec")) == 0
    assert len(index.where()) == len(index)


def test_an_unknown_column_is_named(built: Path) -> None:
    for call in (
        lambda index: index.where(colour=3),
        lambda index: index.where(min_x=3),
        lambda index: index.column("x"),
    ):
        with pytest.raises(ValueError, match="no column"):
            call(open_index(built))


def test_columns_follow_the_view(built: Path) -> None:
    view = open_index(built).where(codec="h264")
    assert view.column("num_frames").tolist() == [row["num_frames"] for row in view]
    assert view.column("uri").tolist() == [row["uri"] for row in view]
    assert view.to_table(["codec", "width"]).num_rows == len(view)
    assert open_index(built).to_table().column_names == list(VIDEO_NAMES)


def test_views_and_rows_pickle_in_bytes_and_come_back(built: Path) -> None:
    view = open_index(built).where(status="ok", min_frames=16)
    data = pickle.dumps(view)
    assert len(data) < 4096
    code = (
        "import pickle, sys; view = pickle.load(sys.stdin.buffer);"
        " print(len(view), view.fingerprint, view[3].uri, int(view[3].table.size.sum()))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    output = subprocess.run([sys.executable, "-c", code], input=data, env=environment, capture_output=True, check=True)
    row = pickle.loads(pickle.dumps(view[3]))
    assert row.uri == view[3].uri
    assert output.stdout.decode().split() == [
        str(len(view)), view.fingerprint, view[3].uri, str(int(view[3].table.size.sum())),
    ]  # fmt: skip


def test_fingerprints_follow_content_and_order_only(built: Path, tmp_path: Path) -> None:
    index = open_index(built)
    shutil.copytree(built, tmp_path / "copy")
    assert open_index(tmp_path / "copy").fingerprint == index.fingerprint
    compact_index(built, tmp_path / "compact")
    assert open_index(tmp_path / "compact").fingerprint == index.fingerprint
    assert index.where(status="ok").fingerprint != index.fingerprint
    assert index.where(status="ok").fingerprint == open_index(built).where(status="ok").fingerprint


def test_a_pickle_of_an_index_that_changed_is_refused(tmp_path: Path, cases: Path) -> None:
    build_index([cases / "files" / "fd_leak.mp4"], tmp_path / "index", workers=0)
    data = pickle.dumps(open_index(tmp_path / "index"))
    build_index([cases / "files" / "one_frame.mp4"], tmp_path / "index", workers=0)
    with pytest.raises(IndexFormatError, match="changed"):
        pickle.loads(data)
    assert len(open_index(tmp_path / "index")) == 2


def test_a_read_only_index_keeps_its_cache_elsewhere(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "there" / "index"
    shutil.copytree(built, index)
    state_folder(index).write_text("a file where the state folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert len(open_index(index)) == len(open_index(built))
    assert list((tmp_path / "home" / "vidprep").rglob("meta.json"))
    open_index(index, cache_dir=tmp_path / "mine")
    assert list((tmp_path / "mine").rglob("frames.bin"))


def test_processes_that_open_at_once_build_one_cache(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built, tmp_path / "index")
    code = f"from vidprep.indexes import open_index; print(open_index({str(tmp_path / 'index')!r}).fingerprint)"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(4)
    ]
    assert {process.communicate()[0].decode().strip() for process in running} == {open_index(built).fingerprint}
    caches = [path for path in (state_folder(tmp_path / "index") / "cache").iterdir() if path.is_dir()]
    assert len(caches) == 1


def test_indexes_that_share_a_cache_folder_keep_a_cache_each(built: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(built, other)
    for index in (built, other, built):
        open_index(index, cache_dir=tmp_path / "shared")
    assert len(list((tmp_path / "shared").rglob("meta.json"))) == 2


def test_a_cache_is_built_anew_when_the_parts_change(tmp_path: Path, cases: Path) -> None:
    index = tmp_path / "index"
    build_index([cases / "files" / "fd_leak.mp4"], index, workers=0)
    first = open_index(index)
    build_index([cases / "files" / "one_frame.mp4"], index, workers=0)
    assert len(open_index(index)) == 2
    assert first[0].table.size.sum() > 0, "an open view goes on with what it mapped"
    assert len([path for path in (state_folder(index) / "cache").iterdir() if path.is_dir()]) == 1


def test_other_readers_see_one_row_per_video(built: Path) -> None:
    count = len(open_index(built))
    frames = int(open_index(built).column("num_samples").sum())
    assert dataset.dataset(built).count_rows() == count
    assert sum(map(len, pd.read_parquet(built)["sample_sizes"])) == frames
    found = duckdb.sql(
        f"select count(*), sum(len(sample_sizes)), sum(num_samples) from '{built}/*.parquet'"
    ).fetchall()[0]
    assert found == (count, frames, frames)
    lists = pl.read_parquet(f"{built}/*.parquet")["sample_gaps"]
    assert (len(lists), lists.list.len().sum()) == (count, frames)


def test_a_summary_counts_what_is_there(built: Path) -> None:
    index = open_index(built)
    facts = summarise(index)
    assert facts["videos"] == len(index) == facts["ok"] + facts["failed"]
    assert facts["frames"] == sum(row["num_frames"] for row in index)
    assert sum(facts["failures"].values()) == facts["failed"]
    assert sum(facts["codec"].values()) == sum(facts["resolution"].values()) == facts["ok"]
    for name in ("duration_seconds", "avg_fps", "num_frames"):
        assert sum(count for *_, count in facts[name]["histogram"]) == facts["ok"]
    assert summarise(index.where(codec="none"))["num_frames"] is None
