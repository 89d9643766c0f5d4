"""Validate an index: header checks over its parts, then decoding, then what compares videos with each other."""

from __future__ import annotations

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from vidprep.errors import IndexFormatError
from vidprep.indexes import open_index
from vidprep.indexes.rows import text_of
from vidprep.indexes.schema import arrow_schema, check_part
from vidprep.indexes.state import part_paths
from vidprep.indexes.worker import Options as Limits
from vidprep.validation import duplicates
from vidprep.validation.checks import SEVERITIES
from vidprep.validation.columns import Columns, column_findings, needed_columns
from vidprep.validation.examine import Options
from vidprep.validation.findings import Finding, Store
from vidprep.validation.phash import near_videos
from vidprep.validation.policies import policy_report, too_short
from vidprep.validation.progress_file import ProgressFile
from vidprep.validation.rules import Rules
from vidprep.validation.samples import TABLE_COLUMNS, TIME_COLUMNS, sample_findings
from vidprep.validation.staleness import IDENTITY_COLUMNS, stale_findings
from vidprep.validation.tasks import Outcome, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from vidprep.indexes.read import Index
    from vidprep.samplers.policy import Policy

    #: Does decoding tasks, in any order.
    Runner = Callable[[Iterable[Task]], Iterator[tuple[Task, Outcome]]]

__all__ = ["Report", "Settings", "header_findings", "validate_index"]

#: Rows of an index that header checks take at a time, and bytes of them that are enough.
CHECKED_ROWS, CHECKED_BYTES = 4096, 32 << 20

#: Videos of one decoding task: few, so that little is lost with a worker. Of workers of many threads, one.
TASK_VIDEOS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is asked of a run."""

    options: Options = field(default_factory=lambda: Options(level="header"))
    rules: Rules = field(default_factory=Rules)
    policies: tuple[Policy, ...] = ()
    engine: str = "cpu"
    limits: Limits = field(default_factory=Limits)
    fresh: bool = False
    """the index was made just now: no file is looked at again"""
    videos_at_once: int = 1
    """that one worker decodes, in threads"""

    def key(self, fingerprint: str) -> str:
        """Says what the outcome of decoding depends on."""
        facts = [fingerprint, asdict(self.options), asdict(self.rules.thresholds), self.engine]
        return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run found."""

    summary: dict[str, Any]
    """counts, see docs/validation.md"""
    examples: dict[str, list[dict[str, Any]]]
    """some findings of each check"""
    findings: Path
    """all of them, a Parquet file of `findings.SCHEMA`"""


