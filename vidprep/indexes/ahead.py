"""Rows of files that lie far away: many ranges are fetched at once by threads, parsing stays with the one main thread.

A parser is a plain function of `read_at`. It is run over what was fetched so far; where it asks for more, it is given
up, the range is fetched, and it is run again from its start. Small MP4 files take one or two fetches. A file that asks
again and again (transport streams, Matroska without Cues, checksums) is then read on in blocks, by the main thread.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from vidprep.errors import LimitError, MediaError, Reason, SourceError
from vidprep.sources.held import HeldSource
from vidprep.sources.neighbours import Blocks, open_among_neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vidprep.indexes.rows import Row
    from vidprep.sources import Source
    from vidprep.sources.listing import Item

logger = logging.getLogger(__name__)

#: Files of one worker that are waited for at the same time.
FILES_IN_FLIGHT = 64
#: Ranges of one file that are fetched in this way.
_MAX_FETCHES = 3
_POLL_SECONDS = 1.0


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """A file and what it waits for."""

    position: int
    item: Item
    future: Future[HeldSource]
    fetches: int = 1
    begun: float = field(default_factory=time.monotonic)


class _Fetches:
    """Files that are waited for, and the threads that fetch from them."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._threads = ThreadPoolExecutor(FILES_IN_FLIGHT, thread_name_prefix="fetch")
        self._blocks = Blocks()
        self._waiting: dict[Future[HeldSource], _Waiting] = {}
        self._done: SimpleQueue[Future[HeldSource]] = SimpleQueue()

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self, position: int, item: Item) -> None:
        """Begin with a file."""
        self._add(_Waiting(position=position, item=item, future=self._threads.submit(_open, item, self._blocks)))

    def go_on(self, one: _Waiting) -> None:
        """Fetch what a file misses."""
        future = self._threads.submit(_fetched, one.future.result())
        self._add(_Waiting(position=one.position, item=one.item, future=future, fetches=one.fetches + 1))

    def _add(self, one: _Waiting) -> None:
        self._waiting[one.future] = one
        one.future.add_done_callback(self._done.put)

    def take(self) -> list[_Waiting]:
        """Wait for, and take out, those that have what they waited for, or have waited too long."""
        ready = []
        try:
            ready.append(self._waiting.pop(self._done.get(timeout=_POLL_SECONDS), None))
            while True:
                ready.append(self._waiting.pop(self._done.get_nowait(), None))
        except Empty:
            pass
        return [one for one in ready if one is not None] + self._late()

    def _late(self) -> list[_Waiting]:
        """In order of their beginning, so that a look at the first is mostly enough."""
        end, late = time.monotonic() - self._timeout_seconds, []
        while self._waiting and (one := next(iter(self._waiting.values()))).begun < end:
            late.append(self._waiting.pop(one.future))
        return late

    def close(self) -> None:
        """Wait for none of them any longer."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def rows_ahead(
    items: Iterable[tuple[int, Item]],
    parse: Callable[[int, Item, Source | MediaError], Row],
    rest: Callable[[], None],
    timeout_seconds: float,
) -> Iterator[Row]:
    """Rows of items in their order.

    Args:
        items: (position, item), counted from 0 without holes.
        parse: the row of an item from its bytes, or from the error that stands for them.
        rest: called between parsing and waiting.
        timeout_seconds: for one fetch.
    """
    stream, following = iter(items), 0
    done: dict[int, Row] = {}
    fetches = _Fetches(timeout_seconds)
    try:
        while True:
            while len(fetches) + len(done) < FILES_IN_FLIGHT and (ahead := next(stream, None)) is not None:
                fetches.open(*ahead)
            if not fetches and not done:
                return
            tried = [(one, _attempt(one, parse)) for one in fetches.take()]
            rest()  # threads are not to be started, nor waited for, under the limits of a file
            for one, row in tried:
                if row is None:
                    fetches.go_on(one)
                else:
                    done[one.position] = row
            while following in done:
                yield done.pop(following)
                following += 1
    finally:
        fetches.close()


def _attempt(one: _Waiting, parse: Callable[[int, Item, Source | MediaError], Row]) -> Row | None:
    """The row; None if more must be fetched first."""
    if not one.future.done():
        late = LimitError("the store did not answer in time", reason=Reason.TIMEOUT)
        return parse(one.position, one.item, late)
    error = one.future.exception()
    if error is not None:
        media = error if isinstance(error, MediaError) else SourceError(f"{type(error).__name__}: {error}")
        return parse(one.position, one.item, media)
    source = one.future.result()
    row = parse(one.position, one.item, source)
    if source.missing is None:
        return row
    if one.fetches < _MAX_FETCHES:
        return None
    logger.warning("%s has no tables that tell all: read on in blocks, whole if need be", one.item.uri)
    return parse(one.position, one.item, source.in_blocks())


def _open(item: Item, blocks: Blocks) -> HeldSource:
    if item.error is not None:
        raise item.error
    return _fetched(HeldSource(open_among_neighbours(item.uri, item.identity, blocks)))


def _fetched(source: HeldSource) -> HeldSource:
    source.fetch()
    return source
