"""What `--update` has to do: compare a listing with an index, in arrays of a few words per row."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import MediaError, Reason
from vidprep.indexes.state import hashes_here, read_names
from vidprep.indexes.worker import vanished
from vidprep.records import Identity
from vidprep.sources.listing import Item
from vidprep.sources.open import MEMBER_MARK, is_remote, open_source
from vidprep.sources.tar import directory_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vidprep.indexes.state import Hashes

#: Failures that may be gone the next time, although the file did not change.
_PASSING = {
    Reason.TIMEOUT,
    Reason.OUT_OF_MEMORY,
    Reason.WORKER_DIED,
    Reason.UNREADABLE,
    Reason.NOT_FOUND,
    Reason.VANISHED,
}


class Held:
    """What an index holds, by place (parts, then rows, in order): a few words per row; and what changes."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self._parts = list(parts)
        facts = [_facts(part) for part in self._parts]
        lengths = [len(codes) for codes, _, _ in facts]
        self._starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        codes = np.concatenate([np.zeros(0, np.uint64), *(codes for codes, _, _ in facts)])
        self._states = np.concatenate([np.zeros(0, np.uint64), *(states for _, states, _ in facts)])
        self._failed = np.concatenate([np.zeros(0, bool), *(failed for _, _, failed in facts)])
        self._sorted = np.argsort(codes, kind="stable")
        self._codes = codes[self._sorted]
        self._seen = np.zeros(len(codes), bool)
        self._changes: dict[int, Item] = {}

    def find(self, wanted: Hashes) -> list[int]:
        """Place of each uri hash, −1 where the index has none."""
        if not len(self._codes):
            return [-1] * len(wanted)
        at = np.minimum(np.searchsorted(self._codes, wanted), len(self._codes) - 1)
        found: list[int] = np.where(self._codes[at] == wanted, self._sorted[at], -1).tolist()
        return found

    def is_new(self, place: int, item: Item) -> bool:
        """Whether a listed item is new; if it is not, note that it is there, and whether it changed."""
        if place < 0:
            return True
        self._seen[place] = True
        if int(self._states[place]) != _state_of(item):
            self._changes[place] = item
        return False

    def find_vanished(self) -> None:
        """Note rows that no listing named and whose file is gone, unless they say so already."""
        open_part, columns = -1, dict[str, list[Any]]()
        for place, part, row in self._where(np.flatnonzero(~self._seen).tolist()):
            if part != open_part:
                open_part, columns = part, read_names(self._parts[part], ["path", "error_reason", *_IDENTITY])
            uri = columns["uri"][row]
            if columns["error_reason"][row] != Reason.VANISHED and not exists(uri):
                identity = Identity(**{name: columns[name][row] for name in _IDENTITY})
                self._changes[place] = Item(uri, columns["path"][row], identity, vanished())

    def failed_and_kept(self) -> int:
        """Error rows that will not be made anew."""
        kept = self._failed.copy()
        kept[list(self._changes)] = False
        return int(kept.sum())

    def changes(self) -> Iterator[tuple[Path, dict[int, Item]]]:
        """Parts that must be rewritten, with the new items by row."""
        by_part: dict[int, dict[int, Item]] = {}
        for place, part, row in self._where(sorted(self._changes)):
            by_part.setdefault(part, {})[row] = self._changes[place]
        for part, items in by_part.items():
            yield self._parts[part], items

    def _where(self, places: list[int]) -> Iterator[tuple[int, int, int]]:
        """(place, part, row) of each."""
        parts = (np.searchsorted(self._starts, places, side="right") - 1).tolist()
        for place, part in zip(places, parts, strict=True):
            yield place, part, place - int(self._starts[part])


_IDENTITY = ("size_bytes", "mtime_ns", "etag", "member_offset")


def _facts(part: Path) -> tuple[Any, Any, Any]:
    """Hash of the uri, hash of the state, and whether it failed, for each row."""
    columns = read_names(part, ["status", "error_reason", *_IDENTITY])
    states = hashes_here(zip(*(columns[name] for name in _IDENTITY), strict=True))
    states[[reason in _PASSING for reason in columns["error_reason"]]] = _REDO
    failed = [status == "error" for status in columns["status"]]
    return hashes_here(columns["uri"]), states, np.array(failed, bool)


#: The state of a row that is made anew whatever the listing says.
_REDO = 0


def _state_of(item: Item) -> int:
    seen = item.identity or Identity(size_bytes=-1)
    return hash((seen.size_bytes, seen.mtime_ns, seen.etag, seen.member_offset)) % (1 << 64)


def exists(uri: str) -> bool:
    """Whether there is anything under a uri; a store that does not answer has it still.

    An archive itself has a row only while it is damaged.
    """
    if uri.endswith(".tar"):
        error = directory_of(uri).error
        return error is not None and error.reason != Reason.NOT_FOUND
    if not is_remote(uri) and (os.path.lexists(uri) or MEMBER_MARK not in uri):
        return os.path.lexists(uri) and not os.path.isdir(uri)  # noqa: PTH112 - names may be any bytes
    try:
        open_source(uri).close()
    except MediaError as error:
        return error.reason != Reason.NOT_FOUND
    return True
