"""Rows to Parquet parts that appear whole or not at all: written aside, synced, renamed."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from vidprep.indexes.schema import COLUMNS, FRAME_COLUMNS, VIDEO_COLUMNS, Column, arrow_schema, file_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from vidprep.indexes.rows import Row

#: Samples that a writer gathers before it writes a row group: bounds memory, whatever the length of the videos.
ROW_GROUP_SAMPLES = 4_000_000

_FAILPOINT = os.environ.get("VIDPREP_FAILPOINT", "")
_hits = 0


def failpoint(name: str) -> None:
    """For tests: die by SIGKILL at the n-th passing of the point that VIDPREP_FAILPOINT ("name:n") names."""
    global _hits
    wanted, _, nth = _FAILPOINT.partition(":")
    if name == wanted:
        _hits += 1
        if _hits >= int(nth or 1):
            os.kill(os.getpid(), signal.SIGKILL)


def rows_to_table(rows: Sequence[Row]) -> pa.Table:
    """Index rows as an Arrow table of the index's schema; what a row lacks is null (an empty list in frame columns)."""
    columns = [pa.array([row.get(column.name) for row in rows], column.type) for column in VIDEO_COLUMNS]
    columns += [_frame_array(rows, column) for column in FRAME_COLUMNS]
    return pa.Table.from_arrays(columns, schema=arrow_schema())


def _frame_array(rows: Sequence[Row], column: Column) -> pa.Array:
    lists = [row.get(column.name) for row in rows]
    optional = not column.required
    dtype = column.type.value_type.to_pandas_dtype()
    lengths = [0 if values is None else len(values) for values in lists]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    mask = pa.array([values is None for values in lists]) if optional else None
    full = [np.asarray(values, dtype) for values in lists if values is not None]
    values = np.concatenate(full) if full else np.zeros(0, dtype)
    return pa.ListArray.from_arrays(offsets, pa.array(values, column.type.value_type), type=column.type, mask=mask)


def _leaf(name: str) -> str:
    return f"{name}.list.element"


def _writer_options() -> dict[str, Any]:
    """Compact settings, chosen by measurement: see `docs/index-format.md`."""
    return {
        "compression": "zstd",
        "compression_level": 6,
        "use_dictionary": [column.name for column in COLUMNS if column.words] + [_leaf("sample_flags")],
        "column_encoding": {_leaf(name): "BYTE_STREAM_SPLIT" for name in _SPLIT_COLUMNS},
        "write_statistics": ["status", "codec", "num_frames", "duration_seconds", "width", "height", "is_vfr"],
        "store_schema": False,
        "data_page_size": 4 << 20,
    }


#: Bytes of one significance together, then zstd: a quarter smaller than DELTA_BINARY_PACKED for these.
_SPLIT_COLUMNS = ("sample_sizes", "sample_gaps", "sample_pts_deltas", "frame_order")


class PartWriter:
    """Writes one part aside, with bounded memory; `close` makes it durable. An exception removes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[Row] = []
        self._tables: list[pa.Table] = []
        self._samples = 0
        self._file = path.open("wb")
        self._writer = parquet.ParquetWriter(self._file, arrow_schema(), **_writer_options())
        self.num_rows = 0

    def add(self, row: Row) -> None:
        """Take one row."""
        self._rows.append(row)
        self._grow(1, row.get("num_samples") or 0)

    def add_table(self, table: pa.Table) -> None:
        """Take rows that are an Arrow table already."""
        self._gather()
        self._tables.append(table)
        self._grow(table.num_rows, pc.sum(table["num_samples"]).as_py() or 0)

    def _grow(self, rows: int, samples: int) -> None:
        self.num_rows += rows
        self._samples += samples
        if self._samples >= ROW_GROUP_SAMPLES:
            self._flush()

    def _gather(self) -> None:
        if self._rows:
            self._tables.append(rows_to_table(self._rows))
            self._rows = []

    def _flush(self) -> None:
        """Write what was taken as one row group."""
        self._gather()
        if self._tables:
            table = pa.concat_tables(self._tables)
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._tables, self._samples = [], 0

    def close(self) -> None:
        """Write what is left and sync."""
        self._flush()
        failpoint("part_unfinished")
        self._writer.add_key_value_metadata(file_metadata())
        self._writer.close()
        self._file.flush()
        failpoint("part_unsynced")
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._file.close()
            self._path.unlink(missing_ok=True)


def publish(aside: Path, final: Path) -> None:
    """Make a finished part visible (or replace one) by one rename, and make that durable."""
    failpoint("before_rename")
    aside.replace(final)
    failpoint("after_rename")
    sync_folder(final.parent)
    failpoint("after_sync")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
