"""Lists of videos: text (one a line, or NUL-separated), csv and parquet (one column)."""

from __future__ import annotations

import csv
import os
import sys
from typing import IO, TYPE_CHECKING

from vidprep.errors import Reason, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Names of the column, first match wins, where none is given.
COLUMN_NAMES = ("uri", "path", "video", "video_path", "file", "filename", "file_name", "url")

_CHUNK_BYTES = 1 << 20


def read_list(path: str, column: str | None = None) -> Iterator[str]:
    """Entries of a list; `-` is stdin. Relative paths mean what they mean on the command line.

    Text lists are lines, or NUL-separated (`find -print0`) where a NUL comes in the first MiB: names with newlines need
    that, csv or parquet.

    Raises:
        SourceError: no such list, or no such column.
    """
    if path == "-":
        yield from _text_entries(sys.stdin.buffer)
        return
    try:
        if path.endswith(".parquet"):
            yield from _parquet_entries(path, column)
        elif path.endswith((".csv", ".tsv")):
            yield from _csv_entries(path, column)
        else:
            with open(path, "rb") as file:  # noqa: PTH123 - names may be any bytes
                yield from _text_entries(file)
    except FileNotFoundError as error:
        raise SourceError("no such list", reason=Reason.NOT_FOUND, uri=path) from error
    except OSError as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"cannot be read: {error}", uri=path) from error


def _text_entries(file: IO[bytes]) -> Iterator[str]:
    rest, mark = b"", None
    while chunk := file.read(_CHUNK_BYTES):
        mark = mark or (b"\0" if b"\0" in chunk else b"\n")
        *entries, rest = (rest + chunk).split(mark)
        yield from _decoded(entries, mark)
    yield from _decoded([rest], mark or b"\n")


def _decoded(entries: Iterable[bytes], mark: bytes) -> Iterator[str]:
    for entry in entries:
        name = entry.removesuffix(b"\r") if mark == b"\n" else entry
        if name:
            yield os.fsdecode(name)


def _csv_entries(path: str, column: str | None) -> Iterator[str]:
    with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:  # noqa: PTH123 - any bytes
        rows = csv.reader(file, delimiter="\t" if path.endswith(".tsv") else ",")
        header = next(rows, [])
        place = header.index(_choose(path, header, column))
        yield from (row[place] for row in rows if len(row) > place and row[place])


def _parquet_entries(path: str, column: str | None) -> Iterator[str]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        name = _choose(path, file.schema_arrow.names, column)
        for batch in file.iter_batches(columns=[name]):
            yield from (os.fsdecode(value) for value in batch.column(0).to_pylist() if value)


def _choose(path: str, names: list[str], column: str | None) -> str:
    """The column to read: the one asked for, a well-known one, or the only one."""
    wanted = (column,) if column else COLUMN_NAMES
    found = next((name for name in wanted if name in names), names[0] if len(names) == 1 and not column else None)
    if found is None:
        raise SourceError(f"no column {' or '.join(wanted)} among {', '.join(names) or 'none'}; see --column", uri=path)
    return found
