"""Findings as Arrow tables, and the store that takes them as they come: on disk in full, in memory as counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from vidprep.validation.checks import CHECKS, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from vidprep.timebase import IntArray
    from vidprep.validation.rules import Rules

__all__ = ["SCHEMA", "Finding", "Store", "findings_table"]

_WORD = pa.dictionary(pa.int16(), pa.string())

SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("video", pa.string()),
        pa.field("video_bytes", pa.binary()),
        pa.field("check", _WORD),
        pa.field("severity", _WORD),
        pa.field("frame", pa.int64()),
        pa.field("time_seconds", pa.float64()),
        pa.field("offset", pa.int64()),
        pa.field("message", pa.string()),
        pa.field("fix", _WORD),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with one video (which one, the holder knows)."""

    check: str
    message: str
    frame: int | None = None
    time_seconds: float | None = None
    offset: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def findings_table(
    check: str,
    severity: str,
    rows: Sequence[int] | IntArray,
    videos: pa.Array,
    video_bytes: pa.Array,
    messages: Sequence[str],
    *,
    frames: Sequence[int | None] | None = None,
    times: Sequence[float | None] | None = None,
    offsets: Sequence[int | None] | None = None,
) -> pa.Table:
    """Findings of one check as a table; one entry for each in every argument."""
    count = len(messages)

    def constant(text: str) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int16)), pa.array([text]))

    def optional(values: Sequence[Any] | None, kind: pa.DataType) -> pa.Array:
        return pa.nulls(count, kind) if values is None else pa.array(values, kind)

    columns = [
        pa.array(rows, pa.int64()), videos, video_bytes, constant(check), constant(severity),
        optional(frames, pa.int64()), optional(times, pa.float64()), optional(offsets, pa.int64()),
        pa.array(messages, pa.string()), constant(CHECKS[check].fix),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=SCHEMA)


class Store:
    """Writes findings to a Parquet file as they come; keeps counts, the worst severity of each video, some examples.

    Args:
        path: the file.
        rules: which checks run, and how bad each is.
        num_videos: rows of the index.
    """

    EXAMPLES = 50
    GROUP_ROWS = 1 << 16
    SINGLES = 4096
    """single findings that become tables together: one for each would cost a millisecond"""

    def __init__(self, path: Path, rules: Rules, num_videos: int) -> None:
        self.path, self.rules = path, rules
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[dict[str, Any]]] = {}
        self.worst = np.full(num_videos, -1, np.int8)
        """place in SEVERITIES of each video's worst finding, −1: none"""
        self._waiting: list[pa.Table] = []
        self._num_waiting = 0
        self._singles: dict[str, list[tuple[tuple[int, str, bytes | None], Finding]]] = {}
        self._num_singles = 0
        self._writer = parquet.ParquetWriter(path, SCHEMA, compression="zstd")

    def add(self, table: pa.Table) -> None:
        """Take findings of one check."""
        if not table.num_rows:
            return
        check = table["check"][0].as_py()
        self.counts[check] += table.num_rows
        rows, rank = table["row"].to_numpy(), SEVERITIES.index(self.rules.severities[check])
        self.worst[rows] = np.maximum(self.worst[rows], rank)
        shown = self.examples.setdefault(check, [])
        if len(shown) < self.EXAMPLES:
            shown += table.slice(0, self.EXAMPLES - len(shown)).to_pylist()
        self._waiting.append(table)
        self._num_waiting += table.num_rows
        if self._num_waiting >= self.GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).unify_dictionaries().combine_chunks())
            self._waiting, self._num_waiting = [], 0

    def add_each(self, videos: Sequence[tuple[int, str, bytes | None]], findings: Sequence[Finding]) -> None:
        """Take single findings, each of the video beside it: (row, uri as text, its bytes if they are not UTF-8)."""
        for video, finding in zip(videos, findings, strict=True):
            if finding.check in self.rules.severities:
                self._singles.setdefault(finding.check, []).append((video, finding))
                self._num_singles += 1
        if self._num_singles >= self.SINGLES:
            self._add_singles()

    def _add_singles(self) -> None:
        singles, self._singles, self._num_singles = self._singles, {}, 0
        for check, pairs in singles.items():
            names, found = zip(*pairs, strict=True)
            self.add(
                findings_table(
                    check,
                    self.rules.severities[check],
                    [row for row, _, _ in names],
                    pa.array([text for _, text, _ in names], pa.string()),
                    pa.array([raw for _, _, raw in names], pa.binary()),
                    [finding.message for finding in found],
                    frames=[finding.frame for finding in found],
                    times=[finding.time_seconds for finding in found],
                    offsets=[finding.offset for finding in found],
                )
            )

    def close(self) -> None:
        """Finish the file; counts, worst and examples are whole from here on."""
        self._add_singles()
        self._flush()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_findings(path: Path) -> Iterator[dict[str, Any]]:
    """The findings of a finished file, a batch in memory at a time."""
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=4096):
            yield from batch.to_pylist()
