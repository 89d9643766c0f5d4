"""Members of tar archives, read in place: the archive is never unpacked.

Names and offsets come from the standard library's `tarfile`, which knows ustar, pax and GNU long names.
"""

from __future__ import annotations

import io
import logging
import os
import tarfile
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from vidprep.errors import (
    MalformedContainerError,
    MediaError,
    NotMediaError,
    Reason,
    SourceError,
    TruncatedContainerError,
    UnsupportedContainerError,
)
from vidprep.records import Identity
from vidprep.sources.base import Closing
from vidprep.sources.neighbours import SMALL_MEMBER_BYTES
from vidprep.sources.open import MEMBER_MARK, is_remote, open_file

if TYPE_CHECKING:
    from vidprep.sources.base import Source

logger = logging.getLogger(__name__)

#: No header of a sane archive needs more in one read.
_MAX_HEADER_BYTES = 16 << 20


#: Read at once where headers are looked for.
_WINDOW_BYTES = 16 << 10
#: In a store, each read among small members is so many times as large as the one before, up to a limit.
_WINDOW_GROWTH, _MAX_WINDOW_BYTES = 4, 4 << 20


#: Names of archives that are not read.
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst", ".tar.lz4", ".tar.Z")


class Member(NamedTuple):
    """A regular file inside an archive."""

    name: str
    offset: int
    """first byte of its data in the archive"""
    size_bytes: int
    error: MediaError | None = None
    """why it cannot be read in place"""


class Directory(NamedTuple):
    """What an archive holds."""

    identity: Identity | None
    """the archive's; None = it could not be told"""
    members: list[Member]
    """in the archive's order; of several with one name the last, as tar extracts them"""
    error: MediaError | None = None
    """why there are no members, or none after these"""


