"""Build an index, or bring it up to date: resumable, one row per video whatever happens.

The index folder is the only truth. A listing is cut into units in a fixed way, a unit becomes one part, and the parent
alone publishes parts, each by one rename. A run that was killed leaves whole parts; the next run lists again, passes
over what those parts hold, and does the rest, in the same units and under the same names.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vidprep.errors import ArgumentError, Reason
from vidprep.indexes.mirror import bring_up, mirror_folder, upload
from vidprep.indexes.pool import Pool
from vidprep.indexes.state import (
    HashSet,
    check_folder,
    cut_into,
    hashes_here,
    locked,
    num_rows,
    part_paths,
    read_names,
    replacing,
    uri_hash,
)
from vidprep.indexes.update import Held
from vidprep.indexes.worker import Options, Outcome, Task, index_batch
from vidprep.indexes.write import PartWriter, publish, sync_folder
from vidprep.sources.listing import Item, Rules, list_items
from vidprep.sources.open import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vidprep.indexes.state import Hashes

#: A year: more than any file needs, and within what a timer of the system takes.
MAX_TIMEOUT_SECONDS = 366 * 86400
#: Processes, each of which takes some 100 MB.
MAX_WORKERS = 1 << 12
#: Units grow with a listing, so that few files spread over all workers and many make few parts: 8 of each size.
UNIT_SIZES = (128, 256, 512, 1024, 2048, 4096)
_UNITS_PER_SIZE = 8
#: Hashes are looked up this many at a time.
_CHUNK_ITEMS = 4096


@dataclass(slots=True, kw_only=True)
class Summary:
    """What a run did. `videos` = `ok` + `failed` + `skipped`; rows marked `vanished` come on top."""

    videos: int = 0
    """that the sources gave"""
    ok: int = 0
    """read now"""
    failed: int = 0
    """could not be read now: error rows"""
    skipped: int = 0
    """in the index already, unchanged, or named twice"""
    updated: int = 0
    """of ok and failed, those whose row was there before (--update)"""
    added: int = 0
    """of ok and failed, those that are new"""
    vanished: int = 0
    """rows marked because their file is gone (--update)"""
    failed_before: int = 0
    """error rows that stood in the index already"""
    frames: int = 0
    """frames of the videos read now"""
    seconds: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)
    """how many of the failed, by reason"""


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of a listing that one of several machines does: items whose hash falls to it."""

    number: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From "I/N", 0 ≤ I < N. Raises ArgumentError."""
        number, slash, count = text.partition("/")
        if not (slash and number.isdigit() and count.isdigit() and int(number) < int(count)):
            raise ArgumentError(f"shard={text!r}: expected I/N with 0 <= I < N")
        return cls(int(number), int(count))

    @property
    def prefix(self) -> str:
        """What its parts' names start with."""
        return "part" if self.count == 1 else f"part-s{self.number:05d}of{self.count:05d}"


def build_index(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    engine: str = "local",
    update: bool = False,
    shard: str | tuple[int, int] | None = None,
    pattern: str | Sequence[str] | None = None,
    column: str | None = None,
    checksums: bool = False,
    verify_keys: bool = False,
    timeout_seconds: float = 60.0,
    memory_bytes: int = 2 << 30,
    progress: Callable[[Summary], None] | None = None,
) -> Summary:
    """Index videos into a folder of Parquet parts, one row for each; run again after any end, it goes on.

    Args:
        sources: files, folders, `@LIST`, `-`, tar shards, `s3://` and `gs://` (see `vidprep.sources.listing`); one may
            stand by itself.
        out: the index folder; state is kept in its sibling `OUT.vidprep/`. It may live in an object store
            (`s3://...`); state and a copy of its parts are then kept in the user's cache folder.
        workers: processes; None = one per CPU this process may use, 0 = none, in this process without limits.
        engine: "local", or "ray": the cluster that RAY_ADDRESS names, or one started here; `out` and the sources must
            be reachable by all its nodes.
        update: re-index what changed (size, mtime or etag), add what is new, mark what vanished. Without it, what is
            in the index is passed over.
        shard: "I/N" or (I, N): only every N-th item by hash; shards may share `out` or be merged later.
        pattern: glob(s) in place of the rule by extension.
        column: column of csv and parquet lists.
        checksums: store a CRC-32 per sample; reads all bytes.
        verify_keys: check all key flags against the samples' heads.
        timeout_seconds: for one file; a file that needs more gives an error row.
        memory_bytes: that one file may take; a file that needs more gives an error row.
        progress: called now and then with the summary so far.

    Returns:
        what was done.

    Raises:
        SourceError: a source that was named does not exist.
        IndexFormatError: `out` holds something else, or an index of a newer version.
        OSError: the index cannot be written (disk full, read-only, another run is writing it).
        ArgumentError: an option that is out of its range.
    """
    _check_limits(workers, engine, timeout_seconds, memory_bytes)
    named = [sources] if isinstance(sources, str | os.PathLike) else sources
    remote = os.fspath(out) if is_remote(os.fspath(out)) else None
    index = _folder(out)
    check_folder(index)
    mine = Shard() if shard is None else Shard.parse(shard if isinstance(shard, str) else "/".join(map(str, shard)))
    patterns = (pattern,) if isinstance(pattern, str) else tuple(pattern or ())
    options = Options(
        verify_keys=verify_keys, checksums=checksums, timeout_seconds=timeout_seconds, memory_bytes=memory_bytes
    )
    items = list_items([os.fspath(source) for source in named], Rules(patterns, column, identities=update))
    begun = time.monotonic()
    with locked(index, mine.prefix) as aside, cut_into(index, mine.count):
        index.mkdir(parents=True, exist_ok=True)
        sync_folder(index.parent)
        if remote is not None:
            bring_up(remote, index)
        run = Run(index, aside, mine, options, remote)
        tasks: Iterable[Task] = run.updates(items) if update else run.additions(items)
        while tasks:
            for outcome in run.outcomes(iter(tasks), workers, engine):
                run.take(outcome)
                run.summary.seconds = time.monotonic() - begun
                if progress is not None:
                    progress(run.summary)
            tasks = run.tasks_again()
        run.leave_something()
    run.summary.seconds = time.monotonic() - begun
    return run.summary


