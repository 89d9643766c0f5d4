"""Object stores through `pyarrow.fs`, where the client of their own is not installed."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from vidprep.errors import Reason, SourceError
from vidprep.records import Identity
from vidprep.sources.stores import CONNECT_TIMEOUT_SECONDS, MAX_ATTEMPTS, REQUEST_TIMEOUT_SECONDS, endpoint_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class ArrowStore:
    """A store as pyarrow sees it; a `Store`."""

    def __init__(self, scheme: str) -> None:
        self._filesystem = _filesystem(scheme)

    def stat(self, path: str) -> Identity | None:
        """As Store.stat."""
        try:
            facts = self._filesystem.get_file_info(path)
        except (OSError, pa.ArrowException) as error:
            raise _source_error(error) from error
        if facts.type == fs.FileType.NotFound:
            raise SourceError("no such object", reason=Reason.NOT_FOUND)
        return None if facts.type == fs.FileType.Directory else _identity(facts)

    def list(self, path: str) -> Iterator[tuple[str, Identity]]:
        """As Store.list; holds the whole listing in memory."""
        try:
            found = self._filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        except (OSError, pa.ArrowException) as error:
            raise _source_error(error) from error
        for facts in sorted(found, key=lambda facts: facts.path.encode()):
            if facts.type == fs.FileType.File:
                yield facts.path, _identity(facts)

    def get(self, path: str, offset: int, size: int, etag: str | None) -> bytes:
        """As Store.get."""
        try:
            with self._filesystem.open_input_file(path) as file:
                if etag is not None and _etag(file) not in (None, etag):
                    raise SourceError(f"etag was {etag} and is {_etag(file)}", reason=Reason.STALE)
                return bytes(file.read_at(size, offset)) if offset < file.size() else b""
        except (OSError, pa.ArrowException) as error:
            raise _source_error(error) from error

    def put(self, path: str, file: Path) -> None:
        """As Store.put."""
        try:
            with file.open("rb") as source, self._filesystem.open_output_stream(path) as target:
                shutil.copyfileobj(source, target, 8 << 20)
        except (OSError, pa.ArrowException) as error:
            raise _source_error(error) from error


def _filesystem(scheme: str) -> Any:
    if scheme == "gs":
        emulator = os.environ.get("STORAGE_EMULATOR_HOST")
        retries = timedelta(seconds=REQUEST_TIMEOUT_SECONDS)
        if not emulator:
            return fs.GcsFileSystem(retry_time_limit=retries)
        to, _, host = emulator.rpartition("://")
        return fs.GcsFileSystem(
            anonymous=True, scheme=to or "http", endpoint_override=host.rstrip("/"), retry_time_limit=retries
        )
    return fs.S3FileSystem(
        endpoint_override=endpoint_url(),
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        request_timeout=REQUEST_TIMEOUT_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=MAX_ATTEMPTS),
    )


def _identity(facts: Any) -> Identity:
    return Identity(size_bytes=facts.size or 0, mtime_ns=facts.mtime_ns)


def _etag(file: Any) -> str | None:
    """Of Google's objects the generation, as `GcsStore` has it."""
    facts = file.metadata() or {}
    tag = facts.get("generation") or facts.get("ETag")
    return tag.decode().strip('"') if tag else None


def _source_error(error: Exception) -> SourceError:
    if isinstance(error, SourceError):
        return error
    reason = Reason.NOT_FOUND if isinstance(error, FileNotFoundError) else Reason.UNREADABLE
    return SourceError(f"{type(error).__name__}: {' '.join(str(error).split())}", reason=reason)
