"""What is asked of an object store, and which client answers for a scheme.

`s3://` is served by botocore, `gs://` by google-cloud-storage, where they are installed (the extras `s3` and `gs`): their
listings tell etags (of Google's objects the generation), and a read is one request. Without them pyarrow's file systems
serve: no etags in listings, and one more request (HEAD) for each read.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vidprep.records import Identity

CONNECT_TIMEOUT_SECONDS = 10
REQUEST_TIMEOUT_SECONDS = 60
#: Of one request, the first included; with growing waits between them.
MAX_ATTEMPTS = 5
#: Requests that one process may have in flight.
MAX_CONNECTIONS = 64


class Store(Protocol):
    """An object store. Paths are `bucket/key`. Methods are safe to call from several threads; all raise SourceError."""

    def stat(self, path: str) -> Identity | None:
        """Identity of an object; None where the path is a folder."""

    def list(self, path: str) -> Iterator[tuple[str, Identity]]:
        """(path, identity) of all objects below a folder, in order of their names."""

    def get(self, path: str, offset: int, size: int, etag: str | None) -> bytes:
        """Bytes of an object, fewer at its end; `stale` where its etag is another one than that given."""

    def put(self, path: str, file: Path) -> None:
        """Make a local file an object: whole, or not at all."""


def store_of(scheme: str) -> Store:
    """The client of a scheme, one for all threads.

    Set up from the environment: AWS_*; GOOGLE_APPLICATION_CREDENTIALS, STORAGE_EMULATOR_HOST.
    """
    with _making:  # takes a quarter of a second, which 64 threads must not each spend
        return _new_store(scheme)


_making = threading.Lock()


@lru_cache(maxsize=8)
def _new_store(scheme: str) -> Store:
    if scheme == "s3" and importlib.util.find_spec("botocore"):
        from vidprep.sources.store_s3 import S3Store

        return S3Store()
    if scheme == "gs" and _has_google():
        from vidprep.sources.store_gcs import GcsStore

        return GcsStore()
    from vidprep.sources.store_arrow import ArrowStore

    return ArrowStore(scheme)


def _has_google() -> bool:
    try:
        return importlib.util.find_spec("google.cloud.storage") is not None
    except ModuleNotFoundError:  # no package `google.cloud` either
        return False


def forget_stores() -> None:
    """Make clients anew: the environment has changed."""
    _new_store.cache_clear()


def _in_child() -> None:
    """Connections must not be shared with the parent: two processes would read each other's answers."""
    global _making
    _making = threading.Lock()  # a thread of the parent may have held it
    forget_stores()


os.register_at_fork(after_in_child=_in_child)


def split_uri(uri: str) -> tuple[Store, str]:
    """Store and `bucket/key` of `scheme://bucket/key`."""
    scheme, _, path = uri.partition("://")
    return store_of(scheme), path


def endpoint_url() -> str | None:
    """Another endpoint than the provider's own: AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
