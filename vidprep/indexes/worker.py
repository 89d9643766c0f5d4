"""The unit of work: a batch of items becomes one part. And the process that does it again and again.

`index_batch` is a plain function of values; the local pool runs it in processes that may die, a cluster may map it.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import signal
import struct
import sys
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.abc import MetaPathFinder
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from vidprep.errors import LimitError, MediaError, Reason, SourceError
from vidprep.indexes.ahead import rows_ahead
from vidprep.indexes.limits import Limits, enforce
from vidprep.indexes.probe import probe_row
from vidprep.indexes.rows import Row, error_row
from vidprep.indexes.schema import arrow_schema
from vidprep.indexes.write import PartWriter, rows_to_table
from vidprep.records import Identity
from vidprep.sources.listing import Item
from vidprep.sources.local import local_identity
from vidprep.sources.open import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vidprep.sources import Source

#: position in the batch (IDLE: none; AT_ONCE: several tasks), monotonic seconds at which it, or the oldest, was begun
_BEAT = struct.Struct("qd")
BEAT_BYTES = _BEAT.size
IDLE = -1
AT_ONCE = -2
_PR_SET_PDEATHSIG = 1
#: Rows that become columns together: so few samples (and rows, where videos are short) that they stay in the cache.
_CHUNK_ROWS, _CHUNK_SAMPLES = 512, 100_000
#: Objects between two looks for cycles: rows in the making are many, and none of them is part of one.
_GC_OBJECTS = 50_000


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

    def __reduce__(self) -> tuple[Any, ...]:
        """Items go to another process as columns: a tenth of the time."""
        return _unpacked, (_packed(self.items), *(value for name, value in self._asdict().items() if name != "items"))


_IDENTITY = ("size_bytes", "mtime_ns", "etag", "member_offset")


def _packed(items: list[Item]) -> tuple[Any, ...]:
    uris, paths, identities, errors = zip(*items, strict=True) if items else ((),) * 4
    known = [
        identity and (identity.size_bytes, identity.mtime_ns, identity.etag, identity.member_offset)
        for identity in identities
    ]
    return uris, paths, known, {place: error for place, error in enumerate(errors) if error is not None}


def _unpacked(packed: tuple[Any, ...], unit: int, *rest: Any) -> Task:
    uris, paths, known, errors = packed
    identities = [facts and Identity(**dict(zip(_IDENTITY, facts, strict=True))) for facts in known]
    items = [
        Item(uri, path, identity, errors.get(place))
        for place, (uri, path, identity) in enumerate(zip(uris, paths, identities, strict=True))
    ]
    return Task(unit, items, *rest)


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

    def count(self, rows: list[Row]) -> None:
        """Take note of rows."""
        good = [row["num_frames"] for row in rows if row["status"] == "ok"]
        self.ok += len(good)
        self.frames += sum(good)
        self.failed += len(rows) - len(good)
        if len(good) < len(rows):
            self.reasons.update(row["error_reason"] for row in rows if row["status"] != "ok")


def _no_beat(position: int) -> None:
    del position


def index_batch(task: Task, beat: Callable[[int], None] = _no_beat) -> Outcome:
    """Index the items of a task and write them as one part aside.

    Args:
        task: the unit of work.
        beat: told the place of each item before it is read, and IDLE where none is at hand.
    """
    outcome = Outcome(task.unit)
    chunks = _chunks(task, beat, outcome)
    with PartWriter(Path(task.aside)) as writer:
        if task.base is None:
            for rows in chunks:
                writer.add(rows)
        else:
            _rewrite(task, chain.from_iterable(chunks), writer)
    return outcome


def _chunks(task: Task, beat: Callable[[int], None], outcome: Outcome) -> Iterator[list[Row]]:
    """Rows of the items, some at a time: made under the limits of one file each, handed over without."""
    limits = Limits(task.options.timeout_seconds, task.options.memory_bytes)

    def rest() -> None:
        beat(IDLE)
        limits.lift()

    def row_of(position: int, item: Item, source: Source | MediaError | None = None) -> Row:
        beat(position)
        if isinstance(source, MediaError):
            return error_row(item.uri, item.path, source, item.identity)
        if position in task.known:
            return error_row(item.uri, item.path, task.known[position], item.identity or local_identity(item.uri))
        if item.error is not None:
            return error_row(item.uri, item.path, item.error, item.identity)
        return _row(item, task.options, limits, source)

    items = enumerate(task.items)
    if any(is_remote(item.uri) for item in task.items):
        rows = rows_ahead(items, row_of, rest, task.options.timeout_seconds)
    else:
        rows = (row_of(position, item) for position, item in items)
    for chunk in _chunked(rows):
        rest()
        outcome.count(chunk)
        yield chunk


def _chunked(rows: Iterable[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    samples = 0
    for row in rows:
        chunk.append(row)
        samples += row["num_samples"]
        if samples >= _CHUNK_SAMPLES or len(chunk) >= _CHUNK_ROWS:
            yield chunk
            chunk, samples = [], 0
    if chunk:
        yield chunk


def _row(item: Item, options: Options, limits: Limits, source: Source | None) -> Row:
    try:
        with limits:
            return probe_row(
                item.uri,
                path=item.path,
                identity=item.identity,
                verify_keys=options.verify_keys,
                checksums=options.checksums,
                source=source,
            )
    except LimitError as late:  # the alarm rang between the file's end and its being switched off
        return error_row(item.uri, item.path, late, item.identity or local_identity(item.uri))


def _rewrite(task: Task, rows: Iterator[Row], writer: PartWriter) -> None:
    """The base part again, row group by row group, with new rows in the given places."""
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


def main(
    serve: Callable[[Any, Callable[[int], None]], Any],
    connection_fd: int,
    beat_fd: int,
    parent: int,
    tasks_at_once: int,
) -> None:
    """Serve tasks until the parent goes away: `serve(task, beat)` gives the outcome that is sent back.

    One task at a time is done under the limits of `limits`; several at once are done in threads, where alarms reach
    nothing: the parent ends a process whose oldest file takes too long.
    """
    _die_with(parent)
    gc.freeze()
    gc.set_threshold(_GC_OBJECTS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    beats = mmap.mmap(beat_fd, BEAT_BYTES)
    with Connection(connection_fd) as connection, suppress(EOFError, BrokenPipeError, ConnectionResetError):
        if tasks_at_once > 1:
            _AtOnce(serve, connection, beats).go_on(tasks_at_once)
        enforce()
        while True:
            connection.send(serve(connection.recv(), partial(_beat, beats)))


def _beat(beats: mmap.mmap, position: int) -> None:
    _BEAT.pack_into(beats, 0, position, time.monotonic())


class _AtOnce:
    """Serves tasks in threads; each outcome is sent when it is there."""

    def __init__(
        self, serve: Callable[[Any, Callable[[int], None]], Any], connection: Connection, beats: mmap.mmap
    ) -> None:
        self._serve, self._connection, self._beats = serve, connection, beats
        self._sending, self._beating = threading.Lock(), threading.Lock()
        self._begun: dict[int, float] = {}
        """unit → when the file that it is at was begun; oldest first"""

    def go_on(self, num_threads: int) -> None:
        """Until the parent goes away, which is an EOFError."""
        with ThreadPoolExecutor(num_threads) as threads:
            while True:
                threads.submit(self._do, self._connection.recv())

    def _do(self, task: Any) -> None:
        try:
            outcome = self._serve(task, partial(self._beat, task.unit))
            with self._sending:
                self._connection.send(outcome)
        except BaseException:  # noqa: BLE001 - as in a process of one thread: it ends, and the parent sees
            traceback.print_exc()
            os._exit(1)

    def _beat(self, unit: int, position: int) -> None:
        with self._beating:
            self._begun.pop(unit, None)
            if position != IDLE:
                self._begun[unit] = time.monotonic()
            oldest = next(iter(self._begun.values()), None)
            _BEAT.pack_into(self._beats, 0, *((IDLE, time.monotonic()) if oldest is None else (AT_ONCE, oldest)))


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


class WithoutPandas(MetaPathFinder):
    """pyarrow imports pandas, where there is one, at the first list that it makes a column of: a third of a second."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """As MetaPathFinder.find_spec: there is no pandas, and of other modules nothing is known."""
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(f"{fullname} is not used here", name=fullname)


if __name__ == "__main__":
    # Libraries may print: keep their words off what a caller of `vidprep index --json` parses.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from vidprep.indexes import worker  # this module by its own name: what it pickles must not be called __main__

    sys.meta_path.insert(0, worker.WithoutPandas())
    worker.main(worker.index_safely, *map(int, sys.argv[1:5]))
