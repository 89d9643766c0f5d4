"""Object stores, against moto's S3 server on loopback: ranges, etags, retries, time-outs, tars, and an index that lives there."""

from __future__ import annotations

import io
import logging
import shutil
import struct
import tarfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyarrow import parquet

from tests import store_laws
from tests.object_store import BUCKET, ObjectStore, serving
from vidprep.errors import Reason, SourceError, StaleIndexError
from vidprep.indexes import build_index, mirror, open_index, probe
from vidprep.indexes.state import part_paths
from vidprep.loaders.clip_source import ClipSource, Place
from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.samplers import Plan, RandomClip
from vidprep.sources import open_source
from vidprep.sources.listing import Rules, list_items
from vidprep.sources.neighbours import Block, Blocks
from vidprep.sources.store_arrow import ArrowStore
from vidprep.sources.stores import Store, forget_stores, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("clip_window.mp4", "one_frame.mp4", "open_gop.mp4", "fmp4_plain.mp4", "zero_bytes.mp4", "moov_missing.mp4")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with serving(monkeypatch) as store:
        yield store


@pytest.fixture
def files(cases: Path) -> Path:
    return cases / "files"


def padded(mp4: bytes, padding: int, *, at_front: bool) -> bytes:
    """An MP4 file that is `padding` bytes longer, by a `free` box before its mdat-first content or at its end."""
    box = struct.pack(">I4s", padding + 8, b"free") + bytes(padding)
    return box + mp4 if at_front else mp4 + box


def rows_of(index: Path) -> list[dict[str, Any]]:
    return [row for part in part_paths(index) for row in parquet.read_table(part).to_pylist()]


def without_place(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in {"uri", "uri_bytes", "path", "mtime_ns", "etag"}}


# ---- stores


@pytest.fixture(params=["botocore", "pyarrow"])
def store(request: pytest.FixtureRequest, s3: ObjectStore) -> Store:
    for key, data in store_laws.OBJECTS.items():
        s3.put(key, data)
    return store_of("s3") if request.param == "botocore" else ArrowStore("s3")


def test_a_store_lists_looks_up_and_reads(store: Store) -> None:
    store_laws.lists_looks_up_and_reads(store, BUCKET)


def test_a_store_says_what_is_not_there_and_what_changed(store: Store) -> None:
    store_laws.says_what_is_not_there_and_what_changed(store, BUCKET, ["another"])


def test_a_local_file_becomes_an_object(store: Store, tmp_path: Path) -> None:
    store_laws.makes_an_object_of_a_file(store, BUCKET, tmp_path)


def test_a_block_that_could_not_be_had_is_asked_for_again(s3: ObjectStore) -> None:
    blocks, block = Blocks(), Block(f"s3://{BUCKET}/late.tar", None, 0)
    with pytest.raises(SourceError):
        blocks.get(block, None)
    s3.put("late.tar", b"there now")
    assert blocks.get(block, None) == b"there now"


# ---- indexing


def test_an_index_of_objects_has_the_rows_of_the_files(s3: ObjectStore, tmp_path: Path, files: Path) -> None:
    names = sorted(path.name for path in files.iterdir() if path.suffix not in {".tar", ".json"})
    for name in names:
        s3.put_file(f"set/{name}", files / name)
    summary = build_index([f"s3://{BUCKET}/set"], tmp_path / "far", workers=1)
    build_index([files / name for name in names], tmp_path / "near", workers=1)
    assert summary.videos == len(names)
    far, near = rows_of(tmp_path / "far"), rows_of(tmp_path / "near")
    assert [without_place(row) for row in far] == [without_place(row) for row in near]
    assert all(row["etag"] for row in far)
    assert s3.middleware.methods()["HEAD"] == 1  # whether the source is an object or a folder


def test_header_bytes_only_and_few_requests(s3: ObjectStore, tmp_path: Path, files: Path) -> None:
    """Tables in the first bytes or at the end of 1 MiB: one or two ranges, and nothing of what lies between."""
    head, tail = (files / "clip_window.mp4").read_bytes(), (files / "many_mdat_moov_end.mp4").read_bytes()
    for number in range(20):
        s3.put(f"set/head-{number:02d}.mp4", padded(head, 1 << 20, at_front=False))
        s3.put(f"set/tail-{number:02d}.mp4", padded(tail, 1 << 20, at_front=True))
    s3.middleware.forget()
    summary = build_index([f"s3://{BUCKET}/set"], tmp_path / "index", workers=1)
    assert (summary.ok, summary.failed) == (40, 0)
    gets = [what for method, _, what in s3.middleware.requests if what.startswith("bytes=")]
    assert s3.middleware.methods()["HEAD"] == 1
    assert len(s3.middleware.requests) / 40 <= 2.2
    assert all(len(s3.middleware.ranges_of(f"head-{number:02d}.mp4")) <= 2 for number in range(20))
    ranged = [tuple(map(int, what.removeprefix("bytes=").split("-"))) for what in gets]
    assert sum(end - start + 1 for start, end in ranged) < 40 * 300_000


