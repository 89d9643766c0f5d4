"""Rows of files that lie far away: many ranges are fetched at once by threads, parsing stays with the one main thread.

A parser is a plain function of `read_at`. It is run over what was fetched so far; where it asks for more, it is given
up, the range is fetched, and it is run again from its start. Small MP4 files take one or two fetches. A file that asks
again and again (transport streams, Matroska without Cues, checksums) is then read on in blocks, by the main thread.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vidprep.errors import LimitError, MediaError, Reason, SourceError
from vidprep.sources import open_source
from vidprep.sources.held import HeldSource

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


def rows_ahead(
    items: Iterable[tuple[int, Item]],
    parse: Callable[[int, Item, Source | MediaError], Row],
    timeout_seconds: float,
) -> Iterator[Row]:
    """Rows of items in their order.

    Args:
        items: (position, item), counted from 0 without holes.
        parse: the row of an item from its bytes, or from the error that stands for them.
        timeout_seconds: for one fetch.
    """
    threads = ThreadPoolExecutor(FILES_IN_FLIGHT, thread_name_prefix="fetch")
    stream, following = iter(items), 0
    waiting: dict[Future[HeldSource], _Waiting] = {}
    done: dict[int, Row] = {}
    try:
        while True:
            while len(waiting) + len(done) < FILES_IN_FLIGHT and (ahead := next(stream, None)) is not None:
                future = threads.submit(_open, ahead[1])
                waiting[future] = _Waiting(position=ahead[0], item=ahead[1], future=future)
            if not waiting and not done:
                return
            for one in _ready(waiting, timeout_seconds):
                row = _attempt(one, parse)
                if row is None:
                    source = one.future.result()
                    future = threads.submit(_fetched, source)
                    again = _Waiting(position=one.position, item=one.item, future=future, fetches=one.fetches + 1)
                    waiting[future] = again
                else:
                    done[one.position] = row
            while following in done:
                yield done.pop(following)
                following += 1
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _ready(waiting: dict[Future[HeldSource], _Waiting], timeout_seconds: float) -> list[_Waiting]:
    """Take out those that have what they waited for, or have waited too long."""
    wait(waiting, _POLL_SECONDS, FIRST_COMPLETED)
    late = time.monotonic() - timeout_seconds
    ready = [one for one in waiting.values() if one.future.done() or one.begun < late]
    for one in ready:
        del waiting[one.future]
    return ready


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


def _open(item: Item) -> HeldSource:
    if item.error is not None:
        raise item.error
    return _fetched(HeldSource(open_source(item.uri, item.identity)))


def _fetched(source: HeldSource) -> HeldSource:
    source.fetch()
    return source
