"""Google Cloud Storage, against fake-gcs-server on loopback, by its own client and by pyarrow's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyarrow import parquet

from tests import store_laws
from tests.gcs import BUCKET, Bucket, serving
from vidprep.errors import SourceError, StaleIndexError
from vidprep.indexes import build_index, open_index, probe
from vidprep.indexes.state import part_paths
from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.sources import open_source
from vidprep.sources.store_arrow import ArrowStore
from vidprep.sources.store_gcs import GcsStore
from vidprep.sources.stores import Store, forget_stores, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def gcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with serving(monkeypatch) as bucket:
        yield bucket


@pytest.fixture
def files(cases: Path) -> Path:
    return cases / "files"


@pytest.fixture(params=["google", "pyarrow"])
def client(request: pytest.FixtureRequest, gcs: Bucket, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which client serves `gs://`; in this process only."""
    if request.param == "pyarrow":
        monkeypatch.setattr("vidprep.sources.stores._has_google", lambda: False)
        forget_stores()
    return str(request.param)


def rows_of(index: Path) -> list[dict[str, Any]]:
    return [row for part in part_paths(index) for row in parquet.read_table(part).to_pylist()]


def without_place(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in {"uri", "uri_bytes", "path", "mtime_ns", "etag"}}


@pytest.fixture
def store(client: str, gcs: Bucket) -> Store:
    for key, data in store_laws.OBJECTS.items():
        gcs.put(key, data)
    store = store_of("gs")
    assert isinstance(store, GcsStore if client == "google" else ArrowStore)
    return store


def test_a_store_lists_looks_up_and_reads(store: Store) -> None:
    listed, found = store_laws.lists_looks_up_and_reads(store, BUCKET)
    assert listed == found


def test_a_store_says_what_is_not_there_and_what_changed(store: Store) -> None:
    store_laws.says_what_is_not_there_and_what_changed(store, BUCKET, ["another", "123"])


def test_a_local_file_becomes_an_object(store: Store, tmp_path: Path) -> None:
    store_laws.makes_an_object_of_a_file(store, BUCKET, tmp_path)


def test_both_clients_tell_the_same_time_and_tag(gcs: Bucket, files: Path) -> None:
    gcs.put_file("a.mp4", files / "one_frame.mp4")
    google, arrow = GcsStore(), ArrowStore("gs")
    told, seen = google.stat(f"{BUCKET}/a.mp4"), arrow.stat(f"{BUCKET}/a.mp4")
    assert told is not None
    assert seen is not None
    assert (told.size_bytes, told.mtime_ns) == (seen.size_bytes, seen.mtime_ns)
    assert arrow.get(f"{BUCKET}/a.mp4", 4, 4, told.etag) == b"ftyp"


def test_many_pages_of_a_listing(gcs: Bucket) -> None:
    for number in range(1100):
        gcs.put(f"many/{number:04d}.mp4", b"")
    assert [path for path, _ in GcsStore().list(f"{BUCKET}/many")] == [
        f"{BUCKET}/many/{number:04d}.mp4" for number in range(1100)
    ]


def test_an_index_of_objects_has_the_rows_of_the_files(client: str, gcs: Bucket, tmp_path: Path, files: Path) -> None:
    names = sorted(path.name for path in files.iterdir() if path.suffix not in {".tar", ".json"})
    for name in names:
        gcs.put_file(f"set/{name}", files / name)
    workers = 1 if client == "google" else 0
    assert build_index([f"gs://{BUCKET}/set"], tmp_path / "far", workers=workers).videos == len(names)
    build_index([files / name for name in names], tmp_path / "near", workers=1)
    far, near = rows_of(tmp_path / "far"), rows_of(tmp_path / "near")
    assert [without_place(row) for row in far] == [without_place(row) for row in near]
    assert all(row["etag"] for row in far) == (client == "google")


def test_update_sees_new_changed_and_vanished_objects(client: str, gcs: Bucket, tmp_path: Path, files: Path) -> None:
    for name in ("clip_window.mp4", "one_frame.mp4", "open_gop.mp4"):
        gcs.put_file(f"set/{name}", files / name)
    source = f"gs://{BUCKET}/set"
    build_index([source], tmp_path / "index", workers=0)
    gcs.put("set/one_frame.mp4", (files / "one_frame.mp4").read_bytes()[::-1])  # of the same size
    gcs.put_file("set/new.mp4", files / "rotate90.mp4")
    gcs.delete("set/open_gop.mp4")
    summary = build_index([source], tmp_path / "index", workers=0, update=True)
    assert (summary.added, summary.updated, summary.vanished, summary.skipped) == (1, 1, 1, 1)


def test_members_of_tars_are_read_in_place(client: str, gcs: Bucket, tmp_path: Path, files: Path) -> None:
    gcs.put_file("shards/x.tar", files / "wds_dotted_keys.tar")
    assert build_index([f"gs://{BUCKET}/shards"], tmp_path / "far", workers=0).ok == 3
    build_index([files / "wds_dotted_keys.tar"], tmp_path / "near", workers=0)
    assert [without_place(row) for row in rows_of(tmp_path / "far")] == [
        without_place(row) for row in rows_of(tmp_path / "near")
    ]


def test_a_cut_is_that_of_the_file_and_a_changed_object_is_an_error(
    client: str, gcs: Bucket, tmp_path: Path, files: Path
) -> None:
    uri = gcs.put_file("set/a.mp4", files / "clip_window.mp4")
    build_index([uri], tmp_path / "index", workers=0)
    far, near = open_index(tmp_path / "index")[0], probe(str(files / "clip_window.mp4"))
    frames = np.array([3, 20, 70])
    with open_indexed(far) as source, open_source(near.uri) as local:
        cut, same = read_cut(far, source, frames), read_cut(near, local, frames)
    assert [bytes(packet.data) for packet in cut.packets] == [bytes(packet.data) for packet in same.packets]
    gcs.put("set/a.mp4", (files / "clip_window.mp4").read_bytes()[::-1])
    with pytest.raises(StaleIndexError, match=r"a\.mp4"), open_indexed(far) as source:
        read_cut(far, source, frames)
    gcs.delete("set/a.mp4")
    with pytest.raises(SourceError, match="no longer there"), open_indexed(far) as source:
        read_cut(far, source, frames)


def test_an_index_in_the_store_opens_from_there(
    client: str, gcs: Bucket, tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    for number in range(20):
        gcs.put_file(f"set/{number:03d}.mp4", files / "one_frame.mp4")
    target = f"gs://{BUCKET}/index"
    assert build_index([f"gs://{BUCKET}/set"], target, workers=0).ok == 20
    assert build_index([f"gs://{BUCKET}/set"], target, workers=0).skipped == 20
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another host"))
    index = open_index(target)
    assert (len(index), index[7].uri) == (20, f"gs://{BUCKET}/set/007.mp4")
    gcs.put_file("set/000.mp4", files / "fd_leak.mp4")
    assert build_index([f"gs://{BUCKET}/set"], target, workers=0, update=True).updated == 1
    assert open_index(target)[0]["num_frames"] == 12
    assert len(open_index(target)) == 20