def rows_in_place(out: str | os.PathLike[str]) -> int:
    """Rows that a run which was ended has left in `out`, for good. Raises IndexFormatError, OSError."""
    return num_rows(_folder(out))


def _folder(out: str | os.PathLike[str]) -> Path:
    """Where on this machine the parts are written."""
    where = os.fspath(out)
    return mirror_folder(where) if is_remote(where) else Path(os.path.realpath(where))  # one lock, whatever link


def _check_limits(workers: int | None, engine: str, timeout_seconds: float, memory_bytes: int) -> None:
    """Refuse, before any work, what would end each worker."""
    if workers is not None and not (_is_number(workers, int) and 0 <= workers <= MAX_WORKERS):
        raise ArgumentError(f"workers={workers!r}: expected an integer from 0 to {MAX_WORKERS}")
    if engine not in ("local", "ray"):
        raise ArgumentError(f"engine={engine!r} is none of local, ray")
    if not (_is_number(timeout_seconds, int | float) and 0 < timeout_seconds <= MAX_TIMEOUT_SECONDS):
        raise ArgumentError(
            f"timeout_seconds={timeout_seconds!r}: expected more than 0 and at most {MAX_TIMEOUT_SECONDS}"
        )
    if not (_is_number(memory_bytes, int) and memory_bytes > 0):
        raise ArgumentError(f"memory_bytes={memory_bytes!r}: expected an integer above 0")


