"""An index that lives in an object store: its parts, copied beside each other on local disk.

The store is the truth. A copy is brought up to it whenever the index is opened or written to: parts that the store does
not have are dropped, those that it has and the copy has not (by size and time) are fetched. A new part is finished on
local disk and put into the store by one request, so readers there see whole parts only.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from vidprep.errors import MediaError, Reason, SourceError
from vidprep.indexes.state import part_paths
from vidprep.sources.open import is_remote
from vidprep.sources.stores import split_uri

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.records import Identity

_CHUNK_BYTES = 64 << 20
#: At an index that changes while it is copied.
_LOOKS = 4


def mirror_folder(uri: str, cache_dir: Path | None = None) -> Path:
    """Where the copy of an index lies: below `cache_dir`, or the user's cache folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "vidprep"
    name = hashlib.blake2b(uri.rstrip("/").encode(), digest_size=8).hexdigest()
    return (cache_dir or home) / f"index-{name}"


def local_folder(index: str | os.PathLike[str], cache_dir: Path | None = None) -> Path:
    """The folder of an index: its own, or that of its copy, brought up to what the store holds. Raises SourceError."""
    where = os.fspath(index)
    if not is_remote(where):
        return Path(os.path.realpath(where))
    folder = mirror_folder(where, cache_dir)
    bring_up(where, folder)
    return folder


def holds_parts(uri: str) -> bool:
    """Whether a folder of a store is an index, by the first of its objects. Raises SourceError."""
    if ".tar::" in uri:
        return False
    store, path = split_uri(uri.rstrip("/"))
    try:
        name = next((found[len(path) + 1 :] for found, _ in store.list(path)), "")
    except SourceError as error:
        if error.reason == Reason.NOT_FOUND:
            return False
        raise error.with_uri(uri) from error.__cause__
    return _is_part(name)


def bring_up(uri: str, folder: Path) -> None:
    """Make the copy what the store holds; looks again where that changes meanwhile. Raises SourceError."""
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(_LOOKS - 1):
        try:
            _bring_up(uri, folder)
        except SourceError as error:
            if error.reason not in (Reason.STALE, Reason.NOT_FOUND):
                raise
        else:
            return
    _bring_up(uri, folder)


def _bring_up(uri: str, folder: Path) -> None:
    try:
        wanted = dict(_parts(uri))
    except MediaError as error:
        raise error.with_uri(uri) from error.__cause__
    have = {path.name: path for path in part_paths(folder)}
    for name in have.keys() - wanted.keys():
        have[name].unlink(missing_ok=True)
    for name, identity in wanted.items():
        if name not in have or _facts(have[name]) != (identity.size_bytes, identity.mtime_ns):
            _fetch(uri, name, identity, folder)


def _parts(uri: str) -> Iterator[tuple[str, Identity]]:
    store, path = split_uri(uri.rstrip("/"))
    for found, identity in store.list(path):
        name = found[len(path) + 1 :]
        if _is_part(name):
            yield name, identity


def _is_part(name: str) -> bool:
    return name.endswith(".parquet") and "/" not in name and not name.startswith((".", "_"))


def _facts(part: Path) -> tuple[int, int]:
    found = part.stat()
    return found.st_size, found.st_mtime_ns


def _fetch(uri: str, name: str, identity: Identity, folder: Path) -> None:
    store, path = split_uri(f"{uri.rstrip('/')}/{name}")
    aside = folder / f"{name}.{os.getpid()}.fetched"
    try:
        with aside.open("wb") as file:
            for offset in range(0, identity.size_bytes, _CHUNK_BYTES):
                size = min(_CHUNK_BYTES, identity.size_bytes - offset)
                file.write(store.get(path, offset, size, identity.etag))
            if file.tell() != identity.size_bytes:
                raise SourceError("it changed while it was fetched", reason=Reason.STALE, uri=f"{uri}/{name}")
        _date(aside, identity)
        aside.replace(folder / name)
    finally:
        aside.unlink(missing_ok=True)


def _date(part: Path, identity: Identity) -> None:
    """Give the copy the object's time."""
    if identity.mtime_ns is not None:
        os.utime(part, ns=(identity.mtime_ns, identity.mtime_ns))


def upload(uri: str, part: Path, name: str) -> None:
    """Put a finished part into the store, and date the copy as the store does. Raises SourceError."""
    store, path = split_uri(f"{uri.rstrip('/')}/{name}")
    store.put(path, part)
    identity = store.stat(path)
    if identity is not None:
        _date(part, identity)
