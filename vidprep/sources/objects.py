"""Objects in a store (`s3://`, `gs://`), by ranged reads through `pyarrow.fs`."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from pyarrow import fs

from vidprep.errors import Reason, SourceError
from vidprep.records import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_CONNECT_TIMEOUT_SECONDS = 10
_REQUEST_TIMEOUT_SECONDS = 60
_MAX_ATTEMPTS = 5


@lru_cache(maxsize=8)
def filesystem(scheme: str) -> Any:
    """The store's file system, set up from the environment (AWS_*, GOOGLE_APPLICATION_CREDENTIALS)."""
    if scheme == "gs":
        return fs.GcsFileSystem()
    return fs.S3FileSystem(
        connect_timeout=_CONNECT_TIMEOUT_SECONDS,
        request_timeout=_REQUEST_TIMEOUT_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_MAX_ATTEMPTS),
    )


def split_uri(uri: str) -> tuple[Any, str]:
    """File system and path of `scheme://bucket/key`."""
    scheme, _, path = uri.partition("://")
    return filesystem(scheme), path


class ObjectSource:
    """One object; each `read_at` is one ranged request. The object is looked up at the first read."""

    def __init__(self, uri: str, identity: Identity | None = None) -> None:
        self.uri = uri
        self._filesystem, self._path = split_uri(uri)
        self.identity = identity or _identity(uri)
        self._file: Any = None

    def read_at(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer only at the end."""
        size = min(size, self.identity.size_bytes - offset)
        if size <= 0:
            return b""
        try:
            if self._file is None:
                self._file = self._filesystem.open_input_file(self._path)
            return bytes(self._file.read_at(size, offset))
        except (OSError, pa.ArrowException) as error:
            raise _source_error(error, self.uri, offset) from error

    def close(self) -> None:
        """Forget the object; twice is harmless."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _identity(uri: str) -> Identity:
    identity = stat_object(uri)
    if identity is None:
        raise SourceError("it is a folder", uri=uri)
    return identity


def stat_object(uri: str) -> Identity | None:
    """Identity of an object; None for a folder. Raises SourceError."""
    filesystem_, path = split_uri(uri)
    try:
        facts = filesystem_.get_file_info(path)
    except (OSError, pa.ArrowException) as error:
        raise _source_error(error, uri, None) from error
    if facts.type == fs.FileType.NotFound:
        raise SourceError("no such object", reason=Reason.NOT_FOUND, uri=uri)
    return None if facts.type == fs.FileType.Directory else _facts_identity(facts)


def list_objects(uri: str) -> Iterator[tuple[str, Identity]]:
    """(uri, identity) of all objects under a folder, sorted by uri. Raises SourceError."""
    filesystem_, path = split_uri(uri)
    scheme = uri.partition("://")[0]
    try:
        found = filesystem_.get_file_info(fs.FileSelector(path, recursive=True))
    except (OSError, pa.ArrowException) as error:
        raise _source_error(error, uri, None) from error
    files = sorted((facts for facts in found if facts.type == fs.FileType.File), key=lambda facts: facts.path)
    for facts in files:
        yield f"{scheme}://{facts.path}", _facts_identity(facts)


def _facts_identity(facts: Any) -> Identity:
    return Identity(size_bytes=facts.size or 0, mtime_ns=facts.mtime_ns)


def _source_error(error: Exception, uri: str, offset: int | None) -> SourceError:
    reason = Reason.NOT_FOUND if isinstance(error, FileNotFoundError) else Reason.UNREADABLE
    return SourceError(f"{type(error).__name__}: {' '.join(str(error).split())}", reason=reason, uri=uri, offset=offset)
