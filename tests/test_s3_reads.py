"""Reads that go straight to a bucket once botocore has shown the way, against moto's S3 server."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.object_store import BUCKET, ObjectStore, serving
from vidprep.errors import Reason, SourceError
from vidprep.sources.s3_reads import PlainReads
from vidprep.sources.store_s3 import S3Store
from vidprep.sources.stores import forget_stores, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ODD_KEYS = (
    "a b.mp4", "a//b.mp4", "ü/é.mp4", "100%.mp4", "a%20b.mp4", "a+b=c&d?e#f.mp4", "q'\"<>|*.mp4", "x/./y.mp4", "x/../y.mp4",
    "~tilde (1), [2] {3}^`\\.mp4", "/leading.mp4", "k" * 900,
)  # fmt: skip


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with serving(monkeypatch) as store:
        yield store


@pytest.fixture
def botocore_gets(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys that botocore itself has read."""
    keys: list[str] = []
    read = S3Store._read

    def noted(self: S3Store, wanted: dict[str, str]) -> bytes:
        keys.append(wanted["Key"])
        return read(self, wanted)

    monkeypatch.setattr(S3Store, "_read", noted)
    return keys


def test_after_the_first_read_of_a_bucket_botocore_is_not_needed(s3: ObjectStore, botocore_gets: list[str]) -> None:
    for key in ("a", "b", "c"):
        s3.put(key, key.encode() * 100)
    store = store_of("s3")
    s3.middleware.forget()
    assert [store.get(f"{BUCKET}/{key}", 10, 3, None) for key in ("a", "b", "c")] == [b"aaa", b"bbb", b"ccc"]
    assert botocore_gets == ["a"]
    assert len(s3.middleware.requests) == 3


def test_of_many_who_begin_at_once_one_asks_botocore(s3: ObjectStore, botocore_gets: list[str]) -> None:
    s3.put("a", b"0123456789")
    store = S3Store()
    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(lambda at: store.get(f"{BUCKET}/a", at % 10, 1, None), range(64))) == {
            str(digit).encode() for digit in range(10)
        }
    assert botocore_gets == ["a"]


def test_a_first_read_that_fails_holds_nobody_up(s3: ObjectStore, botocore_gets: list[str]) -> None:
    s3.put("a", b"0123456789")
    store = S3Store()
    with pytest.raises(SourceError):
        store.get(f"{BUCKET}/nothing", 0, 1, None)
    assert store._plain._firsts[BUCKET].is_set()
    assert [store.get(f"{BUCKET}/a", 0, 1, None) for _ in range(3)] == [b"0"] * 3
    assert botocore_gets == ["nothing", "a"]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_any_key_is_read_straight(s3: ObjectStore, botocore_gets: list[str], key: str) -> None:
    s3.put("first", b"0123456789")
    s3.put(key, key.encode())
    store = store_of("s3")
    store.get(f"{BUCKET}/first", 0, 1, None)
    assert store.get(f"{BUCKET}/{key}", 0, 2000, None) == key.encode()
    assert botocore_gets == ["first"]


def test_straight_reads_are_signed_for_the_bucket_s_region(s3: ObjectStore) -> None:
    s3.put("a b", b"0123456789")
    store = S3Store()
    store.get(f"{BUCKET}/a b", 0, 1, None)
    route = store._plain._routes[BUCKET]
    assert route is not None
    headers = store._plain._headers(route, f"/{BUCKET}/a%20b", {"Range": "bytes=0-1"})
    assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=test/")
    assert "/us-east-1/s3/aws4_request, SignedHeaders=host;range;x-amz-" in headers["Authorization"]
    assert route.origin == s3.url


