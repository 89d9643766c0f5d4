"""The unit of work: a batch of items becomes one part. And the process that does it again and again.

`index_batch` is a plain function of values; the local pool runs it in processes that may die, a cluster may map it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import struct
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from vidprep.errors import LimitError, MediaError, Reason, SourceError
from vidprep.indexes.ahead import rows_ahead
from vidprep.indexes.probe import probe_row
from vidprep.indexes.rows import Row, error_row
from vidprep.indexes.schema import arrow_schema
from vidprep.indexes.write import PartWriter, rows_to_table
from vidprep.sources.open import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vidprep.sources import Source
    from vidprep.sources.listing import Item

#: position in the batch (−1: none), monotonic seconds at which it was begun
_BEAT = struct.Struct("qd")
BEAT_BYTES = _BEAT.size
IDLE = -1
_PR_SET_PDEATHSIG = 1
#: How many files share one look at the address space, which takes longer than reading a small one's tables.
_CEILING_FILES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How files are read."""

    verify_keys: bool = False
    checksums: bool = False
    timeout_seconds: float = 60.0
    """for one file"""
    memory_bytes: int = 2 << 30
    """that one file may add to a worker's address space"""


class Task(NamedTuple):
    """One unit of work."""

    unit: int
    items: list[Item]
    aside: str
    """where the part is written"""
    options: Options
    known: dict[int, MediaError]
    """places in the batch whose outcome is known: they killed a worker before"""
    base: str | None = None
    """the part to be rewritten, if this is an update"""
    places: list[int] | None = None
    """for an update: the row of `base` that each item replaces"""


@dataclass(slots=True)
class Outcome:
    """What became of a unit."""

    unit: int
    ok: int = 0
    failed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    frames: int = 0
    problem: str | None = None
    """why the part could not be written (disk full, ...); the run must end"""

    def count(self, row: Row) -> None:
        """Take note of one row."""
        if row["status"] == "ok":
            self.ok += 1
            self.frames += row["num_frames"]
        else:
            self.failed += 1
            self.reasons[row["error_reason"]] += 1


def _no_beat(position: int) -> None:
    del position


def index_batch(task: Task, beat: Callable[[int], None] = _no_beat) -> Outcome:
    """Index the items of a task and write them as one part aside.

    Args:
        task: the unit of work.
        beat: told the place of each item before it is read, and IDLE after the last.
    """
    outcome = Outcome(task.unit)
    with PartWriter(Path(task.aside)) as writer:
        if task.base is None:
            for row in _rows(task, beat, outcome):
                writer.add(row)
        else:
            _rewrite(task, beat, outcome, writer)
    return outcome


def _rows(task: Task, beat: Callable[[int], None], outcome: Outcome) -> Iterator[Row]:
    ceiling = Ceiling(task.options.memory_bytes)

    def row_of(position: int, item: Item, source: Source | MediaError | None = None) -> Row:
        beat(position)
        error = source if isinstance(source, MediaError) else task.known.get(position) or item.error
        opened = None if isinstance(source, MediaError) else source
        row = _row(item, error, task.options, ceiling.next(), opened)
        beat(IDLE)
        return row

    items = enumerate(task.items)
    if any(is_remote(item.uri) for item in task.items):
        rows = rows_ahead(items, row_of, task.options.timeout_seconds)
    else:
        rows = (row_of(position, item) for position, item in items)
    for row in rows:
        outcome.count(row)
        yield row


