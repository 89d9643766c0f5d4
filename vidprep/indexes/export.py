"""Tables for other tools: an index's columns, or the clips of an epoch, as Parquet or CSV."""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from vidprep.indexes.rows import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

__all__ = ["CLIP_SCHEMA", "flat", "write_batches", "write_table", "written_aside"]

#: Clips are written in groups of so many rows: memory stays flat.
GROUP = 10_000

#: Columns of exported clips.
CLIP_SCHEMA = pa.schema([
    ("video", pa.string()),
    ("clip", pa.int64()),
    ("frame_index", pa.list_(pa.int64())),
    ("pts_seconds", pa.list_(pa.float64())),
    ("is_padding", pa.list_(pa.bool_())),
    ("cost_bound", pa.int64()),
])  # fmt: skip


class _Writer(Protocol):
    def write_table(self, table: pa.Table) -> None: ...


def write_batches(path: str, schema: pa.Schema, rows: Iterable[dict[str, Any]], form: str) -> int:
    """Write rows as one file, which appears whole or not at all.

    Args:
        path: file to write.
        schema: columns.
        rows: one dict a row; "video" may be a name that is not UTF-8.
        form: "parquet" or "csv"; in CSV lists and other nested values are JSON.

    Returns:
        Number of rows.
    """
    target = flat(schema.empty_table()).schema if form == "csv" else schema
    opener: Callable[..., AbstractContextManager[_Writer]]
    opener = pa.csv.CSVWriter if form == "csv" else pa.parquet.ParquetWriter
    count = 0
    with written_aside(path) as partial, opener(partial, target) as writer:
        for table in _tables(schema, rows):
            writer.write_table(flat(table) if form == "csv" else table)
            count += len(table)
    return count


@contextmanager
def written_aside(path: str) -> Iterator[str]:
    """The name under which to write a file: renamed when the block ends, removed when it fails; its folder is made."""
    partial = Path(f"{path}.partial")
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield str(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _tables(schema: pa.Schema, rows: Iterable[dict[str, Any]]) -> Iterator[pa.Table]:
    rest = iter(rows)
    while group := list(islice(rest, GROUP)):
        yield pa.Table.from_pylist([row | {"video": text_of(row["video"])} for row in group], schema=schema)


def flat(table: pa.Table) -> pa.Table:
    """The table without nested or binary columns: lists and structs as JSON, words spelled out, bytes left out."""
    columns = {}
    for name in table.column_names:
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            continue
        if pa.types.is_nested(column.type):
            texts = [None if value is None else json.dumps(value) for value in column.to_pylist()]
            column = pa.chunked_array([pa.array(texts, pa.string())])
        columns[name] = column
    return pa.table(columns)


def write_table(path: str, table: pa.Table, form: str) -> int:
    """Write a table as one file; see `write_batches`."""
    with written_aside(path) as partial:
        if form == "csv":
            pa.csv.write_csv(flat(table), partial)
        else:
            pa.parquet.write_table(table, partial)
    return len(table)
