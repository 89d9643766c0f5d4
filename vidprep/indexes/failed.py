"""The ledger of a loader's failures as Parquet: written after a run, read to leave known bad videos out of the next."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from vidprep.errors import IndexFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Reasons that are not the video's fault: another policy may well take it.
NOT_OF_THE_VIDEO = frozenset({"sampling"})

SCHEMA = pa.schema(
    [
        ("uri", pa.string()),
        ("uri_bytes", pa.binary()),  # only where the name is not UTF-8
        ("video", pa.int64()),
        ("epoch", pa.int64()),
        ("position", pa.int64()),
        ("error_class", pa.string()),
        ("reason", pa.string()),
        ("message", pa.string()),
        ("frame_index", pa.int64()),
        ("offset", pa.int64()),
    ]
)


def write_failures(rows: Iterable[Mapping[str, Any]], path: str | os.PathLike[str]) -> int:
    """Write failures as one Parquet file, by one rename.

    Args:
        rows: mappings with the columns of SCHEMA, as `FailureLedger.rows` gives them.
        path: the file; replaced if it is there.

    Returns:
        number of rows.
    """
    table = pa.Table.from_pylist([_named(row) for row in rows], schema=SCHEMA)
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        parquet.write_table(table, beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return int(table.num_rows)


def read_failed(path: str | os.PathLike[str]) -> frozenset[str]:
    """The uris of a ledger's videos that failed by their own fault.

    Args:
        path: a file, or a folder of them (one for each rank).

    Raises:
        IndexFormatError: no ledger there.
    """
    given = Path(path)
    files = sorted(given.glob("*.parquet")) if given.is_dir() else [given]
    if not files:
        raise IndexFormatError(f"{path}: holds no *.parquet file")
    return frozenset(uri for file in files for uri in _uris(file))


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with a name that Parquet takes, and the bytes of one that is not UTF-8."""
    try:
        row["uri"].encode()
    except UnicodeEncodeError:
        raw = os.fsencode(row["uri"])
        return {**row, "uri": raw.decode("utf-8", "backslashreplace"), "uri_bytes": raw}
    return dict(row)


def _uris(file: Path) -> list[str]:
    try:
        table = parquet.read_table(file, columns=["uri", "uri_bytes", "reason"])
    except (OSError, pa.ArrowException) as error:
        raise IndexFormatError(f"{file}: no ledger of failures: {error}") from error
    if table.column_names != ["uri", "uri_bytes", "reason"]:
        raise IndexFormatError(f"{file}: no ledger of failures; it has no columns uri, uri_bytes and reason")
    return [
        row["uri"] if row["uri_bytes"] is None else os.fsdecode(row["uri_bytes"])
        for row in table.to_pylist()
        if row["reason"] not in NOT_OF_THE_VIDEO and row["uri"]
    ]
