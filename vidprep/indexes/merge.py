"""Indexes into one: `merge` takes whole parts of several, `compact` writes fewer, larger parts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vidprep.errors import IndexFormatError
from vidprep.indexes.mirror import local_folder, upload
from vidprep.indexes.schema import open_part
from vidprep.indexes.state import HashSet, check_folder, hashes_here, locked, part_paths, read_names
from vidprep.indexes.worker import conform
from vidprep.indexes.write import PartWriter, publish, sync_folder
from vidprep.sources.open import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

#: Videos of a compacted part.
COMPACT_VIDEOS = 16_384


def merge_indexes(indexes: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> int:
    """Gather the rows of several indexes into a new one; a video that several hold is taken from the first.

    Args:
        indexes: folders, or `s3://...` and `gs://...`.
        out: the same. A folder appears whole or not at all; an object store gets one part after the other.

    Returns:
        number of videos.

    Raises:
        IndexFormatError: an input is no index, or `out` holds parts already.
        SourceError: an object store does not answer.
    """
    return _rewrite(indexes, out)


def compact_index(index: str | os.PathLike[str], out: str | os.PathLike[str]) -> int:
    """Write an index anew, in the same order, with fewer and larger parts. Returns and raises as `merge_indexes`."""
    return _rewrite([index], out)


def _rewrite(indexes: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> int:
    where, target = os.fspath(out), local_folder(out)
    check_folder(target)
    if target.is_dir() and part_paths(target):
        raise IndexFormatError(
            f"{where}: holds an index already (or some of one that was not finished); give a new folder"
        )
    parts = [part for index in indexes for part in _parts(index)]
    with locked(target, "merge") as aside:
        folder = aside / "whole"
        folder.mkdir()
        total = _write_parts(_tables(parts), folder)
        if is_remote(where):
            for part in part_paths(folder):
                upload(where, part, part.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        publish(folder, target)  # one rename: readers see the whole index or none
        sync_folder(target.parent)
    return total


def _parts(index: str | os.PathLike[str]) -> list[Path]:
    folder = local_folder(index)
    parts = part_paths(folder) if folder.is_dir() else []
    if not parts:
        raise IndexFormatError(f"{os.fspath(index)}: no index there")
    return parts


def _tables(parts: Sequence[Path]) -> Iterator[pa.Table]:
    """Row groups of the parts, without rows whose uri came before."""
    taken = HashSet()
    for part in parts:
        fresh = taken.add_new(hashes_here(read_names(part)["uri"]))
        with open_part(part) as file:
            first = 0
            for group in range(file.num_row_groups):
                table = conform(file.read_row_group(group))
                here = fresh[first : first + table.num_rows]
                first += table.num_rows
                yield table if here.all() else table.filter(here)


def _write_parts(tables: Iterator[pa.Table], folder: Path) -> int:
    total = number = 0
    ahead = next(tables, None)
    while ahead is not None or number == 0:
        with PartWriter(folder / f"part-{number:07d}-000.parquet") as writer:
            while ahead is not None and writer.num_rows < COMPACT_VIDEOS:
                writer.add_table(ahead)
                ahead = next(tables, None)
        total, number = total + writer.num_rows, number + 1
    return total
