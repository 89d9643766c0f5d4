"""What SRC means: files, folders, links, lists, tars, in a fixed order."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tarfile
import tracemalloc
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from vidprep.errors import SourceError
from vidprep.sources.listing import Rules, list_items
from vidprep.sources.lists import read_list


def _make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def _paths(*sources: object, rules: Rules | None = None) -> list[str]:
    return [item.path for item in list_items([str(source) for source in sources], rules)]


def _below(folder: Path, *sources: object, rules: Rules | None = None) -> list[str]:
    return [os.path.relpath(path, folder) for path in _paths(*(sources or (folder,)), rules=rules)]


def test_a_folder_gives_videos_and_names_without_extension_in_sorted_order(tmp_path: Path) -> None:
    _make(tmp_path, "b.mp4", "a.MKV", "notes.txt", "clip", "sub/c.webm", "sub/deep/d.ts", "a.mp4/e.mov")
    assert _below(tmp_path) == ["a.MKV", "b.mp4", "clip", "a.mp4/e.mov", "sub/c.webm", "sub/deep/d.ts"]


def test_hidden_names_and_leftovers_are_passed_over(tmp_path: Path) -> None:
    _make(tmp_path, "._a.mp4", ".b.mp4", ".git/c.mp4", "a.mp4")
    assert _below(tmp_path) == ["a.mp4"]


def test_a_file_named_directly_is_always_taken(tmp_path: Path) -> None:
    _make(tmp_path, "._a.txt")
    assert _below(tmp_path, tmp_path / "._a.txt") == ["._a.txt"]


def test_patterns_decide_by_name_or_by_path(tmp_path: Path) -> None:
    _make(tmp_path, "a.mp4", "b.bin", "train/c.mp4", "test/d.mp4")
    assert _below(tmp_path, rules=Rules(("*.bin",))) == ["b.bin"]
    assert _below(tmp_path, rules=Rules(("train/*",))) == ["train/c.mp4"]
    assert _below(tmp_path, rules=Rules(("*.bin", "test/*.mp4"))) == ["b.bin", "test/d.mp4"]


def test_items_know_absolute_uri_size_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make(tmp_path, "v/a.mp4")
    monkeypatch.chdir(tmp_path)
    (item,) = list_items(["v"])
    assert (item.uri, item.path) == (str(tmp_path / "v/a.mp4"), "v/a.mp4")
    assert item.identity is not None
    assert item.identity.size_bytes == 1
    assert item.identity.mtime_ns == (tmp_path / "v/a.mp4").stat().st_mtime_ns


def test_link_loops_end_and_no_folder_is_listed_twice(tmp_path: Path) -> None:
    _make(tmp_path, "real/a.mp4", "real/sub/b.mp4")
    (tmp_path / "a_link").symlink_to("real")
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "real" / "self").symlink_to("self")
    assert _below(tmp_path) == ["real/self", "real/a.mp4", "real/sub/b.mp4"] or _below(tmp_path) == [
        "real/a.mp4",
        "real/self",
        "real/sub/b.mp4",
    ]


def test_links_to_files_are_followed_and_dangling_ones_kept_for_an_error_row(tmp_path: Path) -> None:
    _make(tmp_path, "a.mp4")
    (tmp_path / "b.mp4").symlink_to("a.mp4")
    (tmp_path / "c.mp4").symlink_to("nowhere")
    items = list(list_items([str(tmp_path)]))
    assert [Path(item.path).name for item in items] == ["a.mp4", "b.mp4", "c.mp4"]
    assert [item.identity is None for item in items] == [False, False, True]


def test_any_bytes_make_a_name(tmp_path: Path) -> None:
    names = [b"latin1-\xe9.mp4", b"new\nline.mp4", b"quote'\".mp4", b"-dash.mp4", b"100%.mp4", b"a::b.mp4"]
    for name in names:
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))).write_bytes(b"x")
    found = [os.fsencode(Path(path).name) for path in _paths(tmp_path)]
    assert found == sorted(names)


def test_a_missing_source_is_an_error_and_a_missing_entry_is_a_row(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not_found"):
        _paths(tmp_path / "nothing")
    listing = tmp_path / "list.txt"
    listing.write_text(f"{tmp_path}/nothing.mp4\n")
    (item,) = list_items([f"@{listing}"])
    assert item.error is not None
    assert item.error.reason == "not_found"


@pytest.mark.parametrize("kind", ["txt", "crlf", "nul", "csv", "tsv", "parquet", "only column"])
def test_lists_name_files_and_folders(tmp_path: Path, kind: str) -> None:
    _make(tmp_path, "v/a.mp4", "b.mp4")
    entries = [str(tmp_path / "v"), str(tmp_path / "b.mp4")]
    path = tmp_path / "list.txt"
    if kind in ("csv", "tsv"):
        path = tmp_path / f"list.{kind}"
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if kind == "tsv" else ",")
            writer.writerows([("label", "path"), *((f"x, {entry}", entry) for entry in entries)])
    elif kind in ("parquet", "only column"):
        path = tmp_path / "list.parquet"
        name = "path" if kind == "parquet" else "whatever"
        parquet.write_table(pa.table({name: entries}), path)
    else:
        mark = {"txt": "\n", "crlf": "\r\n", "nul": "\0"}[kind]
        path.write_bytes(mark.join([*entries, ""]).encode())
    assert _below(tmp_path, f"@{path}") == ["v/a.mp4", "b.mp4"]


def test_a_named_column_is_used_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    _make(tmp_path, "a.mp4")
    path = tmp_path / "list.csv"
    path.write_text(f"one,two\nx,{tmp_path}/a.mp4\n")
    assert _below(tmp_path, f"@{path}", rules=Rules(column="two")) == ["a.mp4"]
    with pytest.raises(SourceError, match="no column"):
        _paths(f"@{path}")


@pytest.mark.parametrize("kind", ["txt", "csv", "parquet"])
def test_blank_entries_are_passed_over_and_nothing_else(tmp_path: Path, kind: str) -> None:
    _make(tmp_path, "#1.mp4", " a.mp4")
    entries = ["", str(tmp_path / "#1.mp4"), "   ", "\t", str(tmp_path / " a.mp4"), " "]
    path = tmp_path / f"list.{kind}"
    if kind == "parquet":
        parquet.write_table(pa.table({"path": [*entries, None]}), path)
    else:
        path.write_text("\n".join([*(["path"] if kind == "csv" else []), *entries, "\r\n \r\n"]))
    assert _below(tmp_path, f"@{path}") == ["#1.mp4", " a.mp4"]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    _make(tmp_path, "a.mp4")
    (tmp_path / "list.txt").write_text(f"{tmp_path}/a.mp4\n", encoding="utf-8-sig")
    assert _below(tmp_path, f"@{tmp_path}/list.txt") == ["a.mp4"]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("x.parquet", b"PAR1 and nothing", "cannot be read"),
        ("x.csv", b"path\n" + b'"' + b"a" * 200_000, "cannot be read"),
        ("x.csv", b"", "no column"),
        ("x.txt", b"a" * (3 << 20), "an entry of more than 1 MiB"),
        ("x.txt", "/\r\n".encode("utf-16"), "UTF-16"),  # its NULs would separate "/" from the rest
        ("x.csv", "path\r\n/\r\n".encode("utf-16"), "UTF-16"),
        ("x.csv.gz", b"\x1f\x8b\x08", "compressed"),
        ("x.pq", b"PAR1" + bytes(99), "Parquet"),
        ("x.csv", b"a.mp4\nb.mp4\n", r"'a\.mp4' looks like a file"),
        ("x.csv", b"set/a\nset/b\n", "'set/a' looks like a file"),
    ],
)
def test_a_list_that_is_none_says_so(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match=says) as caught:
        _paths(f"@{tmp_path / name}")
    assert caught.value.uri == str(tmp_path / name)


def test_kinds_of_lists_are_known_by_names_in_capitals_too(tmp_path: Path) -> None:
    _make(tmp_path, "a.mp4")
    (tmp_path / "X.CSV").write_text(f"path,label\n{tmp_path}/a.mp4,1\n")
    (tmp_path / "X.TSV").write_text(f"label\tpath\n1\t{tmp_path}/a.mp4\n")
    parquet.write_table(pa.table({"path": [f"{tmp_path}/a.mp4"]}), tmp_path / "X.PARQUET")
    assert _below(tmp_path, *(f"@{tmp_path}/X.{kind}" for kind in ("CSV", "TSV", "PARQUET"))) == ["a.mp4"] * 3


def test_file_uris_are_paths(tmp_path: Path) -> None:
    _make(tmp_path, "set/a.mp4")
    (tmp_path / "list.txt").write_text(f"file://{tmp_path}/set/a.mp4\nfile://{tmp_path}/set\n")
    items = list(list_items([f"@{tmp_path}/list.txt", f"file://{tmp_path}/set/a.mp4"]))
    assert {(item.uri, item.identity and item.identity.size_bytes, item.error) for item in items} == {
        (f"{tmp_path}/set/a.mp4", 1, None)
    }


def test_the_state_of_an_index_among_videos_is_passed_over(tmp_path: Path) -> None:
    _make(tmp_path, "a.mp4", "index.vidprep/cache/lock", "index.vidprep/part.lock", "index/part-0.parquet")
    assert _below(tmp_path) == ["a.mp4"]


def test_a_column_of_numbers_is_no_list(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"path": [1, 2]}), tmp_path / "x.parquet")
    with pytest.raises(SourceError, match="column path holds int64"):
        _paths(f"@{tmp_path}/x.parquet")


@pytest.mark.parametrize("kind", ["txt", "csv", "parquet"])
def test_lists_are_read_as_they_are_asked_for(tmp_path: Path, kind: str) -> None:
    """A hundred thousand entries: taking ten costs no more memory than a piece of the list."""
    entries, path = [f"/nowhere/{n:090d}.mp4" for n in range(100_000)], tmp_path / f"list.{kind}"
    if kind == "parquet":
        parquet.write_table(pa.table({"path": entries}), path, row_group_size=10_000)
    else:
        path.write_text("\n".join((["path"] if kind == "csv" else []) + entries))
    tracemalloc.start()
    found = list(islice(read_list(str(path)), 10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == entries[:10]
    assert peak < 8 << 20


def test_nul_separated_names_on_stdin_may_hold_newlines(tmp_path: Path) -> None:
    _make(tmp_path, "new\nline.mp4")
    code = (
        "import json; from vidprep.sources.listing import list_items;"
        " print(json.dumps([item.path for item in list_items(['-'])]))"
    )
    entry = f"{tmp_path}/new\nline.mp4\0".encode()
    output = subprocess.run([sys.executable, "-c", code], input=entry, capture_output=True, check=True).stdout
    assert json.loads(output) == [f"{tmp_path}/new\nline.mp4"]


def test_tars_in_folders_give_their_members(tmp_path: Path) -> None:
    _make(tmp_path, "x/a.mp4", "x/._a.mp4", "x/a.json", "x/b.c.mp4")
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        tar.add(tmp_path / "x", "k")
    found = _below(tmp_path)
    assert found == ["shard.tar::k/a.mp4", "shard.tar::k/b.c.mp4", "x/a.mp4", "x/b.c.mp4"]
    assert _below(tmp_path, rules=Rules(("*.json",))) == ["shard.tar::k/a.json", "x/a.json"]


def test_a_damaged_tar_costs_a_row_of_its_own_beside_its_members(tmp_path: Path) -> None:
    _make(tmp_path, "x/a.mp4", "x/b.mp4")
    for name in ("cut.tar", "header.tar", "garbage.tar"):
        with tarfile.open(tmp_path / name, "w", format=tarfile.USTAR_FORMAT) as tar:
            tar.add(tmp_path / "x" / "a.mp4", "a.mp4")
            tar.add(tmp_path / "x" / "b.mp4", "b.mp4")
    for name, size in [("cut.tar", 1536), ("header.tar", 1300), ("garbage.tar", 0)]:
        os.truncate(tmp_path / name, size)
    items = list(list_items([str(tmp_path / name) for name in ("cut.tar", "header.tar", "garbage.tar")]))
    assert [(os.path.relpath(item.path, tmp_path), item.error and str(item.error.reason)) for item in items] == [
        ("cut.tar::a.mp4", None),
        ("cut.tar::b.mp4", "truncated"),
        ("header.tar::a.mp4", None),
        ("header.tar", "truncated"),
        ("garbage.tar", "empty"),
    ]


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tgz", "x.tar.zst", "x.tar.xz"])
def test_a_compressed_archive_is_refused_by_name(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    _make(tmp_path, name, "a.mp4")
    (item,) = list_items([str(tmp_path / name)])
    assert item.error is not None
    assert (item.error.reason, "decompress" in item.error.message) == ("unsupported_container", True)
    assert _below(tmp_path) == ["a.mp4"]
    assert f"{name}': a compressed archive" in caplog.text


def test_a_folder_that_cannot_be_read_costs_one_row(tmp_path: Path) -> None:
    _make(tmp_path, "a.mp4", "locked/b.mp4")
    (tmp_path / "locked").chmod(0)
    try:
        if os.access(tmp_path / "locked", os.R_OK):
            pytest.skip("this user may read anything")
        items = list(list_items([str(tmp_path)]))
    finally:
        (tmp_path / "locked").chmod(0o755)
    assert [item.error is None for item in items] == [True, False]
