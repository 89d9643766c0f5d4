"""From a uri to an open source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vidprep.sources.local import LocalSource

if TYPE_CHECKING:
    from vidprep.records import Identity
    from vidprep.sources.base import Source

#: What stands between an archive and the name of its member in a uri.
MEMBER_MARK = ".tar::"


def open_source(uri: str, identity: Identity | None = None) -> Source:
    """Open the file, tar member or object that `uri` names.

    Args:
        uri: local path, `file:///...`, `s3://bucket/key`, `gs://bucket/key`, or `SHARD.tar::MEMBER` on any of them.
        identity: what a listing or an index says of it. Its member_offset spares the search through a tar, its size a
            request to an object store; both are hints, not checks.

    Raises:
        SourceError: it does not exist, is not a regular file, or may not be read.
    """
    if MEMBER_MARK in uri:
        from vidprep.sources.tar import open_member

        return open_member(uri, identity)
    return open_file(uri, identity)


def open_file(uri: str, identity: Identity | None = None) -> Source:
    """Open a whole file or object; `::` means nothing here."""
    if is_remote(uri):
        from vidprep.sources.objects import ObjectSource

        return ObjectSource(uri, identity)
    return LocalSource(uri.removeprefix("file://"))


def is_remote(uri: str) -> bool:
    """Whether an object store holds it."""
    return uri.startswith(("s3://", "gs://"))
