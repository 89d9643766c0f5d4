"""What every client of an object store is held to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vidprep.errors import Reason, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vidprep.records import Identity
    from vidprep.sources.stores import Store

#: key → bytes: an empty object, one that only shows a folder, and one whose folder's name begins like another's.
OBJECTS = {"a/b.mp4": b"0123456789", "a/c/d.mp4": b"", "a/": b"", "ab/c.mp4": b"x"}


def lists_looks_up_and_reads(store: Store, bucket: str) -> tuple[Identity, Identity]:
    """How an object is listed and looked up: a client may know more of it one way than the other."""
    found = dict(store.list(f"{bucket}/a"))
    assert list(found) == [f"{bucket}/a/b.mp4", f"{bucket}/a/c/d.mp4"]
    assert [identity.size_bytes for identity in found.values()] == [10, 0]
    assert store.stat(f"{bucket}/a") is None
    identity = store.stat(f"{bucket}/a/b.mp4")
    assert identity is not None
    assert (identity.size_bytes, identity.mtime_ns) == (10, found[f"{bucket}/a/b.mp4"].mtime_ns)
    assert store.get(f"{bucket}/a/b.mp4", 2, 3, None) == b"234"
    assert store.get(f"{bucket}/a/b.mp4", 8, 30, None) == b"89"
    assert store.get(f"{bucket}/a/b.mp4", 10, 3, None) == b""
    return found[f"{bucket}/a/b.mp4"], identity


def says_what_is_not_there_and_what_changed(store: Store, bucket: str, other_etags: Sequence[str]) -> None:
    for path in (f"{bucket}/nothing.mp4", "no-such-bucket/a.mp4"):
        with pytest.raises(SourceError) as caught:
            store.stat(path)
        assert caught.value.reason == Reason.NOT_FOUND
    with pytest.raises(SourceError) as caught:
        store.get(f"{bucket}/nothing.mp4", 0, 1, None)
    assert caught.value.reason == Reason.NOT_FOUND
    for etag in other_etags:
        with pytest.raises(SourceError) as caught:
            store.get(f"{bucket}/a/b.mp4", 0, 1, etag)
        assert caught.value.reason == Reason.STALE


def makes_an_object_of_a_file(store: Store, bucket: str, folder: Path) -> None:
    (folder / "part").write_bytes(b"x" * 100_000)
    store.put(f"{bucket}/index/part", folder / "part")
    assert store.get(f"{bucket}/index/part", 99_998, 10, None) == b"xx"
