"""What is on disk besides the parts: the sibling state folder, its lock, and what an index already knows."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import IndexFormatError
from vidprep.indexes.schema import open_part
from vidprep.sources.listing import STATE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint64]


def state_folder(index: Path) -> Path:
    """`INDEX.vidprep/`, beside the index."""
    return index.with_name(index.name + STATE_SUFFIX)


def part_paths(index: Path) -> list[Path]:
    """The parts of an index, in the order of its rows."""
    return sorted(path for path in index.glob("*.parquet") if not path.name.startswith((".", "_")))


def num_rows(index: Path) -> int:
    """Rows of all parts that are in place."""
    total = 0
    for path in part_paths(index):
        with open_part(path) as part:
            total += part.metadata.num_rows
    return total


@contextmanager
def locked(index: Path, name: str) -> Iterator[Path]:
    """Hold the index for one writer (of one shard); gives the folder for its temporaries, emptied.

    The lock is the kernel's, so it goes with the process however that ends.

    Raises:
        BlockingIOError: another run is writing.
    """
    state = state_folder(index)
    aside = state / f"aside-{name}"
    aside.mkdir(parents=True, exist_ok=True)
    fd = os.open(state / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another run is writing this index", str(index)) from error
        for leftover in aside.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        yield aside
    finally:
        os.close(fd)


@contextmanager
def cut_into(index: Path, count: int) -> Iterator[None]:
    """Say how many shards the listing of this run is cut into, while it runs: all that run at a time must agree.

    Raises:
        BlockingIOError: another run is writing that is cut otherwise: both would have some videos.
    """
    fd = os.open(state_folder(index) / "runs.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with suppress(BlockingIOError):  # others run: then it stands there
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(fd, 0)
            os.pwrite(fd, str(count).encode(), 0)
        fcntl.flock(fd, fcntl.LOCK_SH)
        others = int(os.pread(fd, 20, 0) or 0)
        if others != count:
            raise BlockingIOError(
                errno.EAGAIN, f"another run is writing this index, as one of {others} shards", str(index)
            )
        yield
    finally:
        os.close(fd)


@contextmanager
def replacing(index: Path) -> Iterator[None]:
    """Hold the index for the moment of one rename: shards may want to replace one part."""
    fd = os.open(state_folder(index) / "replace.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def uri_hash(uri: str) -> int:
    """64 bits that stand for a uri on every machine (blake2b)."""
    return int.from_bytes(hashlib.blake2b(os.fsencode(uri), digest_size=8).digest(), "little")


def hashes_here(values: Iterable[Any]) -> Hashes:
    """64 bits that stand for each value in this process (Python's own hashes): twenty times as quick as `uri_hash`."""
    return np.fromiter(map(hash, values), np.int64).view(np.uint64)


class HashSet:
    """A growing set of 64-bit hashes, 8 bytes each: sorted runs, merged as they double."""

    def __init__(self) -> None:
        self._runs: list[Hashes] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add_new(self, hashes: Sequence[int] | Hashes) -> npt.NDArray[np.bool_]:
        """Add them; bool for each: it was not there before (the first of equal ones counts as new)."""
        values = np.asarray(hashes, np.uint64)
        fresh = np.zeros(len(values), bool)
        fresh[np.unique(values, return_index=True)[1]] = True
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, values), len(run) - 1)
            fresh &= run[place] != values
        if fresh.any():
            self._runs.append(np.sort(values[fresh]))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]))
        return fresh


def read_names(part: Path, more: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Columns `uri` (byte for byte), and `more`, of one part."""
    with open_part(part) as file:
        table = file.read(columns=["uri", "uri_bytes", *more])
    all_text = table["uri_bytes"].null_count == len(table)
    columns: dict[str, list[Any]] = table.drop_columns(["uri_bytes"]).to_pydict()
    if not all_text:
        raw = table["uri_bytes"].to_pylist()
        columns["uri"] = [
            text if exact is None else os.fsdecode(exact) for text, exact in zip(columns["uri"], raw, strict=True)
        ]
    return columns


def check_folder(index: Path) -> None:
    """Refuse to write an index into something else. Raises IndexFormatError, NotADirectoryError."""
    if index.exists() and not index.is_dir():
        raise NotADirectoryError(20, "the index must be a folder", str(index))
    strangers = [path.name for path in index.iterdir() if path.suffix != ".parquet"] if index.is_dir() else []
    if strangers:
        raise IndexFormatError(f"{index}: holds {strangers[0]!r}; an index folder holds *.parquet only")