def _is_number(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


class Run:
    """One run over one index: makes tasks from items, publishes what comes of them."""

    def __init__(self, index: Path, aside: Path, shard: Shard, options: Options, remote: str | None = None) -> None:
        self._remote = remote
        self._index, self._aside, self._shard, self._options = index, aside, shard, options
        self._finals: dict[int, Path] = {}
        self._bases: dict[int, tuple[int, ...]] = {}
        self._again: list[Task] = []
        self._taken = {path.name for path in part_paths(index)}
        self._number = 0
        self.summary = Summary()

    def additions(self, items: Iterable[Item]) -> Iterator[Task]:
        """Tasks for the items that the index does not hold."""
        held = HashSet()
        for part in part_paths(self._index):
            columns = read_names(part, ["status"])
            held.add_new(hashes_here(columns["uri"]))
            self.summary.failed_before += columns["status"].count("error")
        return self._added(
            marked
            for codes, chunk in self._mine(items)
            for marked in zip(chunk, held.add_new(codes).tolist(), strict=True)
        )

    def updates(self, items: Iterable[Item]) -> Iterator[Task]:
        """Tasks that bring the index up to date: new parts first, then each part that changed, rewritten."""
        held, listed = Held(part_paths(self._index)), HashSet()
        yield from self._added(
            (item, first and held.is_new(place, item))
            for codes, chunk in self._mine(items)
            for item, place, first in zip(chunk, held.find(codes), listed.add_new(codes).tolist(), strict=True)
        )
        if self._shard.number == 0:  # one of the shards looks up what none of them lists
            held.find_vanished()
        self.summary.failed_before = held.failed_and_kept()
        for part, changes in held.changes():
            self.summary.skipped -= sum(not _is_gone(item) for item in changes.values())
            yield self._task(list(changes.values()), part, part, list(changes))

    def _mine(self, items: Iterable[Item]) -> Iterator[tuple[Hashes, list[Item]]]:
        """This shard's items and their hashes, a chunk at a time."""
        number, count, stream = self._shard.number, self._shard.count, iter(items)
        while chunk := list(islice(stream, _CHUNK_ITEMS)):
            mine = chunk if count == 1 else [item for item in chunk if uri_hash(item.uri) % count == number]
            self.summary.videos += len(mine)
            yield hashes_here([item.uri for item in mine]), mine

    def _added(self, marked: Iterable[tuple[Item, bool]]) -> Iterator[Task]:
        """New parts: units are cut by place in the listing, so that a run that goes on cuts as the first one did."""
        for number, unit in enumerate(_units(marked)):
            new = [item for item, is_new in unit if is_new]
            self.summary.skipped += len(unit) - len(new)
            if new:
                yield self._task(new, self._index / self._name(number))

    def _name(self, unit: int) -> str:
        """A free name for the part of a unit; a second one beside it if the listing has changed since."""
        names = (f"{self._shard.prefix}-{unit:07d}-{attempt:03d}.parquet" for attempt in range(1_000_000))
        name = next(name for name in names if name not in self._taken)
        self._taken.add(name)
        return name

    def _task(self, items: list[Item], final: Path, base: Path | None = None, places: list[int] | None = None) -> Task:
        number, self._number = self._number, self._number + 1
        self._finals[number] = final
        if base is not None:
            self._bases[number] = _version(base)
        return Task(
            unit=number,
            items=items,
            aside=str(self._aside / final.name),
            options=self._options,
            known={},
            base=None if base is None else str(base),
            places=places,
        )

    def outcomes(
        self, tasks: Iterator[Task], workers: int | None, engine: str = "local"
    ) -> Iterator[tuple[Task, Outcome]]:
        """Do the tasks."""
        if engine == "ray":
            from vidprep.indexes.ray_engine import map_units

            yield from map_units(tasks)
            return
        if workers == 0:
            yield from ((task, index_batch(task)) for task in tasks)
            return
        with Pool(workers or len(os.sched_getaffinity(0))) as pool:  # they start while the listing does
            yield from pool.map(tasks)

    def take(self, done: tuple[Task, Outcome]) -> None:
        """Publish a part and count its rows. Raises OSError if it could not be written."""
        task, outcome = done
        if outcome.problem is not None:
            raise OSError(outcome.problem)
        with replacing(self._index):
            if not self._is_outrun(task):
                self._publish(Path(task.aside), self._finals.pop(task.unit))
                self._count(task, outcome)

    def _is_outrun(self, task: Task) -> bool:
        """Whether another shard has rewritten the part meanwhile, so that this must be done again from what it wrote."""
        if task.base is None or _version(Path(task.base)) == self._bases.pop(task.unit):
            return False
        self._again.append(task)
        return True

    def tasks_again(self) -> list[Task]:
        """Those that were outrun, and none of the next time."""
        again, self._again = self._again, []
        self._bases |= {task.unit: _version(Path(task.base)) for task in again if task.base is not None}
        return again

    def _publish(self, aside: Path, final: Path) -> None:
        if self._remote is not None:
            upload(self._remote, aside, final.name)
        publish(aside, final)

    def _count(self, task: Task, outcome: Outcome) -> None:
        summary = self.summary
        gone = outcome.reasons.pop(Reason.VANISHED, 0)
        failed = outcome.failed - gone
        summary.ok += outcome.ok
        summary.failed += failed
        summary.frames += outcome.frames
        summary.vanished += gone
        if task.base is None:
            summary.added += outcome.ok + failed
        else:
            summary.updated += outcome.ok + failed
        summary.reasons = dict(sorted((Counter(summary.reasons) + outcome.reasons).items()))

    def leave_something(self) -> None:
        """An index of nothing is an index too."""
        if not part_paths(self._index):
            name = self._name(0)
            with PartWriter(self._aside / name):
                pass
            self._publish(self._aside / name, self._index / name)


def _version(part: Path) -> tuple[int, ...]:
    """Differs for each writing of a part."""
    facts = part.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _is_gone(item: Item) -> bool:
    return item.error is not None and item.error.reason == Reason.VANISHED


def _units(stream: Iterable[tuple[Item, bool]]) -> Iterator[list[tuple[Item, bool]]]:
    """Cut a stream into lists of growing size, by place alone."""
    waiting = iter(stream)
    for number in range(1 << 60):
        unit = list(islice(waiting, UNIT_SIZES[min(number // _UNITS_PER_SIZE, len(UNIT_SIZES) - 1)]))
        if not unit:
            return
        yield unit
