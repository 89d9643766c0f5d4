"""Work that runs ahead of its consumer: in threads, in order, bounded, and never in the way of an error or an end."""

from __future__ import annotations

import queue
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")

#: How often a waiting thread looks whether its partner is still there.
POLL_SECONDS = 0.2


def ordered(work: Callable[[T], R], items: Iterable[T], *, threads: int, depth: int) -> Generator[R, None, None]:
    """`work(item)` of each item, in the order of the items, at most `depth` of them begun and not yet taken.

    An error of `work` is raised where its result was due. Closing the iterator, or leaving it by an exception, cancels
    what has not begun and waits for what has.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="vidprep-read")
    begun: deque[Future[R]] = deque()
    remaining = iter(items)
    try:
        for item in remaining:
            begun.append(pool.submit(work, item))
            if len(begun) >= depth:
                break
        while begun:
            result = begun.popleft().result()
            for item in remaining:
                begun.append(pool.submit(work, item))
                break
            yield result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class Background(Generic[T]):
    """An iterator whose items are made ahead by a thread of its own, at most `depth` of them waiting.

    Errors of the source are raised where their item was due. If the thread is gone without a word, that is an error
    too, not a wait for ever.
    """

    def __init__(self, source: Iterator[T], depth: int) -> None:
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=max(depth, 1))
        self._stop = threading.Event()
        self._source = source
        self._thread = threading.Thread(target=self._run, name="vidprep-batch", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._stop.is_set():
            raise StopIteration
        kind, value = self._get()
        if kind == "item":
            return value  # type: ignore[no-any-return]  # kind says what it is
        self.close()
        if kind == "error":
            raise value
        raise StopIteration

    @property
    def num_waiting(self) -> int:
        """Items made and not yet taken."""
        return self._queue.qsize()

    def close(self) -> None:
        """Stop the thread and wait for it; twice is harmless."""
        self._stop.set()
        while self._thread.is_alive():
            self._drain()
            self._thread.join(POLL_SECONDS)
        self._drain()

    def _get(self) -> tuple[str, Any]:
        while True:
            try:
                return self._queue.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if not self._thread.is_alive() and self._queue.empty():
                    return "error", RuntimeError("the loader's batch thread died")

    def _drain(self) -> None:
        while True:
            try:
                self._queue.get_nowait()
            except queue.Empty:
                return

    def _run(self) -> None:
        try:
            for item in self._source:
                if not self._put("item", item):
                    return
            self._put("end", None)
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, whatever it is
            self._put("error", error)
        finally:
            close = getattr(self._source, "close", None)
            if close is not None:
                close()

    def _put(self, kind: str, value: Any) -> bool:
        """False once the consumer has gone."""
        while not self._stop.is_set():
            try:
                self._queue.put((kind, value), timeout=POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False
