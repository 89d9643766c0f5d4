"""Probing one file: a video or one clear error, always a row."""

from __future__ import annotations

import os
import resource
import socket
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from clips_made import X264, make_video

from vidprep.errors import DecodeError, MediaError, SourceError
from vidprep.indexes import probe, probe_row
from vidprep.indexes.rows import TABLE
from vidprep.indexes.schema import COLUMNS
from vidprep.loaders import read_frames

if TYPE_CHECKING:
    from pathlib import Path

BAD = [
    "zero_bytes.mp4",
    "box_size_bomb.mp4",
    "moov_missing.mp4",
    "audio_only.mp4",
    "shard_cases.json",
]


def _special(kind: str, folder: Path) -> Path:
    path = folder / "special.mp4"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "link to itself":
        path.symlink_to(path)
    return path


def test_a_video_names_its_file_and_its_content(cases: Path) -> None:
    path = cases / "files" / "fd_leak.mp4"
    video = probe(str(path))
    assert video.uri == str(path)
    assert video.identity.size_bytes == path.stat().st_size
    assert video.identity.mtime_ns == path.stat().st_mtime_ns
    assert video.timeline.num_frames == 12


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_raises_a_media_error_that_names_it(cases: Path, name: str) -> None:
    path = str(cases / "files" / name)
    with pytest.raises(MediaError) as caught:
        probe(path)
    assert caught.value.uri == path
    assert caught.value.reason


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_gives_an_error_row(cases: Path, name: str) -> None:
    row = probe_row(str(cases / "files" / name))
    assert row["status"] == "error"
    assert row["error_reason"]
    assert row["num_frames"] == 0
    assert "\n" not in row["error_message"]


@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "dangling link", "link to itself"])
def test_what_is_no_file_gives_an_error_row_at_once(tmp_path: Path, kind: str) -> None:
    row = probe_row(str(_special(kind, tmp_path)))
    assert row["error_class"] == "SourceError"
    assert row["error_reason"] == ("not_found" if kind == "dangling link" else "unreadable")


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not_found"):
        probe(str(tmp_path / "nothing.mp4"))


def test_rows_hold_columns_of_the_schema_and_the_table_only(cases: Path) -> None:
    row = probe_row(str(cases / "files" / "open_gop.mp4"))
    assert set(row) - {TABLE} <= {column.name for column in COLUMNS}


def test_checksums_are_those_of_the_samples_bytes(cases: Path) -> None:
    path = cases / "files" / "many_mdat_moov_end.mp4"
    video = probe(str(path), checksums=True)
    assert video.access == "ranges"
    data = path.read_bytes()
    spans = zip(video.table.offset.tolist(), video.table.size.tolist(), strict=True)
    assert np.array_equal(video.table.crc32, [zlib.crc32(data[start : start + size]) for start, size in spans])


def test_a_changed_byte_of_samples_that_lie_in_pieces_fails_its_checksum(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.ts", frames=24, options=X264)
    video = probe(str(path), checksums=True)
    assert video.access == "demux"
    read_frames(video, [0, 23], engine="cpu")
    data, clock = bytearray(path.read_bytes()), path.stat().st_mtime_ns
    data[int(video.table.offset[5]) + 120] ^= 1  # amid the payload of its first transport packet
    path.write_bytes(data)
    os.utime(path, ns=(clock, clock))
    with pytest.raises(DecodeError, match="fails its checksum"):
        read_frames(video, range(24), engine="cpu")


def test_no_descriptor_is_left_open(cases: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 24, hard))
    try:
        for name in ["fd_leak.mp4", "moov_missing.mp4", "trunc_faststart.mp4"] * 40:
            assert probe_row(str(cases / "files" / name)).get("error_reason") != "unreadable"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == before
