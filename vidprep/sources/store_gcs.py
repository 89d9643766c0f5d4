"""Google Cloud Storage, through its own client: generations in the listing, one request a read.

An object's generation stands as its etag: it changes with the content, and a read can be bound to it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import requests
from google.api_core.exceptions import (
    GoogleAPIError,
    NotFound,
    PreconditionFailed,
    RequestRangeNotSatisfiable,
)
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud.storage import Client
from google.cloud.storage.retry import DEFAULT_RETRY
from requests.adapters import HTTPAdapter

from vidprep.errors import Reason, SourceError
from vidprep.records import Identity
from vidprep.sources.stores import CONNECT_TIMEOUT_SECONDS, MAX_CONNECTIONS, REQUEST_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FIELDS = "items(name,size,timeCreated,generation),nextPageToken"
#: Of all tries of one request together; an error that passes is tried again after growing waits.
RETRY_SECONDS = 60.0
#: In the library's order: to connect, to wait for bytes.
_TIMEOUTS = (CONNECT_TIMEOUT_SECONDS, REQUEST_TIMEOUT_SECONDS)


class GcsStore:
    """A `Store` over google-cloud-storage; requests are not signed where there are no credentials."""

    def __init__(self) -> None:
        try:
            self._client = Client()
        except DefaultCredentialsError:
            self._client = Client.create_anonymous_client()
        for scheme in ("https://", "http://"):
            self._client._http.mount(scheme, HTTPAdapter(pool_maxsize=MAX_CONNECTIONS))  # noqa: SLF001 - the documented way
        self._options = {"timeout": _TIMEOUTS, "retry": DEFAULT_RETRY.with_timeout(RETRY_SECONDS)}

    def stat(self, path: str) -> Identity | None:
        """As Store.stat."""
        bucket, _, key = path.partition("/")
        if not key or key.endswith("/"):
            return None
        blob = self._client.bucket(bucket).blob(key)
        try:
            with _source_errors():
                blob.reload(**self._options)
        except SourceError as error:
            if error.reason == Reason.NOT_FOUND and self._is_folder(bucket, key):
                return None
            raise
        return _identity(blob)

    def _is_folder(self, bucket: str, key: str) -> bool:
        with _source_errors():
            return any(self._client.list_blobs(bucket, prefix=f"{key}/", max_results=1, **self._options))

    def list(self, path: str) -> Iterator[tuple[str, Identity]]:
        """As Store.list; a page of 1,000 at a time."""
        bucket, _, key = path.rstrip("/").partition("/")
        with _source_errors():
            prefix = f"{key}/" if key else None
            for blob in self._client.list_blobs(bucket, prefix=prefix, fields=_FIELDS, **self._options):
                if not blob.name.endswith("/"):  # consoles make such objects to show an empty folder
                    yield f"{bucket}/{blob.name}", _identity(blob)

    def get(self, path: str, offset: int, size: int, etag: str | None) -> bytes:
        """As Store.get."""
        bucket, _, key = path.partition("/")
        blob = self._client.bucket(bucket).blob(key)
        try:
            with _source_errors():
                data: bytes = blob.download_as_bytes(
                    start=offset,
                    end=offset + size - 1,
                    raw_download=True,
                    checksum=None,
                    if_generation_match=int(etag) if etag and etag.isdigit() else None,
                    **self._options,
                )
        except RequestRangeNotSatisfiable:
            return b""
        if etag not in (None, str(blob.generation)):
            raise SourceError(f"generation was {etag} and is {blob.generation}", reason=Reason.STALE)
        if len(data) > size:
            raise SourceError("the store sends other bytes than the range that was asked for")
        return data

    def put(self, path: str, file: Path) -> None:
        """As Store.put."""
        bucket, _, key = path.partition("/")
        with _source_errors():
            self._client.bucket(bucket).blob(key).upload_from_filename(str(file), **self._options)


def _identity(blob: Any) -> Identity:
    created = blob.time_created
    return Identity(
        size_bytes=blob.size or 0,
        mtime_ns=None if created is None else int(created.timestamp()) * 1_000_000_000 + created.microsecond * 1000,
        etag=str(blob.generation),
    )


@contextmanager
def _source_errors() -> Iterator[None]:
    """Whatever the library raises, as SourceError; but for a range beyond the end."""
    try:
        yield
    except RequestRangeNotSatisfiable:
        raise
    except NotFound as error:
        raise SourceError(_text(error), reason=Reason.NOT_FOUND) from error
    except PreconditionFailed as error:
        raise SourceError(_text(error), reason=Reason.STALE) from error
    except (GoogleAPIError, GoogleAuthError, requests.RequestException, ValueError) as error:
        raise SourceError(f"{type(error).__name__}: {_text(error)}") from error


def _text(error: Exception) -> str:
    return " ".join(str(error).split())
