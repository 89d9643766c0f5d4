"""A real S3 endpoint on loopback: moto's server, which can be told to be slow or to fail, and counts what it is asked."""

from __future__ import annotations

import logging
import threading
import time
import urllib.request
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

BUCKET = "videos"


class Middleware:
    """Around moto's WSGI application."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()
        self.requests: list[tuple[str, str, str]] = []
        """(method, path, range or query)"""
        self.delay_seconds = 0.0
        self.fail_every = 0
        """every n-th GET of an object is answered by 503"""
        self.fail_puts = False
        """every PUT of an object is answered by 503"""
        self.cut_off_every = 0
        """every n-th GET of an object ends half way"""
        self.refuse: str | None = None
        """paths that begin like this are answered by 403"""
        self.ignores_ranges = False
        self.hang: str | None = None
        """GETs of paths that hold this wait for 30 s"""
        self.most_at_once = 0
        self._at_once = 0
        self._gets = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        is_get = method == "GET" and path.count("/") > 1
        with self._lock:
            self.requests.append((method, path, environ.get("HTTP_RANGE") or environ.get("QUERY_STRING", "")))
            self._gets += is_get
            is_cut = is_get and self.cut_off_every and self._gets % self.cut_off_every == 0
            fails = is_get and self.fail_every and self._gets % self.fail_every == 0
            fails = fails or (self.fail_puts and method == "PUT")
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            time.sleep(30 if is_get and self.hang and self.hang in path else self.delay_seconds)
            if fails:
                start_response("503 Slow Down", [("Content-Type", "text/xml")])
                return [b"<Error><Code>SlowDown</Code><Message>not so fast</Message></Error>"]
            if self.refuse and path.startswith(self.refuse):
                start_response("403 Forbidden", [("Content-Type", "text/xml")])
                return [b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"]
            if self.ignores_ranges:
                environ.pop("HTTP_RANGE", None)
            body = list(self._application(environ, start_response))
            return [b"".join(body)[: len(b"".join(body)) // 2]] if is_cut else body
        finally:
            with self._lock:
                self._at_once -= 1

    def forget(self) -> None:
        self.requests.clear()
        self.most_at_once = self._gets = 0

    def methods(self) -> Counter[str]:
        return Counter(method for method, _, _ in self.requests)

    def ranges_of(self, name: str) -> list[str]:
        return [what for method, path, what in self.requests if method == "GET" and path.endswith(name)]


class ObjectStore:
    """The endpoint and a client of ours for it."""

    def __init__(self, url: str, middleware: Middleware) -> None:
        import boto3

        self.url, self.middleware = url, middleware
        self.client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
        with urllib.request.urlopen(urllib.request.Request(f"{url}/moto-api/reset", method="POST")):
            pass  # moto's memory is the process's, not the server's
        self.client.create_bucket(Bucket=BUCKET)

    def put(self, key: str, data: bytes) -> str:
        self.client.put_object(Bucket=BUCKET, Key=key, Body=data)
        return f"s3://{BUCKET}/{key}"

    def put_file(self, key: str, path: Path) -> str:
        return self.put(key, path.read_bytes())


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Serve for a while, with the environment pointing at it; workers inherit that."""
    server_module = pytest.importorskip("moto.server", reason="moto is not installed")
    from werkzeug.serving import make_server

    from vidprep.sources.stores import forget_stores

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    middleware = Middleware(server_module.DomainDispatcherApplication(server_module.create_backend_app))
    server = make_server("127.0.0.1", 0, middleware, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.port}"
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    forget_stores()
    try:
        yield ObjectStore(url, middleware)
    finally:
        forget_stores()
        server.shutdown()
        server.server_close()
        thread.join()
