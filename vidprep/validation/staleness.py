"""Whether the files are still those that were indexed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import MediaError, Reason
from vidprep.sources import open_source
from vidprep.sources.open import MEMBER_MARK, is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from vidprep.validation.columns import Columns
    from vidprep.validation.rules import Rules

__all__ = ["IDENTITY_COLUMNS", "stale_findings"]

IDENTITY_COLUMNS = ("size_bytes", "mtime_ns", "etag")

#: Object stores that are asked at the same time.
REQUESTS_IN_FLIGHT = 32


def stale_findings(columns: Columns, rules: Rules) -> Iterator[pa.Table]:
    """Readable rows whose file is gone or has another size, time or tag."""
    places = np.flatnonzero(columns.ok).tolist()
    names = columns.table["uri"].to_pylist()
    raw = columns.table["uri_bytes"].to_pylist()
    known = zip(*(columns.table[name].to_pylist() for name in IDENTITY_COLUMNS), strict=True)
    tasks = [(names[place] if raw[place] is None else os.fsdecode(raw[place])) for place in range(len(names))]
    identities = list(known)
    archive = lru_cache(maxsize=1024)(_stat)

    def look(place: int) -> tuple[Reason, str] | None:
        uri = tasks[place]
        return _changes_of_object(uri, identities[place]) if is_remote(uri) else _changes(uri, identities[place])

    def _changes(uri: str, identity: tuple[int, int | None, str | None]) -> tuple[Reason, str] | None:
        size, mtime, _ = identity
        if MEMBER_MARK in uri and not os.path.lexists(uri):
            uri, size = uri.partition("::")[0], -1  # the member's own size is not the archive's
            found = archive(uri)
        else:
            found = _stat(uri.removeprefix("file://"))
        if found is None:
            return Reason.VANISHED, "no longer there"
        if size not in (-1, found[0]):
            return Reason.STALE, f"size_bytes was {size} when indexed and is {found[0]}"
        if mtime is not None and mtime != found[1]:
            return Reason.STALE, f"mtime_ns was {mtime} when indexed and is {found[1]}"
        return None

    remote = [place for place in places if is_remote(tasks[place])]
    found = {place: change for place in places if not is_remote(tasks[place]) and (change := look(place))}
    if remote:
        with ThreadPoolExecutor(REQUESTS_IN_FLIGHT) as pool:
            found |= {place: change for place, change in zip(remote, pool.map(look, remote), strict=True) if change}
    for reason in (Reason.VANISHED, Reason.STALE):
        some = [place for place in sorted(found) if found[place][0] is reason]
        if some and str(reason) in rules.severities:
            yield columns.findings(str(reason), rules, some, [found[place][1] for place in some])


def _stat(path: str) -> tuple[int, int] | None:
    """(size, mtime in ns); None where nothing is, or nothing can be seen."""
    try:
        found = os.stat(path)  # noqa: PTH116 - once a file, so the fast way
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _changes_of_object(uri: str, identity: tuple[int, int | None, str | None]) -> tuple[Reason, str] | None:
    try:
        with open_source(uri) as source:
            now = source.identity
    except MediaError as error:
        return (Reason.VANISHED, "no longer there") if error.reason == Reason.NOT_FOUND else None
    for name, before, after in zip(IDENTITY_COLUMNS, identity, (now.size_bytes, now.mtime_ns, now.etag), strict=True):
        if before is not None and after is not None and before != after:
            return Reason.STALE, f"{name} was {before} when indexed and is {after}"
    return None
