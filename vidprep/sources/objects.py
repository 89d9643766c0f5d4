"""Objects in a store (`s3://`, `gs://`) as sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vidprep.errors import SourceError
from vidprep.sources.base import Closing
from vidprep.sources.stores import split_uri

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.records import Identity


class ObjectSource(Closing):
    """One object; each `read_at` is one ranged request, which fails if the object's etag is no longer the same.

    Args:
        uri: `s3://bucket/key` or `gs://bucket/key`.
        identity: what a listing said of it; spares the request that asks.
    """

    def __init__(self, uri: str, identity: Identity | None = None) -> None:
        self.uri = uri
        self.identity = identity or _identity(uri)

    def read_at(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer only at the end."""
        size = min(size, self.identity.size_bytes - offset)
        if size <= 0:
            return b""
        try:
            store, path = split_uri(self.uri)
            return store.get(path, offset, size, self.identity.etag)
        except SourceError as error:
            raise SourceError(error.message, reason=error.reason, uri=self.uri, offset=offset) from error


def _identity(uri: str) -> Identity:
    identity = stat_object(uri)
    if identity is None:
        raise SourceError("it is a folder", uri=uri)
    return identity


def stat_object(uri: str) -> Identity | None:
    """Identity of an object; None for a folder. Raises SourceError."""
    store, path = split_uri(uri)
    try:
        return store.stat(path)
    except SourceError as error:
        raise SourceError(error.message, reason=error.reason, uri=uri) from error


def list_objects(uri: str) -> Iterator[tuple[str, Identity]]:
    """(uri, identity) of all objects under a folder, sorted by uri. Raises SourceError."""
    store, path = split_uri(uri)
    scheme = uri.partition("://")[0]
    try:
        for found, identity in store.list(path):
            yield f"{scheme}://{found}", identity
    except SourceError as error:
        raise SourceError(error.message, reason=error.reason, uri=uri) from error