class TarMemberSource(Closing):
    """A window over an open archive; closing it closes the archive."""

    def __init__(self, uri: str, archive: Source, member: Member) -> None:
        self._archive = archive
        self._member = member
        self.uri = uri
        self.identity = member_identity(archive.identity, member)

    def read_at(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset` of the member; fewer only at its end."""
        size = min(size, self._member.size_bytes - offset)
        return self._archive.read_at(self._member.offset + offset, size) if size > 0 else b""

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()


def member_identity(archive: Identity, member: Member) -> Identity:
    """A member has its own size and place, and its archive's time and tag."""
    return Identity(
        size_bytes=member.size_bytes, mtime_ns=archive.mtime_ns, etag=archive.etag, member_offset=member.offset
    )


def member_uri(archive_uri: str, name: str) -> str:
    """The uri of a member."""
    return f"{archive_uri}::{name}"


def split_member_uri(uri: str) -> tuple[str, str]:
    """Archive and member name of `ARCHIVE.tar::NAME`."""
    archive, _, name = uri.partition(MEMBER_MARK)
    return archive + MEMBER_MARK.removesuffix("::"), name


def open_member(uri: str, identity: Identity | None) -> Source:
    """Open `ARCHIVE.tar::NAME`. Raises SourceError."""
    if os.path.isfile(uri):  # noqa: PTH113 - a file whose own name holds the mark; names may be any bytes
        return open_file(uri)
    archive_uri, name = split_member_uri(uri)
    archive = open_file(archive_uri, _archive_identity(archive_uri, identity))
    try:
        return TarMemberSource(uri, archive, _find(archive, name, identity))
    except BaseException:
        archive.close()
        raise


def _archive_identity(archive_uri: str, identity: Identity | None) -> Identity | None:
    """Of an archive in a store: the member's place spares a request, and the etag tells if it is another one now."""
    if identity is None or identity.member_offset is None or not is_remote(archive_uri):
        return None
    end = identity.member_offset + identity.size_bytes
    return Identity(size_bytes=end, mtime_ns=identity.mtime_ns, etag=identity.etag)


def _find(archive: Source, name: str, identity: Identity | None) -> Member:
    if identity is not None and identity.member_offset is not None:
        end = identity.member_offset + identity.size_bytes
        if end > archive.identity.size_bytes:
            raise SourceError(
                f"the archive ends at {archive.identity.size_bytes}, the member at {end}", reason=Reason.STALE
            )
        return Member(name, identity.member_offset, identity.size_bytes)
    directory = _directory(archive.uri, archive.identity)
    member = directory[0].get(name)
    if member is None:
        raise directory[1] or SourceError(f"the archive has no member {name!r}", reason=Reason.NOT_FOUND)
    if member.error is not None:
        raise member.error
    return member


@lru_cache(maxsize=16)
def _directory(archive_uri: str, identity: Identity) -> tuple[dict[str, Member], MediaError | None]:
    """Members by name, of an archive that is known by its size and time."""
    with open_file(archive_uri, identity) as archive:
        directory = list_members(archive)
    return {member.name: member for member in directory.members}, directory.error


def directory_of(uri: str, identity: Identity | None = None) -> Directory:
    """The directory of an archive; one that cannot be opened has an error and no members."""
    try:
        with open_file(uri, identity) as archive:
            return list_members(archive)
    except MediaError as error:
        return Directory(identity, [], error)


def list_members(archive: Source) -> Directory:
    """All regular files of an archive.

    A hard link is the file that it names. A member that the archive's end cuts off, or that is sparse, has an error. An
    archive that is damaged gives the members before the damage, and its error. Links of the other kind, devices and
    FIFOs are left out, and a line in the log counts them.
    """
    members: dict[str, Member] = {}
    left_out: list[str] = []
    error: MediaError | None = None
    last = -1
    try:
        with tarfile.open(fileobj=_SourceFile(archive), mode="r:") as tar:
            for info in tar:
                tar.members.clear()  # type: ignore[attr-defined]  # it keeps every header; documented nowhere, stable since 2.3
                if info.offset <= last or info.size < 0:  # else some versions go round for ever
                    raise tarfile.ReadError(f"a file of {info.size} bytes")
                last = info.offset
                if info.isreg() or info.islnk():
                    members[info.name] = _member(info, members, archive.identity.size_bytes)
                elif not info.isdir():
                    left_out.append(info.name)
                if info.isreg() and info.offset_data + info.size > archive.identity.size_bytes:
                    break  # it has its own error
            else:
                error = _end_error(archive, tar.offset, members)
    except SourceError as unread:
        error = unread
    except Exception as damage:  # noqa: BLE001 - tarfile lets pass whatever a hostile header makes of its arithmetic
        error = _damage_error(archive, damage, members)
    if left_out:
        logger.warning(
            "%r: %d members are neither files nor folders and are left out, the first %r",
            archive.uri,
            len(left_out),
            left_out[0],
        )
    return Directory(archive.identity, list(members.values()), error)


def _member(info: tarfile.TarInfo, before: dict[str, Member], end: int) -> Member:
    """A regular file or a hard link; `end` is the archive's size."""
    if info.islnk():
        target = before.get(info.linkname)
        if target is not None:
            return target._replace(name=info.name)
        message = f"a hard link to {info.linkname!r}, which does not stand before it in the archive"
        return Member(info.name, info.offset_data, 0, SourceError(message, reason=Reason.NOT_FOUND, offset=info.offset))
    error: MediaError | None = None
    if info.issparse():
        error = UnsupportedContainerError("a sparse member: its bytes do not lie in one piece", offset=info.offset)
    elif info.offset_data + info.size > end:
        have = max(end - info.offset_data, 0)
        message = f"the archive ends inside this member: {have} of {info.size} bytes are there"
        error = TruncatedContainerError(message, offset=info.offset)
    return Member(info.name, info.offset_data, info.size, error)


def _end_error(archive: Source, offset: int, members: dict[str, Member]) -> MediaError | None:
    """Tarfile stops without a word at a header that is none, or is cut off."""
    if offset >= archive.identity.size_bytes:
        return None  # a missing end mark is common
    block = archive.read_at(offset, tarfile.BLOCKSIZE)
    after = f"after {len(members)} files"
    if len(block) < tarfile.BLOCKSIZE and block.strip(b"\0"):
        return TruncatedContainerError(f"the archive ends inside a header, {after}", offset=offset)
    if block.strip(b"\0"):
        return MalformedContainerError(f"the archive is damaged {after}: no header is here", offset=offset)
    return None


def _damage_error(archive: Source, damage: Exception, members: dict[str, Member]) -> MediaError:
    if members:
        return MalformedContainerError(f"the archive is damaged after {len(members)} files: {damage}")
    head = archive.read_at(0, tarfile.BLOCKSIZE)
    if not head:
        return TruncatedContainerError("the archive is empty", reason=Reason.EMPTY, offset=0)
    if head.startswith(_COMPRESSED_MARKS):
        return _compressed_error()
    if len(head) < tarfile.BLOCKSIZE:
        return TruncatedContainerError("the archive ends inside its first header", offset=0)
    return NotMediaError(f"not a tar archive: {damage}", offset=0)


#: First bytes of gzip, Zstandard, bzip2, xz and LZ4.
_COMPRESSED_MARKS = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"\x04\x22\x4d\x18")


def _compressed_error() -> UnsupportedContainerError:
    return UnsupportedContainerError("a compressed archive has no members in place; decompress it", offset=0)


def archive_error(uri: str) -> MediaError | None:
    """What to say to somebody who takes an archive for a video; None if the name is no archive's."""
    if uri.endswith(COMPRESSED):
        return _compressed_error()
    if not uri.endswith(".tar"):
        return None
    directory = directory_of(uri)
    if not directory.members:
        return directory.error or UnsupportedContainerError("a tar archive without files")
    first = directory.members[0].name
    return UnsupportedContainerError(
        f"a tar archive, whose {len(directory.members)} files are named one by one, as in {member_uri(uri, first)!r}"
    )


class _SourceFile(io.RawIOBase):
    """The binary file that tarfile wants; refuses reads that only a hostile header asks for."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._position = 0
        self._held, self._start = b"", 0
        self._is_far = is_remote(source.uri)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.identity.size_bytes}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        data = self._window(size)
        self._position += len(data)
        return data

    def _window(self, size: int) -> bytes:
        """Small neighbours (labels beside a video) come with one read."""
        begin = self._position - self._start
        if begin < 0 or begin + size > len(self._held):
            self._held = self._source.read_at(self._position, max(size, self._window_bytes(begin)))
            self._start, begin = self._position, 0
        return self._held[begin : begin + size]

    def _window_bytes(self, step: int) -> int:
        """What to read, where the last read began `step` bytes before: more in a store while members are small."""
        held = len(self._held)
        if not self._is_far or not 0 < step <= held + SMALL_MEMBER_BYTES:
            return _WINDOW_BYTES
        return min(max(held, step) * _WINDOW_GROWTH, _MAX_WINDOW_BYTES)