def validate_index(
    index: Path, aside: Path, settings: Settings, *, runner: Runner | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:  # fmt: skip
    """Check all videos of an index.

    Args:
        index: the folder (or one part).
        aside: a folder for what a killed run leaves for the next one.
        settings: what to check, and how.
        runner: does the decoding tasks; needed by all levels but header.
        progress: told (videos done, videos in all) now and then.

    Raises:
        IndexFormatError: no index, a part that is damaged, or a newer schema.
        OSError: a part cannot be read, or nothing can be written.
    """
    begun = time.monotonic()
    parts = _parts(index)
    run = _Run(index, settings, sum(rows for _, rows in parts))
    aside.mkdir(parents=True, exist_ok=True)
    with Store(aside / "findings.parquet", settings.rules, run.num_videos) as store:
        run.headers([path for path, _ in parts], store, progress)
        run.duplicates(store)
        if settings.options.level != "header" and runner is not None:
            with ProgressFile(aside / "examined.jsonl", settings.key(run.opened.fingerprint)) as done:
                run.decode(done, runner, progress)
                run.take_decoded(done, store)
        policies = run.policies(store)
    summary = run.summary(store) | {"policies": policies, "seconds": time.monotonic() - begun}
    return Report(summary=summary, examples=store.examples, findings=store.path)


def _parts(index: Path) -> list[tuple[Path, int]]:
    """(part, its rows); each is one that this version can read. Raises IndexFormatError."""
    paths = [index] if index.is_file() else part_paths(index)
    if not paths:
        raise IndexFormatError(f"{index}: holds no *.parquet parts; if a run was ended, run vidprep index again")
    found = []
    for path in paths:
        try:
            with parquet.ParquetFile(path) as file:
                check_part(file, str(path))
                found.append((path, file.metadata.num_rows))
        except pa.ArrowInvalid as error:
            raise IndexFormatError(f"{path}: no whole Parquet file ({error}); delete it and run vidprep index again") \
                from error  # fmt: skip
    return found


def header_findings(columns: Columns, samples: pa.Table, settings: Settings) -> Iterator[pa.Table]:
    """All findings that the rows of one table give without decoding."""
    yield from column_findings(columns, settings.rules)
    yield from sample_findings(columns, samples, settings.rules)
    if not settings.fresh:
        yield from stale_findings(columns, settings.rules)


class _Run:
    """One run over one index."""

    def __init__(self, index: Path, settings: Settings, num_videos: int) -> None:
        self._path, self._settings, self.num_videos = index, settings, num_videos
        self._signatures = [np.zeros(0, np.uint64)]
        self._ok = [np.zeros(0, bool)]
        self._frames = self._decoded = 0
        self._seconds = 0.0

    @cached_property
    def opened(self) -> Index:
        """The index by row; made only where single rows are needed."""
        return open_index(self._path)

    def headers(self, parts: Sequence[Path], store: Store, progress: Callable[[int, int], None] | None) -> None:
        """Header checks over all parts, some row groups in memory at a time."""
        names = (*needed_columns(), *TIME_COLUMNS, *IDENTITY_COLUMNS)
        first = 0
        tables = chain.from_iterable(_row_groups(part, sorted({*names, *TABLE_COLUMNS})) for part in parts)
        for table in _one_ahead(_together(tables)):
            columns, samples = Columns(table.select(sorted(set(names))), first), table.select(TABLE_COLUMNS)
            for found in header_findings(columns, samples, self._settings):
                store.add(found)
            self._note(columns, samples)
            first += len(columns)
            if progress is not None and self._settings.options.level == "header":
                progress(first, self.num_videos)

    def _note(self, columns: Columns, samples: pa.Table) -> None:
        sizes = samples["sample_sizes"].combine_chunks()
        bounds = sizes.offsets.to_numpy().astype(np.int64)
        self._signatures.append(duplicates.size_signatures(bounds - bounds[0], sizes.flatten().to_numpy()))
        self._ok.append(columns.ok)
        self._frames += int(np.nansum(columns.numbers("num_frames")))
        self._seconds += float(np.fmax(columns.numbers("duration_seconds"), 0).sum())

    def duplicates(self, store: Store) -> None:
        """Videos with the same bytes; only those with the same sizes are read."""
        if "exact_duplicate" not in self._settings.rules.severities:
            return
        for group in duplicates.candidates(np.concatenate(self._signatures)):
            for row, first in duplicates.same_content(self.opened, group):
                message = f"its coded pictures are those of {text_of(self.opened[first].uri)}"
                store.add_each([self._name(row)], [Finding(check="exact_duplicate", message=message)])

    def _name(self, row: int) -> tuple[int, str, bytes | None]:
        video = self.opened[row]
        return row, video["uri"], video["uri_bytes"]

    def decode(self, done: ProgressFile, runner: Runner, progress: Callable[[int, int], None] | None) -> None:
        """Decode what a former run has not, noting each task's videos as they come."""
        rows = np.flatnonzero(np.concatenate(self._ok)).tolist()
        todo = [row for row in rows if row not in done]
        for task, outcome in runner(self._tasks(todo)):
            for row, examined in zip(task.rows, outcome.examined, strict=True):
                done.add(row, examined)
            if progress is not None:
                progress(len(done), len(rows))

    def _tasks(self, rows: list[int]) -> Iterator[Task]:
        settings = self._settings
        size = TASK_VIDEOS if settings.videos_at_once == 1 else 1
        for unit, begin in enumerate(range(0, len(rows), size)):
            yield Task(
                unit, str(self._path), rows[begin : begin + size], settings.options, settings.rules,
                settings.engine, settings.limits, {},
            )  # fmt: skip

    def take_decoded(self, done: ProgressFile, store: Store) -> None:
        """Findings of decoding, and videos that look alike."""
        owners, hashes = [], []
        for row, examined in done:
            self._decoded += examined.decoded
            store.add_each([self._name(row)] * len(examined.findings), examined.findings)
            owners += [row] * len(examined.hashes)
            hashes += examined.hashes
        limits = self._settings.rules.thresholds
        near = near_videos(
            np.array(owners, np.int64), np.array(hashes, np.uint64), max_bits=int(limits.near_bits),
            min_share=limits.near_share,
        )  # fmt: skip
        for row, earlier, common, fewer in near:
            message = f"{common} of {fewer} key frames look like those of {text_of(self.opened[earlier].uri)}"
            store.add_each([self._name(row)], [Finding(check="near_duplicate", message=message)])

    def policies(self, store: Store) -> list[dict[str, Any]]:
        """Dry runs; videos that give no clip are findings."""
        reports = []
        for policy in self._settings.policies:
            found = list(too_short(self.opened, policy))
            store.add_each([self._name(row) for row, _ in found], [finding for _, finding in found])
            reports.append(policy_report(self.opened, policy))
        return reports

    def summary(self, store: Store) -> dict[str, Any]:
        """Counts over all videos."""
        severity = self._settings.rules.severities
        readable = int(np.concatenate(self._ok).sum())
        return {
            "level": self._settings.options.level,
            "videos": self.num_videos,
            "readable": readable,
            "unreadable": self.num_videos - readable,
            "frames": self._frames,
            "hours": self._seconds / 3600,
            "frames_decoded": self._decoded,
            "videos_by_worst": {name: int((store.worst == rank).sum()) for name, rank in (("none", -1), *_ranked())},
            "findings": {
                name: sum(count for check, count in store.counts.items() if severity[check] == name)
                for name in SEVERITIES
            },
            "checks": dict(
                sorted(store.counts.items(), key=lambda item: (-SEVERITIES.index(severity[item[0]]), -item[1]))
            ),
        }


def _ranked() -> Iterator[tuple[str, int]]:
    return ((name, rank) for rank, name in enumerate(SEVERITIES))


def _row_groups(part: Path, names: list[str]) -> Iterator[pa.Table]:
    """These columns of each row group; what an older index lacks is null."""
    schema = arrow_schema()
    with parquet.ParquetFile(part) as file:
        have = set(file.schema_arrow.names)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=[name for name in names if name in have])
            for name in names:
                if name not in have:
                    table = table.append_column(name, pa.nulls(table.num_rows, schema.field(name).type))
            yield table


def _together(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Small tables as fewer: a check costs as much for ten rows as for a thousand."""
    some: list[pa.Table] = []
    num_rows = num_bytes = 0
    for table in tables:
        if some and (num_rows >= CHECKED_ROWS or num_bytes >= CHECKED_BYTES or table.schema != some[0].schema):
            yield pa.concat_tables(some)  # another schema is that of an older part
            some, num_rows, num_bytes = [], 0, 0
        some.append(table)
        num_rows, num_bytes = num_rows + table.num_rows, num_bytes + table.nbytes
    if some:
        yield pa.concat_tables(some)


def _one_ahead(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same, the next one read while the last one is worked on: reading needs the GIL little."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, tables, None)
        while (table := coming.result()) is not None:
            coming = thread.submit(next, tables, None)
            yield table


def worst_at_least(report: Report, severities: Sequence[str]) -> bool:
    """Whether there is a finding of one of these severities."""
    return any(report.summary["findings"][name] for name in severities)
