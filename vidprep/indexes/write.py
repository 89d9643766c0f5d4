"""Rows to Parquet parts that appear whole or not at all: written aside, synced, renamed."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from vidprep.indexes.rows import TABLE
from vidprep.indexes.schema import COLUMNS, FRAME_COLUMNS, VIDEO_COLUMNS, Column, arrow_schema, file_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    import numpy.typing as npt

    from vidprep.indexes.rows import Row
    from vidprep.records import SampleTable
    from vidprep.timebase import IntArray

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
    return pa.Table.from_arrays(columns + frame_arrays([row.get(TABLE) for row in rows]), schema=arrow_schema())


def frame_arrays(tables: Sequence[SampleTable | None]) -> list[pa.Array]:
    """Sample tables as the frame columns, in the order of FRAME_COLUMNS; worked out for all videos at once."""
    full = [table for table in tables if table is not None]
    lengths = np.array([0 if table is None else len(table) for table in tables], np.int64)
    ends = np.cumsum(lengths)
    starts = (ends - lengths)[lengths > 0]
    size = _joined([table.size for table in full])
    offset = _joined([table.offset for table in full])
    lists = [
        size,
        _steps(offset, offset + size, starts),
        _steps(pts := _joined([table.pts for table in full]), pts, starts),
        _joined([table.flags for table in full], np.int32),
    ]
    bounds = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    arrays = [
        pa.ListArray.from_arrays(bounds, pa.array(values), type=column.type)
        for column, values in zip(FRAME_COLUMNS, lists, strict=False)
    ]
    order, crc32 = FRAME_COLUMNS[len(lists) :]
    return [
        *arrays,
        _optional([None if table is None else table.order for table in tables], order),
        _optional([None if table is None else table.crc32 for table in tables], crc32),
    ]


def _joined(arrays: Sequence[npt.NDArray[Any]], dtype: type = np.int64) -> npt.NDArray[Any]:
    return np.concatenate(arrays).astype(dtype, copy=False) if arrays else np.zeros(0, dtype)


def _steps(values: IntArray, before: IntArray, starts: IntArray) -> IntArray:
    """Each value less what `before` says of the row before it; the first of each video as it is. Wraps at 64 bits."""
    steps = values.copy()
    steps[1:] -= before[:-1]
    steps[starts] = values[starts]
    return steps


def _optional(lists: Sequence[Any], column: Column) -> pa.Array:
    """A column of lists that are mostly absent."""
    if all(values is None for values in lists):
        return pa.nulls(len(lists), column.type)
    dtype = column.type.value_type.to_pandas_dtype()
    ends = np.cumsum([0 if values is None else len(values) for values in lists])
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], ends]).astype(np.int32)),
        pa.array(_joined([values for values in lists if values is not None], dtype)),
        type=column.type,
        mask=pa.array([values is None for values in lists]),
    )


def _leaf(name: str) -> str:
    return f"{name}.list.element"


def _writer_options() -> dict[str, Any]:
    """Compact settings, chosen by measurement: see `docs/index-format.md`."""
    return {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": [column.name for column in COLUMNS if column.words] + [_leaf("sample_flags")],
        "column_encoding": {_leaf(name): "BYTE_STREAM_SPLIT" for name in _SPLIT_COLUMNS},
        "write_statistics": ["status", "codec", "num_frames", "duration_seconds", "width", "height", "is_vfr"],
        "store_schema": False,
        "data_page_size": 128 << 10,
    }


#: Bytes of one significance together, then zstd: a quarter smaller than DELTA_BINARY_PACKED for these.
_SPLIT_COLUMNS = ("sample_sizes", "sample_gaps", "sample_pts_deltas", "frame_order")


class PartWriter:
    """Writes one part aside, with bounded memory; `close` makes it durable. An exception removes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tables: list[pa.Table] = []
        self._samples = 0
        self._file = path.open("wb")
        self._writer = parquet.ParquetWriter(self._file, arrow_schema(), **_writer_options())
        self.num_rows = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Take rows."""
        self.add_table(rows_to_table(rows))

    def add_table(self, table: pa.Table) -> None:
        """Take rows that are an Arrow table already."""
        self._tables.append(table)
        self.num_rows += table.num_rows
        self._samples += sum(
            sizes.offsets[-1].as_py() - sizes.offsets[0].as_py() for sizes in table["sample_sizes"].chunks
        )
        if self._samples >= ROW_GROUP_SAMPLES:
            self._flush()

    def _flush(self) -> None:
        """Write what was taken as one row group."""
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
