"""Indexes into one: `merge` takes whole parts of several, `compact` writes fewer, larger parts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vidprep.errors import IndexFormatError
from vidprep.indexes.schema import open_part
from vidprep.indexes.state import HashSet, check_folder, locked, part_paths, read_names, uri_hash
from vidprep.indexes.worker import conform
from vidprep.indexes.write import PartWriter, publish, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

#: Videos of a compacted part.
COMPACT_VIDEOS = 16_384


def merge_indexes(indexes: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> int:
    """Gather the rows of several indexes into a new one; a video that several hold is taken from the first.

    Returns:
        number of videos.

    Raises:
        IndexFormatError: an input is no index, or `out` holds parts already.
    """
    return _rewrite(indexes, out)


def compact_index(index: str | os.PathLike[str], out: str | os.PathLike[str]) -> int:
    """Write an index anew, in the same order, with fewer and larger parts. Returns and raises as `merge_indexes`."""
    return _rewrite([index], out)


def _rewrite(indexes: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> int:
    target = Path(os.path.realpath(out))
    check_folder(target)
    if target.is_dir() and part_paths(target):
        raise IndexFormatError(f"{target}: holds an index already; give a new folder")
    parts = [part for index in indexes for part in _parts(Path(os.path.realpath(index)))]
    with locked(target, "merge") as aside:
        folder = aside / "whole"
        folder.mkdir()
        total = _write_parts(_tables(parts), folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        publish(folder, target)  # one rename: readers see the whole index or none
        sync_folder(target.parent)
    return total


def _parts(index: Path) -> list[Path]:
    parts = part_paths(index) if index.is_dir() else []
    if not parts:
        raise IndexFormatError(f"{index}: no index there")
    return parts


def _tables(parts: Sequence[Path]) -> Iterator[pa.Table]:
    """Row groups of the parts, without rows whose uri came before."""
    taken = HashSet()
    for part in parts:
        fresh = taken.add_new([uri_hash(uri) for uri in read_names(part)["uri"]])
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
