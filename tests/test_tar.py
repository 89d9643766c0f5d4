"""Members of tar archives, in place."""

from __future__ import annotations

import io
import random
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from vidprep.errors import SourceError
from vidprep.records import Identity
from vidprep.sources import open_source
from vidprep.sources.listing import absolute, list_items
from vidprep.sources.local import LocalSource
from vidprep.sources.tar import Directory, list_members

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


def _directory(path: Path) -> Directory:
    with LocalSource(str(path)) as archive:
        return list_members(archive)


def _members(path: Path) -> dict[str, bytes]:
    with LocalSource(str(path)) as archive:
        directory = list_members(archive)
        assert directory.error is None
        return {member.name: archive.read_at(member.offset, member.size_bytes) for member in directory.members}


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


@pytest.mark.parametrize("keep", [1, 100, 512, 600, 1024, 1025, 1600, 2048 + 700])
def test_an_unfinished_tail_gives_the_whole_members_and_says_where_it_ends(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "x.tar"
    _write(path, {"a.mp4": b"a" * 500, "b.mp4": b"b" * 500, "c.mp4": b"c" * 500})
    path.write_bytes(path.read_bytes()[:keep])
    directory = _directory(path)
    number, rest = divmod(keep, 1024)
    whole = (keep + 12) // 1024  # a header and one padded block each; padding may be cut
    assert [member.name for member in directory.members if member.error is None] == ["a.mp4", "b.mp4", "c.mp4"][:whole]
    cut = [member for member in directory.members if member.error is not None]
    if 512 <= rest < 1012:
        (member,) = cut
        assert (member.name, member.error.reason, member.error.offset) == (
            "abc"[number] + ".mp4",
            "truncated",
            number * 1024,
        )
        assert directory.error is None
    elif 0 < rest < 512:
        assert directory.error is not None
        assert (directory.error.reason, directory.error.offset, cut) == ("truncated", number * 1024, [])
    else:
        assert (directory.error, cut) == (None, [])


def test_damage_in_the_middle_gives_the_members_before_it_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    _write(path, {"a.mp4": b"a" * 500, "b.mp4": b"b" * 500})
    data = bytearray(path.read_bytes())
    data[1024:1100] = b"\xff" * 76
    path.write_bytes(data)
    directory = _directory(path)
    assert [member.name for member in directory.members] == ["a.mp4"]
    assert directory.error is not None
    assert (directory.error.reason, directory.error.offset) == ("corrupt_table", 1024)


def test_a_damaged_extended_header_gives_the_members_before_it(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    _write(path, {"a.mp4": b"a" * 500, LONG: b"b" * 500}, "gnu")
    path.write_bytes(path.read_bytes()[: 1024 + 512])  # the long name's header, and none of the name
    directory = _directory(path)
    assert [member.name for member in directory.members] == ["a.mp4"]
    assert directory.error is not None


def test_a_hard_link_is_the_file_that_it_names(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        info = tarfile.TarInfo("a.mp4")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
        for name, target in [("b.mp4", "a.mp4"), ("c.mp4", "nothing.mp4")]:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.LNKTYPE, target
            tar.addfile(link)
    with open_source(f"{tmp_path}/x.tar::b.mp4") as source:
        assert source.read_at(0, 9) == b"abc"
    with pytest.raises(SourceError, match=r"hard link to 'nothing\.mp4'"):
        open_source(f"{tmp_path}/x.tar::c.mp4")


def test_other_links_and_devices_are_counted_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name, kind in [("a.mp4", tarfile.SYMTYPE), ("b.mp4", tarfile.FIFOTYPE), ("dir", tarfile.DIRTYPE)]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "x"
            tar.addfile(info)
    assert _directory(tmp_path / "x.tar").members == []
    assert "2 members are neither files nor folders and are left out, the first 'a.mp4'" in caplog.text


@pytest.mark.parametrize("kind", ["old", "1.0"])
def test_a_sparse_member_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    with (tmp_path / "a.mp4").open("wb") as file:
        file.truncate(1 << 20)
        file.seek(1 << 19)
        file.write(b"x" * 5000)
    form = ["--format=gnu"] if kind == "old" else ["--format=pax", "--sparse-version=1.0"]
    subprocess.run(["tar", "-C", tmp_path, *form, "-Scf", tmp_path / "x.tar", "a.mp4"], check=True)
    (member,) = _directory(tmp_path / "x.tar").members
    assert (member.name, member.error and member.error.reason) == ("a.mp4", "unsupported_container")


@pytest.mark.parametrize("name", ["../up.mp4", "/abs/olute.mp4", "./here.mp4", "a//b/../c.mp4"])
def test_names_that_lead_elsewhere_are_names_of_members(tmp_path: Path, name: str) -> None:
    """Nothing is unpacked, so they lead nowhere."""
    _write(tmp_path / "x.tar", {name: b"abc"})
    (item,) = list_items([str(tmp_path)])
    assert item.uri == f"{tmp_path}/x.tar::{name}"
    assert absolute(item.path) == item.uri
    with open_source(item.uri, item.identity) as source:
        assert source.read_at(0, 9) == b"abc"


def test_of_two_members_with_one_name_the_last_counts(tmp_path: Path) -> None:
    _write(tmp_path / "x.tar", {"a.mp4": b"old"})
    _write(tmp_path / "x.tar", {"a.mp4": b"new"}, mode="a")
    assert _members(tmp_path / "x.tar") == {"a.mp4": b"new"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\x1f\x8b" + bytes(600), "unsupported_container"),
        (b"\xfd7zXZ" + bytes(600), "unsupported_container"),
        (b"x" * 2000, "not_media"),
    ],
)
def test_what_is_no_archive_says_so(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "x.tar").write_bytes(data)
    directory = _directory(tmp_path / "x.tar")
    assert directory.members == []
    assert directory.error is not None
    assert directory.error.reason == reason


def test_an_archive_of_nothing_is_sound(tmp_path: Path) -> None:
    _write(tmp_path / "x.tar", {})
    assert _directory(tmp_path / "x.tar")[1:] == ([], None)


def test_a_negative_size_is_damage_and_no_endless_walk(tmp_path: Path) -> None:
    _write(tmp_path / "x.tar", {"a.mp4": b"abc", "b.mp4": b"x"}, "gnu")
    data = bytearray((tmp_path / "x.tar").read_bytes())
    header = data[1024:1536]
    header[124:136] = b"\xff" * 10 + b"\xf6\x00"  # -2560 in base 256
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    data[1024:1536] = header
    (tmp_path / "x.tar").write_bytes(data)
    directory = _directory(tmp_path / "x.tar")
    assert [member.name for member in directory.members] == ["a.mp4"]
    assert directory.error is not None


@pytest.mark.parametrize("seed", range(20))
def test_any_damage_gives_members_or_an_error(tmp_path: Path, seed: int) -> None:
    """Headers with bytes changed and their checksums made good: sparse maps and extended headers full of lies."""
    with (tmp_path / "a.mp4").open("wb") as file:
        file.truncate(1 << 20)
        file.seek(1 << 19)
        file.write(b"x" * 3000)
    form = ["--format=gnu"] if seed % 2 else ["--format=pax", f"--sparse-version={('0.0', '0.1', '1.0')[seed % 3]}"]
    subprocess.run(["tar", "-C", tmp_path, *form, "-Scf", tmp_path / "x.tar", "a.mp4"], check=True)
    sound, chance = (tmp_path / "x.tar").read_bytes()[:8192], random.Random(seed)
    for _ in range(100):
        data = bytearray(sound)
        at = chance.randrange(6) * 512
        for _ in range(3):
            data[at + chance.randrange(512)] = chance.choice(b"0123456789 =\n\0\xff\x80aLKxgS")
        data[at + 148 : at + 156] = b" " * 8
        data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
        (tmp_path / "x.tar").write_bytes(data)
        _directory(tmp_path / "x.tar")


def test_a_header_that_asks_for_gigabytes_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 7 << 30
    (tmp_path / "x.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    directory = _directory(tmp_path / "x.tar")
    assert directory.members == []
    assert directory.error is not None
