"""Members of tar archives, in place."""

from __future__ import annotations

import io
import logging
import tarfile
from typing import TYPE_CHECKING

import pytest

from vidprep.errors import ContainerError, SourceError
from vidprep.records import Identity
from vidprep.sources import open_source
from vidprep.sources.local import LocalSource
from vidprep.sources.tar import list_members

if TYPE_CHECKING:
    from pathlib import Path

LONG = "folder/" * 40 + "video.with.dots.mp4"
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def _write(path: Path, members: dict[str, bytes], kind: str = "pax", mode: str = "w") -> None:
    with tarfile.open(path, mode, format=FORMATS[kind]) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def _members(path: Path) -> dict[str, bytes]:
    with LocalSource(str(path)) as archive:
        return {member.name: archive.read_at(member.offset, member.size_bytes) for member in list_members(archive)}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_names_and_bytes(tmp_path: Path, kind: str) -> None:
    members = {"a.mp4": b"one" * 300, "latin-\udce9.mp4": b"", "b/v1.cam0.mp4": b"two"}
    if kind != "ustar":
        members[LONG] = b"three"
    _write(tmp_path / "x.tar", members, kind)
    assert _members(tmp_path / "x.tar") == members


def test_a_member_is_a_source_with_its_own_size_and_its_archives_time(tmp_path: Path) -> None:
    _write(tmp_path / "x.tar", {"a.mp4": b"0123456789", "b.mp4": b"x"})
    with open_source(f"{tmp_path}/x.tar::a.mp4") as source:
        assert source.uri == f"{tmp_path}/x.tar::a.mp4"
        assert source.identity.size_bytes == 10
        assert source.identity.mtime_ns == (tmp_path / "x.tar").stat().st_mtime_ns
        assert [source.read_at(*span) for span in [(2, 3), (8, 99), (10, 1), (99, 1)]] == [b"234", b"89", b"", b""]


def test_the_place_that_an_index_knows_is_used(tmp_path: Path) -> None:
    _write(tmp_path / "x.tar", {"a.mp4": b"0123456789"})
    known = Identity(size_bytes=4, member_offset=512 + 3)
    with open_source(f"{tmp_path}/x.tar::a.mp4", known) as source:
        assert source.read_at(0, 99) == b"3456"
    with pytest.raises(SourceError, match="stale"):
        open_source(f"{tmp_path}/x.tar::a.mp4", Identity(size_bytes=4, member_offset=1 << 40))


def test_a_missing_member_or_archive_is_not_found(tmp_path: Path) -> None:
    _write(tmp_path / "x.tar", {"a.mp4": b"0"})
    for uri in ("x.tar::b.mp4", "y.tar::a.mp4"):
        with pytest.raises(SourceError, match="not_found"):
            open_source(f"{tmp_path}/{uri}")


def test_an_archive_that_changed_is_searched_anew(tmp_path: Path) -> None:
    _write(tmp_path / "x.tar", {"a.mp4": b"old"})
    open_source(f"{tmp_path}/x.tar::a.mp4").close()
    _write(tmp_path / "x.tar", {"first.mp4": b"new one", "a.mp4": b"newer"})
    with open_source(f"{tmp_path}/x.tar::a.mp4") as source:
        assert source.read_at(0, 9) == b"newer"


def test_a_file_whose_name_holds_the_mark_is_itself(tmp_path: Path) -> None:
    (tmp_path / "a.tar::b.mp4").write_bytes(b"itself")
    with open_source(f"{tmp_path}/a.tar::b.mp4") as source:
        assert source.read_at(0, 9) == b"itself"


@pytest.mark.parametrize("keep", [100, 512, 600, 1024, 1025, 1600, 2048 + 700])
def test_an_unfinished_tail_gives_the_whole_members(
    tmp_path: Path, keep: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.tar"
    _write(path, {"a.mp4": b"a" * 500, "b.mp4": b"b" * 500, "c.mp4": b"c" * 500})
    path.write_bytes(path.read_bytes()[:keep])
    caplog.set_level(logging.WARNING)
    whole = (keep + 12) // 1024  # a header and one padded block each; padding may be cut
    if keep < 512:
        with pytest.raises(ContainerError):
            _members(path)
        return
    assert list(_members(path)) == ["a.mp4", "b.mp4", "c.mp4"][:whole]
    assert len(caplog.records) == (0 if keep in (1024, 2048) else 1)


def test_damage_in_the_middle_gives_the_members_before_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.tar"
    _write(path, {"a.mp4": b"a" * 500, "b.mp4": b"b" * 500})
    data = bytearray(path.read_bytes())
    data[1024:1100] = b"\xff" * 76
    path.write_bytes(data)
    assert list(_members(path)) == ["a.mp4"]
    assert "left out" in caplog.text


def test_of_two_members_with_one_name_the_last_counts(tmp_path: Path) -> None:
    _write(tmp_path / "x.tar", {"a.mp4": b"old"})
    _write(tmp_path / "x.tar", {"a.mp4": b"new"}, mode="a")
    assert _members(tmp_path / "x.tar") == {"a.mp4": b"new"}


@pytest.mark.parametrize(
    ("data", "message"), [(b"", "empty"), (b"\x1f\x8b" + bytes(600), "compressed"), (b"x" * 2000, "not a tar")]
)
def test_what_is_no_archive_says_so(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x.tar").write_bytes(data)
    with pytest.raises(ContainerError, match=message):
        _members(tmp_path / "x.tar")


def test_a_header_that_asks_for_gigabytes_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 7 << 30
    (tmp_path / "x.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with pytest.raises(ContainerError):
        _members(tmp_path / "x.tar")
