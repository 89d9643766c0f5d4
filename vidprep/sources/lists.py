"""Lists of videos: text (one a line, or NUL-separated), csv and parquet (one column)."""

from __future__ import annotations

import codecs
import csv
import os
import re
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from vidprep.errors import Reason, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Names of the column, first match wins, where none is given.
COLUMN_NAMES = ("uri", "path", "video", "video_path", "file", "filename", "file_name", "url")

_LIKE_A_FILE = re.compile(r"/|\.\w{2,4}$")

_CHUNK_BYTES = 1 << 20
_BATCH_ROWS = 4096
#: A longer entry names nothing: it is another kind of file.
_MAX_ENTRY_BYTES = 1 << 20


def read_list(path: str, column: str | None = None) -> Iterator[str]:
    """Entries of a list, one after the other whatever its length; `-` is stdin.

    Relative paths mean what they mean on the command line. Text lists are lines, or NUL-separated (`find -print0`) where
    a NUL comes in the first MiB: names with newlines need that, csv or parquet. Blank lines and cells are passed over;
    there are no comments, as any other line may be a name.

    Raises:
        SourceError: no such list, no such column, or not that kind of file.
    """
    with _source_errors(path):
        if path == "-":
            yield from _text_entries(sys.stdin.buffer)
        elif path.lower().endswith(".parquet"):
            yield from _parquet_entries(path, column)
        elif path.lower().endswith(_TABLES):
            yield from _csv_entries(path, column)
        else:
            with open(path, "rb") as file:  # noqa: PTH123 - names may be any bytes
                yield from _text_entries(file)


def check_list(path: str, column: str | None = None) -> None:
    """Raise SourceError if there is no such list or column; no entry is read."""
    with _source_errors(path):
        if path.lower().endswith(".parquet"):
            with _opened_parquet(path) as file:
                _choose(path, file.schema_arrow.names, column)
        elif path.lower().endswith(_TABLES):
            with _opened_csv(path) as rows:
                _choose(path, next(rows, []), column)
        else:
            with open(path, "rb") as file:  # noqa: PTH123 - names may be any bytes
                _refuse(file.read(4))


_TABLES = (".csv", ".tsv")


@contextmanager
def _source_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise SourceError("no such list", reason=Reason.NOT_FOUND, uri=path) from error
    except SourceError as error:
        error.with_uri(path)
        raise
    except (OSError, csv.Error) as error:
        raise SourceError(f"cannot be read: {error}", uri=path) from error


def _text_entries(file: IO[bytes]) -> Iterator[str]:
    rest, mark = b"", b""
    while chunk := file.read(_CHUNK_BYTES):
        if not mark:
            _refuse(chunk)
            mark = b"\0" if b"\0" in chunk else b"\n"
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
        *entries, rest = (rest + chunk).split(mark)
        if len(rest) > _MAX_ENTRY_BYTES:
            raise SourceError(f"an entry of more than {_MAX_ENTRY_BYTES >> 20} MiB")
        yield from _decoded(entries, mark)
    yield from _decoded([rest], mark)


#: How files begin that are no lists of ours, though they could be taken for one.
_OTHER_FILES = {
    codecs.BOM_UTF16_LE: "a list in UTF-16; save it as UTF-8",  # its NULs would be taken for separators
    codecs.BOM_UTF16_BE: "a list in UTF-16; save it as UTF-8",
    b"\x1f\x8b": "a compressed list; decompress it",
    b"\x28\xb5\x2f\xfd": "a compressed list; decompress it",
    b"PAR1": "a Parquet file; name it *.parquet",
}


def _refuse(head: bytes) -> None:
    for mark, what in _OTHER_FILES.items():
        if head.startswith(mark):
            raise SourceError(what)


def _decoded(entries: Iterable[bytes], mark: bytes) -> Iterator[str]:
    for entry in entries:
        name = entry if mark == b"\0" else entry.removesuffix(b"\r")
        if name.strip():
            yield os.fsdecode(name)


def _csv_entries(path: str, column: str | None) -> Iterator[str]:
    with _opened_csv(path) as rows:
        header = next(rows, [])
        place = header.index(_choose(path, header, column))
        yield from (row[place] for row in rows if len(row) > place and row[place].strip())


@contextmanager
def _opened_csv(path: str) -> Iterator[Iterator[list[str]]]:
    with open(path, "rb") as file:  # noqa: PTH123 - names may be any bytes
        _refuse(file.read(4))
    with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:  # noqa: PTH123 - any bytes
        yield csv.reader(file, delimiter="\t" if path.lower().endswith(".tsv") else ",")


def _parquet_entries(path: str, column: str | None) -> Iterator[str]:
    with _opened_parquet(path) as file:
        name = _choose(path, file.schema_arrow.names, column)
        for batch in file.iter_batches(_BATCH_ROWS, columns=[name]):
            for value in batch.column(0).to_pylist():
                if not isinstance(value, str | bytes | None):
                    raise SourceError(f"column {name} holds {batch.schema.field(0).type}, not names")
                if value and value.strip():
                    yield os.fsdecode(value)


@contextmanager
def _opened_parquet(path: str) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except pa.ArrowException as error:
        raise SourceError(f"cannot be read: {error}") from error


def _choose(path: str, names: list[str], column: str | None) -> str:
    """The column to read: the one asked for, a well-known one, or the only one."""
    wanted = (column,) if column else COLUMN_NAMES
    if len(names) == 1 and not column and names[0] not in COLUMN_NAMES and _LIKE_A_FILE.search(names[0]):
        raise SourceError(f"a table begins with the names of its columns, and {names[0]!r} looks like a file", uri=path)
    found = next((name for name in wanted if name in names), names[0] if len(names) == 1 and not column else None)
    if found is None:
        raise SourceError(f"no column {' or '.join(wanted)} among {', '.join(names) or 'none'}; see --column", uri=path)
    return found