def test_without_credentials_nothing_is_signed(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    s3.client.put_object(Bucket=BUCKET, Key="a", Body=b"0123456789", ACL="public-read")
    store = S3Store()
    assert [store.get(f"{BUCKET}/a", offset, 2, None) for offset in (0, 4)] == [b"01", b"45"]
    route = store._plain._routes[BUCKET]
    assert route is not None
    assert route.region is None
    assert "Authorization" not in store._plain._headers(route, "/a", {})


def test_bytes_come_as_they_are_stored(s3: ObjectStore) -> None:
    """A range of a compressed stream is no compressed stream."""
    s3.client.put_object(Bucket=BUCKET, Key="a", Body=b"0123456789", ContentEncoding="gzip")
    store = store_of("s3")
    assert [store.get(f"{BUCKET}/a", 2, 4, None) for _ in range(2)] == [b"2345", b"2345"]


@pytest.mark.parametrize(
    ("key", "etag", "reason"), [("nothing", None, Reason.NOT_FOUND), ("a", "another", Reason.STALE)]
)
def test_what_is_wrong_with_an_object_is_told_and_closes_no_way(
    s3: ObjectStore, botocore_gets: list[str], key: str, etag: str | None, reason: Reason
) -> None:
    s3.put("a", b"0123456789")
    store = store_of("s3")
    store.get(f"{BUCKET}/a", 0, 1, None)
    with pytest.raises(SourceError) as caught:
        store.get(f"{BUCKET}/{key}", 0, 1, etag)
    assert caught.value.reason == reason
    assert store.get(f"{BUCKET}/a", 9, 5, None) == b"9"
    assert store.get(f"{BUCKET}/a", 10, 5, None) == b""
    botocore_gets.clear()
    assert store.get(f"{BUCKET}/a", 0, 2, None) == b"01"
    assert botocore_gets == []


def test_a_way_that_is_refused_is_left_to_botocore(s3: ObjectStore, botocore_gets: list[str]) -> None:
    s3.put("a", b"0123456789")
    store = S3Store()
    store.get(f"{BUCKET}/a", 0, 1, None)
    route = store._plain._routes[BUCKET]
    assert route is not None
    store._plain._routes[BUCKET] = route._replace(folder="/no-such-bucket-")
    s3.middleware.refuse = "/no-such-bucket-"
    assert store.get(f"{BUCKET}/a", 0, 2, None) == b"01"
    assert store._plain._routes[BUCKET] is None
    assert store.get(f"{BUCKET}/a", 3, 2, None) == b"34"
    assert botocore_gets == ["a"] * 3


def test_a_store_that_is_busy_or_breaks_off_is_asked_again(s3: ObjectStore, botocore_gets: list[str]) -> None:
    s3.put("a", bytes(range(256)) * 1000)
    store = store_of("s3")
    store.get(f"{BUCKET}/a", 0, 1, None)
    s3.middleware.fail_every = 2
    assert [store.get(f"{BUCKET}/a", at, 1, None) for at in range(6)] == [bytes([at]) for at in range(6)]
    s3.middleware.fail_every = 0
    botocore_gets.clear()
    s3.middleware.cut_off_every = 2
    assert [store.get(f"{BUCKET}/a", at, 5000, None)[0] for at in range(6)] == list(range(6))
    assert botocore_gets


def test_a_store_that_ignores_ranges_is_an_error_and_no_other_bytes(s3: ObjectStore) -> None:
    s3.put("a", b"0123456789")
    store = store_of("s3")
    for _ in range(2):  # by botocore, and straight
        s3.middleware.ignores_ranges = True
        with pytest.raises(SourceError, match="other bytes than the range"):
            store.get(f"{BUCKET}/a", 3, 2, None)
        s3.middleware.ignores_ranges = False
        assert store.get(f"{BUCKET}/a", 3, 2, None) == b"34"


def test_a_proxy_is_left_to_botocore(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put("a", b"0123456789")
    store = S3Store()
    store.get(f"{BUCKET}/a", 0, 1, None)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    reads = PlainReads.__new__(PlainReads)
    assert reads._route(_Request(f"{s3.url}/{BUCKET}/a"), "a") is None


class _Request:
    def __init__(self, url: str) -> None:
        self.url, self.headers = url, {"Authorization": "AWS4-HMAC-SHA256 Credential=k/20260101/r/s3/aws4_request, x"}


@pytest.mark.parametrize(
    "authorization",
    ["AWS k:signature", "AWS4-ECDSA-P256-SHA256 Credential=k/20260101/s3/aws4_request, x",
     "AWS4-HMAC-SHA256 Credential=k/20260101/r/s3express/aws4_request, x"],
)  # fmt: skip
def test_other_ways_of_signing_are_left_to_botocore(authorization: str) -> None:
    request: Any = _Request("https://bucket.example/a")
    request.headers = {"Authorization": authorization}
    assert PlainReads.__new__(PlainReads)._route(request, "a") is None


def test_a_forked_process_makes_connections_of_its_own(s3: ObjectStore) -> None:
    s3.put("a", b"0123456789")
    parents = store_of("s3")
    parents.get(f"{BUCKET}/a", 0, 1, None)
    child = os.fork()
    if child == 0:
        os._exit(0 if store_of("s3") is not parents and store_of("s3").get(f"{BUCKET}/a", 4, 2, None) == b"45" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store_of("s3") is parents
    forget_stores()
