"""Members of tar archives, read in place: the archive is never unpacked.

Names and offsets come from the standard library's `tarfile`, which knows ustar, pax and GNU long names.
"""

from __future__ import annotations

import io
import logging
import os
import tarfile
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

from vidprep.errors import Reason, SourceError, TruncatedContainerError, UnsupportedContainerError
from vidprep.records import Identity
from vidprep.sources.open import MEMBER_MARK, is_remote, open_file

if TYPE_CHECKING:
    from types import TracebackType

    from vidprep.sources.base import Source

logger = logging.getLogger(__name__)

#: No header of a sane archive needs more in one read.
_MAX_HEADER_BYTES = 16 << 20


#: Read at once where headers are looked for.
_WINDOW_BYTES = 16 << 10


class Member(NamedTuple):
    """A regular file inside an archive."""

    name: str
    offset: int
    """first byte of its data in the archive"""
    size_bytes: int


class TarMemberSource:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
    member = _directory(archive.uri, archive.identity).get(name)
    if member is None:
        raise SourceError(f"the archive has no member {name!r}", reason=Reason.NOT_FOUND)
    return member


@lru_cache(maxsize=16)
def _directory(archive_uri: str, identity: Identity) -> dict[str, Member]:
    """Members by name, of an archive that is known by its size and time."""
    del identity
    with open_file(archive_uri) as archive:
        return {member.name: member for member in list_members(archive)}


def list_members(archive: Source) -> list[Member]:
    """The whole regular members of an archive, in its order; of several with one name the last, as tar extracts them.

    An archive that stops early, or is damaged after some members, gives those before the damage and a log line.

    Raises:
        ContainerError: it is no tar archive, or a compressed one.
    """
    file = _SourceFile(archive)
    members: dict[str, Member] = {}
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for info in tar:
                tar.members.clear()  # type: ignore[attr-defined]  # it keeps every header; documented nowhere, stable since 2.3
                if info.offset_data + info.size > archive.identity.size_bytes:
                    _warn(archive, f"ends inside member {info.name!r}, which is left out", info.offset)
                    break
                if info.isreg() and not info.issparse():
                    members[info.name] = Member(info.name, info.offset_data, info.size)
            else:
                _check_end(archive, tar.offset)
    except tarfile.TarError as error:
        if not members:
            raise _unreadable(archive, error) from error
        _warn(archive, f"is damaged ({error}); members after it are left out", file.tell())
    return list(members.values())


def _check_end(archive: Source, offset: int) -> None:
    """Tarfile stops without a word at a header that is none."""
    block = archive.read_at(offset, tarfile.BLOCKSIZE)
    if block.strip(b"\0"):
        _warn(archive, "is damaged; members after it are left out", offset)


def _unreadable(archive: Source, error: tarfile.TarError) -> Exception:
    head = archive.read_at(0, 4)
    if head[:2] == b"\x1f\x8b" or head == b"\x28\xb5\x2f\xfd" or head[:3] == b"BZh":
        return UnsupportedContainerError("a compressed archive has no members in place; decompress it", offset=0)
    if not head:
        return TruncatedContainerError("the archive is empty", reason=Reason.EMPTY, offset=0)
    return TruncatedContainerError(f"not a tar archive: {error}", reason=Reason.NOT_MEDIA, offset=0)


def _warn(archive: Source, message: str, offset: int) -> None:
    logger.warning("%r %s (at byte %d)", archive.uri, message, offset)


class _SourceFile(io.RawIOBase):
    """The binary file that tarfile wants; refuses reads that only a hostile header asks for."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._position = 0
        self._held, self._start = b"", 0

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
            self._held = self._source.read_at(self._position, max(size, _WINDOW_BYTES))
            self._start, begin = self._position, 0
        return self._held[begin : begin + size]