class Ceiling:
    """How far the address space may grow: looked up anew now and then, as looking takes longer than a small file."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._files = 0
        self._ceiling = 0

    def next(self) -> int:
        """For one more file."""
        if self._files % _CEILING_FILES == 0:
            self._ceiling = address_space_bytes() + self._memory_bytes
        self._files += 1
        return self._ceiling


def _row(item: Item, error: MediaError | None, options: Options, ceiling: int, source: Source | None) -> Row:
    if error is not None:
        return error_row(item.uri, item.path, error, item.identity)
    try:
        with limits(options.timeout_seconds, ceiling):
            return probe_row(
                item.uri,
                path=item.path,
                identity=item.identity,
                verify_keys=options.verify_keys,
                checksums=options.checksums,
                source=source,
            )
    except LimitError as late:  # the alarm rang between the file's end and its being switched off
        return error_row(item.uri, item.path, late, item.identity)


def _rewrite(task: Task, beat: Callable[[int], None], outcome: Outcome, writer: PartWriter) -> None:
    """The base part again, row group by row group, with new rows in the given places."""
    rows = iter(_rows(task, beat, outcome))
    places = task.places or []
    with parquet.ParquetFile(task.base) as base:
        first = 0
        for group in range(base.num_row_groups):
            old = conform(base.read_row_group(group))
            here = [place - first for place in places if first <= place < first + old.num_rows]
            writer.add_table(_replaced(old, here, [next(rows) for _ in here]))
            first += old.num_rows


def _replaced(old: pa.Table, places: list[int], rows: list[Row]) -> pa.Table:
    order = list(range(old.num_rows))
    for number, place in enumerate(places):
        order[place] = old.num_rows + number
    return pa.concat_tables([old, rows_to_table(rows)]).take(order) if rows else old


def conform(table: pa.Table) -> pa.Table:
    """A part's table in the schema of this version; columns that an older one lacks are null."""
    schema = arrow_schema()
    have = table.schema.names
    columns = [
        table[field.name].cast(field.type) if field.name in have else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


@contextmanager
def limits(timeout_seconds: float, ceiling: int) -> Iterator[None]:
    """Time for one file, and a ceiling of address space; only in the main thread of a process of ours."""
    if not _limited:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    signal.setitimer(signal.ITIMER_REAL, timeout_seconds)
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_REAL, 0)


_limited = False


def address_space_bytes() -> int:
    """What this process takes of its address space now."""
    return int(Path("/proc/self/statm").read_bytes().split()[0]) * mmap.PAGESIZE


def _on_alarm(number: int, frame: Any) -> None:
    del number, frame
    raise LimitError("its time is up", reason=Reason.TIMEOUT)


def main(serve: Callable[[Any, Callable[[int], None]], Any], connection_fd: int, beat_fd: int, parent: int) -> None:
    """Serve tasks until the parent goes away: `serve(task, beat)` gives the outcome that is sent back."""
    global _limited
    _limited = True
    _die_with(parent)
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    beats = mmap.mmap(beat_fd, BEAT_BYTES)

    def beat(position: int) -> None:
        _BEAT.pack_into(beats, 0, position, time.monotonic())

    with Connection(connection_fd) as connection:
        while True:
            try:
                task = connection.recv()
                connection.send(serve(task, beat))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                return


def _die_with(parent: int) -> None:
    """Be killed when the parent dies, so that nothing works on after it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()


def index_safely(task: Task, beat: Callable[[int], None]) -> Outcome:
    """`index_batch`, with what ends the run as a problem of the outcome."""
    try:
        return index_batch(task, beat)
    except (OSError, pa.ArrowException) as error:
        return Outcome(task.unit, problem=f"{task.aside}: {error}")


def read_beat(beats: mmap.mmap) -> tuple[int, float]:
    """Place in the batch, and when it was begun (monotonic seconds)."""
    position, since = _BEAT.unpack_from(beats, 0)
    return position, since


def died(signal_or_status: int) -> LimitError:
    """The error of a file that ended its worker."""
    how = f"signal {-signal_or_status}" if signal_or_status < 0 else f"exit status {signal_or_status}"
    hint = " (perhaps for want of memory)" if signal_or_status == -signal.SIGKILL else ""
    return LimitError(f"the worker that read it ended by {how}{hint}", reason=Reason.WORKER_DIED)


def vanished() -> SourceError:
    """The error of a row whose file is gone."""
    return SourceError("it was there when it was indexed, and is gone", reason=Reason.VANISHED)


if __name__ == "__main__":
    # Libraries may print: keep their words off what a caller of `vidprep index --json` parses.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from vidprep.indexes import worker  # this module by its own name: what it pickles must not be called __main__

    worker.main(worker.index_safely, *map(int, sys.argv[1:4]))