def test_many_requests_are_in_flight(s3: ObjectStore, tmp_path: Path, files: Path) -> None:
    for number in range(100):
        s3.put_file(f"set/{number:03d}.mp4", files / "one_frame.mp4")
    s3.middleware.forget()
    s3.middleware.delay_seconds = 0.1
    assert build_index([f"s3://{BUCKET}/set"], tmp_path / "index", workers=1).ok == 100
    assert s3.middleware.most_at_once >= 20
    assert [Path(row["uri"]).name for row in rows_of(tmp_path / "index")] == [f"{n:03d}.mp4" for n in range(100)]


def test_errors_that_pass_are_tried_again(s3: ObjectStore, tmp_path: Path, files: Path) -> None:
    for number in range(30):
        s3.put_file(f"set/{number:03d}.mp4", files / "one_frame.mp4")
    s3.middleware.fail_every = 5
    assert build_index([f"s3://{BUCKET}/set"], tmp_path / "index", workers=1).ok == 30


def test_errors_that_stay_cost_a_row_each_and_update_mends_them(
    s3: ObjectStore, tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put_file("set/a.mp4", files / "one_frame.mp4")
    s3.middleware.fail_every = 1
    monkeypatch.setattr("vidprep.sources.store_s3.MAX_ATTEMPTS", 2)
    forget_stores()
    summary = build_index([f"s3://{BUCKET}/set"], tmp_path / "index", workers=0)
    assert (summary.failed, dict(summary.reasons)) == (1, {"unreadable": 1})
    s3.middleware.fail_every = 0
    assert build_index([f"s3://{BUCKET}/set"], tmp_path / "index", workers=0, update=True).updated == 1


def test_a_store_that_does_not_answer_costs_that_file_its_time(s3: ObjectStore, tmp_path: Path, files: Path) -> None:
    for name in ("a.mp4", "slow.mp4", "z.mp4"):
        s3.put_file(f"set/{name}", files / "one_frame.mp4")
    s3.middleware.hang = "slow"
    summary = build_index([f"s3://{BUCKET}/set"], tmp_path / "index", workers=1, timeout_seconds=3)
    assert (summary.ok, dict(summary.reasons)) == (2, {"timeout": 1})


def test_update_goes_by_the_etag(s3: ObjectStore, tmp_path: Path, files: Path) -> None:
    for name in NAMES:
        s3.put_file(f"set/{name}", files / name)
    source = f"s3://{BUCKET}/set"
    build_index([source], tmp_path / "index", workers=0)
    s3.put_file("set/one_frame.mp4", files / "fd_leak.mp4")
    s3.put_file("set/new.mp4", files / "rotate90.mp4")
    s3.client.delete_object(Bucket=BUCKET, Key="set/open_gop.mp4")
    summary = build_index([source], tmp_path / "index", workers=0, update=True)
    assert (summary.added, summary.updated, summary.vanished, summary.skipped) == (1, 1, 1, 4)


def test_a_transport_stream_is_read_whole_and_the_log_says_so(
    s3: ObjectStore, files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vidprep.sources.held.FETCH_BYTES", 4096)  # the case is a short one
    monkeypatch.setattr("vidprep.indexes.ahead._MAX_FETCHES", 1)
    s3.put_file("set/a.ts", files / "ts_wrap33.ts")
    with caplog.at_level(logging.WARNING):
        assert build_index([f"s3://{BUCKET}/set/a.ts"], tmp_path / "index", workers=0).ok == 1
    assert "read on in blocks" in caplog.text
    near = probe(str(files / "ts_wrap33.ts"))
    assert np.array_equal(open_index(tmp_path / "index")[0].timeline.pts, near.timeline.pts)


@pytest.mark.parametrize(("name", "count"), [("weird_paths.tar", 14), ("wds_dotted_keys.tar", 3)])
def test_members_of_tars_in_a_store_are_read_in_place(
    s3: ObjectStore, tmp_path: Path, files: Path, name: str, count: int
) -> None:
    s3.put_file(f"shards/{name}", files / name)
    summary = build_index([f"s3://{BUCKET}/shards"], tmp_path / "far", workers=1)
    build_index([files / name], tmp_path / "near", workers=0)
    assert summary.ok == count
    assert [without_place(row) for row in rows_of(tmp_path / "far")] == [
        without_place(row) for row in rows_of(tmp_path / "near")
    ]


def put_shard(s3: ObjectStore, count: int, video: bytes) -> str:
    """A WebDataset shard of videos with a label each."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for number in range(count):
            for ending, data in (("mp4", video), ("json", b"{}")):
                info = tarfile.TarInfo(f"{number:05d}.{ending}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return s3.put("shards/0.tar", held.getvalue())


def test_small_members_of_a_tar_are_read_together(s3: ObjectStore, tmp_path: Path, files: Path) -> None:
    video = (files / "one_frame.mp4").read_bytes()
    video = padded(video, 30_000, at_front=False)
    uri = put_shard(s3, 400, video)
    size = s3.client.head_object(Bucket=BUCKET, Key="shards/0.tar")["ContentLength"]
    s3.middleware.forget()
    items = list(list_items([uri]))
    assert len(items) == 400
    listing = len(s3.middleware.ranges_of("0.tar"))
    s3.middleware.forget()
    assert build_index([uri], tmp_path / "index", workers=1).ok == 400
    both = len(s3.middleware.ranges_of("0.tar"))
    blocks = -(-size // (4 << 20))
    assert listing <= blocks + 5  # the first reads are smaller ones
    assert both - listing <= blocks + 3  # a block on the border of two units is read for each
    assert {row["num_frames"] for row in rows_of(tmp_path / "index")} == {1}


def test_large_members_of_a_tar_are_passed_over(s3: ObjectStore, tmp_path: Path, files: Path) -> None:
    video = padded((files / "one_frame.mp4").read_bytes(), 1 << 20, at_front=False)
    uri = put_shard(s3, 12, video)
    s3.middleware.forget()
    assert build_index([uri], tmp_path / "index", workers=1).ok == 12
    ranges = [tuple(map(int, what.removeprefix("bytes=").split("-"))) for what in s3.middleware.ranges_of("0.tar")]
    assert len(ranges) <= 12 * 2 + 2
    assert sum(end - start + 1 for start, end in ranges) < 12 * 300_000


def test_a_tar_that_changed_after_it_was_listed_gives_no_rows_of_other_bytes(
    s3: ObjectStore, tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = (files / "one_frame.mp4").read_bytes()
    uri = put_shard(s3, 20, video)
    items = list(list_items([uri]))
    put_shard(s3, 20, padded(video, 4000, at_front=True))
    monkeypatch.setattr("vidprep.indexes.build.list_items", lambda *_: items)
    summary = build_index([uri], tmp_path / "index", workers=0)
    assert (summary.ok, dict(summary.reasons)) == (0, {"stale": 20})


def test_an_unfinished_tar_in_a_store_gives_its_members_and_is_mended_by_update(
    s3: ObjectStore, tmp_path: Path, files: Path
) -> None:
    whole = (files / "wds_dotted_keys.tar").read_bytes()
    s3.put("shards/x.tar", whole[:5300])  # inside the header of the third file
    source, index = f"s3://{BUCKET}/shards", tmp_path / "index"
    summary = build_index([source], index, workers=0)
    assert (summary.ok, dict(summary.reasons)) == (2, {"truncated": 1})
    assert build_index([source], index, workers=0, update=True).skipped == 3
    s3.put("shards/x.tar", whole)
    summary = build_index([source], index, workers=0, update=True)
    assert (summary.added, summary.updated, summary.vanished) == (1, 2, 1)
    assert sorted(str(row["error_reason"]) for row in rows_of(index)) == ["None", "None", "None", "vanished"]


def test_a_list_of_objects_is_looked_up_side_by_side(s3: ObjectStore, tmp_path: Path, files: Path) -> None:
    uris = [s3.put_file(f"set/{number}.mp4", files / "one_frame.mp4") for number in range(20)]
    (tmp_path / "list.txt").write_text("\n".join([*uris, f"s3://{BUCKET}/set/none.mp4"]))
    s3.middleware.forget()
    s3.middleware.delay_seconds = 0.05
    items = list(list_items([f"@{tmp_path / 'list.txt'}"], Rules()))
    assert [item.uri for item in items] == [*uris, f"s3://{BUCKET}/set/none.mp4"]
    assert all(item.identity and item.identity.etag for item in items[:-1])
    assert items[-1].error is not None
    assert items[-1].error.reason == Reason.NOT_FOUND
    assert s3.middleware.most_at_once > 5


# ---- reading frames, and what changed meanwhile


def test_a_cut_of_an_object_is_the_cut_of_the_file(s3: ObjectStore, files: Path, tmp_path: Path) -> None:
    uri = s3.put_file("set/a.mp4", files / "clip_window.mp4")
    build_index([uri], tmp_path / "index", workers=0)
    far, near = open_index(tmp_path / "index")[0], probe(str(files / "clip_window.mp4"))
    frames = np.array([3, 20, 70])
    with open_indexed(far) as source:
        cut = read_cut(far, source, frames)
    with open_source(near.uri) as source:
        same = read_cut(near, source, frames)
    assert [bytes(packet.data) for packet in cut.packets] == [bytes(packet.data) for packet in same.packets]


def test_reading_an_indexed_object_is_one_request_a_range(s3: ObjectStore, files: Path, tmp_path: Path) -> None:
    uri = s3.put_file("set/a.mp4", files / "clip_window.mp4")
    build_index([uri], tmp_path / "index", workers=0)
    video = open_index(tmp_path / "index")[0]
    s3.middleware.forget()
    with open_indexed(video) as source:
        cut = read_cut(video, source, np.array([3]))
    assert s3.middleware.methods() == {"GET": cut.num_reads}


@pytest.mark.parametrize("name", ["a.mp4", "b.tar"])
def test_an_object_that_vanished_says_so(s3: ObjectStore, files: Path, tmp_path: Path, name: str) -> None:
    uri = s3.put_file(f"set/{name}", files / ("clip_window.mp4" if name == "a.mp4" else "wds_dotted_keys.tar"))
    build_index([uri], tmp_path / "index", workers=0)
    video = open_index(tmp_path / "index")[0]
    s3.client.delete_object(Bucket=BUCKET, Key=f"set/{name}")
    with pytest.raises(SourceError, match="no longer there") as caught, open_indexed(video) as source:
        read_cut(video, source, np.array([0]))
    assert (caught.value.reason, caught.value.uri) == (Reason.VANISHED, video.uri)


def test_an_object_that_changed_is_an_error_that_names_it(s3: ObjectStore, files: Path, tmp_path: Path) -> None:
    uri = s3.put_file("set/a.mp4", files / "clip_window.mp4")
    build_index([uri], tmp_path / "index", workers=0)
    video = open_index(tmp_path / "index")[0]
    s3.put("set/a.mp4", (files / "clip_window.mp4").read_bytes()[::-1])
    with pytest.raises(StaleIndexError, match=r"a\.mp4.*stale"), open_indexed(video) as source:
        read_cut(video, source, np.array([3]))
    with open_source(uri, video.identity) as source, pytest.raises(SourceError, match="stale"):
        source.read_at(0, 10)


# ---- the loader


def clips_of(index: Path, **options: Any) -> list[tuple[int, bytes | None, list[str]]]:
    """(video, pixels, reasons of failures) of an epoch's clips in order."""
    plan = Plan(open_index(index), RandomClip(frames=4, stride=2), seed=3, clips_per_video=2)
    engine = CpuEngine()
    source = ClipSource(plan, engine, options.pop("on_error", "replace"))
    with closing(engine):
        return [
            (clip.video, None if clip.is_missing else clip.frames.tobytes(), [str(f.reason) for f in clip.failures])
            for clip in source.ahead([Place(0, n) for n in range(len(plan))], threads=2, depth=4)
        ]


@pytest.fixture
def twin_indexes(s3: ObjectStore, files: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The same eight videos as objects and as local files."""
    (tmp_path / "set").mkdir()
    for number in range(8):
        shutil.copyfile(files / "clip_window.mp4", tmp_path / "set" / f"{number}.mp4")
        s3.put_file(f"set/{number}.mp4", files / "clip_window.mp4")
    build_index([f"s3://{BUCKET}/set"], tmp_path / "far", workers=0)
    build_index([tmp_path / "set"], tmp_path / "near", workers=0)
    return tmp_path / "far", tmp_path / "near"


def test_clips_of_objects_are_those_of_files_and_fetched_ahead(
    s3: ObjectStore, twin_indexes: tuple[Path, Path]
) -> None:
    far, near = twin_indexes
    s3.middleware.forget()
    s3.middleware.delay_seconds = 0.1
    assert clips_of(far) == clips_of(near)
    assert s3.middleware.most_at_once > 4
    assert set(s3.middleware.methods()) == {"GET"}


def test_objects_that_vanish_or_change_are_replaced_as_files_are(
    s3: ObjectStore, twin_indexes: tuple[Path, Path]
) -> None:
    far, near = twin_indexes
    s3.client.delete_object(Bucket=BUCKET, Key="set/2.mp4")
    (near.parent / "set" / "2.mp4").unlink()
    s3.put("set/5.mp4", b"another")
    (near.parent / "set" / "5.mp4").write_bytes(b"another")
    clips = clips_of(far)
    assert clips == clips_of(near)
    assert {reason for _, _, reasons in clips for reason in reasons} == {"vanished", "stale"}
    skipped = clips_of(far, on_error="skip")
    assert skipped == clips_of(near, on_error="skip")
    assert sum(pixels is None for _, pixels, _ in skipped) == 4


def test_an_error_of_a_fetch_comes_where_its_clip_was_due(s3: ObjectStore, twin_indexes: tuple[Path, Path]) -> None:
    far, _ = twin_indexes
    s3.client.delete_object(Bucket=BUCKET, Key="set/2.mp4")
    plan = Plan(open_index(far), RandomClip(frames=4, stride=2), seed=3, clips_per_video=2)
    due = next(n for n in range(len(plan)) if plan.clip(0, n).uri.endswith("2.mp4"))
    with closing(CpuEngine()) as engine:
        clips = ClipSource(plan, engine, "raise").ahead([Place(0, n) for n in range(len(plan))], threads=2, depth=4)
        assert [next(clips).position for _ in range(due)] == list(range(due))
        with pytest.raises(SourceError, match="no longer there"):
            next(clips)


# ---- an index that lives in the store


def test_an_index_in_the_store_is_one_put_a_part_and_opens_from_there(
    s3: ObjectStore, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    for number in range(300):
        s3.put_file(f"set/{number:03d}.mp4", files / "one_frame.mp4")
    s3.middleware.forget()
    target = f"s3://{BUCKET}/index"
    assert build_index([f"s3://{BUCKET}/set"], target, workers=2).ok == 300
    puts = [path for method, path, _ in s3.middleware.requests if method == "PUT"]
    assert len(puts) == len(set(puts)) == 3
    assert s3.middleware.methods()["POST"] == 0
    assert build_index([f"s3://{BUCKET}/set"], target, workers=1).skipped == 300
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another host"))
    index = open_index(target)
    assert (len(index), index[7].uri) == (300, f"s3://{BUCKET}/set/007.mp4")
    assert index.where(status="ok")[299].timeline.num_frames == 1
    s3.put_file("set/000.mp4", files / "fd_leak.mp4")
    assert build_index([f"s3://{BUCKET}/set"], target, workers=0, update=True).updated == 1
    assert open_index(target)[0]["num_frames"] == 12
    assert len(open_index(target)) == 300


def test_a_store_that_takes_no_part_ends_the_run_and_the_next_one_goes_on(
    s3: ObjectStore, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("vidprep.sources.store_s3.MAX_ATTEMPTS", 2)
    forget_stores()
    for number in range(300):
        s3.put_file(f"set/{number:03d}.mp4", files / "one_frame.mp4")
    source, target = f"s3://{BUCKET}/set", f"s3://{BUCKET}/index"
    s3.middleware.fail_puts = True
    with pytest.raises(SourceError, match=r"SlowDown|503"):
        build_index([source], target, workers=0)
    s3.middleware.fail_puts = False
    assert build_index([source], target, workers=0).ok == 300
    assert len(open_index(target)) == 300


def test_an_index_that_changes_while_it_is_copied_is_looked_at_again(
    s3: ObjectStore, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    s3.put_file("set/a.mp4", files / "one_frame.mp4")
    source, target = f"s3://{BUCKET}/set", f"s3://{BUCKET}/index"
    build_index([source], target, workers=0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "reader"))
    fetch, changes = mirror._fetch, iter([True])

    def changing(*arguments: Any) -> None:
        if next(changes, False):  # another host's update, between the listing and the copy
            with pytest.MonkeyPatch.context() as other:
                other.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
                s3.put_file("set/a.mp4", files / "fd_leak.mp4")
                other.setattr(mirror, "_fetch", fetch)
                build_index([source], target, workers=0, update=True)
        fetch(*arguments)

    monkeypatch.setattr(mirror, "_fetch", changing)
    assert open_index(target)[0]["num_frames"] == 12
