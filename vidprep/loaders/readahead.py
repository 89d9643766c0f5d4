"""Work that runs ahead of its consumer: in threads, in order, bounded, and never in the way of an error or an end."""

from __future__ import annotations

import queue
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")

#: How often a waiting thread looks whether its partner is still there.
POLL_SECONDS = 0.2


class Depth:
    """How many results may wait to be taken: some more than `least`, the more the smaller they are.

    What takes long holds up those behind it, which are there already; threads that could begin nothing more would idle.

    Args:
        least: allowed whatever their size.
        most: never exceeded.
        budget_bytes: that all of them may take, if that allows more than `least`.
    """

    def __init__(self, least: int, most: int, budget_bytes: int) -> None:
        self._least, self._most, self._budget_bytes = least, most, budget_bytes
        self._largest_bytes = 0

    def see(self, num_bytes: int) -> None:
        """Take note of a result's size; until one is seen, it is `least`."""
        self._largest_bytes = max(self._largest_bytes, num_bytes)

    def __call__(self) -> int:
        """The number now."""
        if self._largest_bytes == 0:
            return self._least
        return min(max(self._budget_bytes // self._largest_bytes, self._least), self._most)


class Ordered(Generic[T, R]):
    """`work(item)` of each item, in the order of the items, at most `depth` of them begun and not yet taken.

    An error of `work` is raised where its result was due, and ends the iteration. Items that are `Ordered` themselves
    are cancelled and closed with this.
    """

    def __init__(self, work: Callable[[T], R], items: Iterable[T], *, threads: int, depth: int | Depth) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="vidprep-read")
        self._work = work
        self._items = iter(items)
        self._depth = depth
        self._begun: deque[Future[R]] = deque()

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        try:
            self._fill()
            if self._begun:
                result = self._begun.popleft().result()
                self._fill()
                return result
        except BaseException:
            self.close()
            raise
        self.close()
        raise StopIteration

    @property
    def num_ready(self) -> int:
        """Results that are there and not yet taken."""
        return sum(future.done() for future in list(self._begun))

    def cancel(self) -> None:
        """Begin nothing more; from any thread, without waiting. Who waits for a result gets that, or an error."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if isinstance(self._items, Ordered):
            self._items.cancel()

    def close(self) -> None:
        """Begin nothing more, and wait for what has begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._begun.clear()
        if isinstance(self._items, Ordered):
            self._items.close()

    def _fill(self) -> None:
        depth = self._depth() if isinstance(self._depth, Depth) else self._depth
        for item in islice(self._items, max(depth - len(self._begun), 0)):
            self._begun.append(self._pool.submit(self._work, item))


class Background(Generic[T]):
    """An iterator whose items are made ahead by a thread of its own, at most `depth` of them waiting.

    Errors of the source are raised where their item was due. If the thread is gone without a word, that is an error
    too, not a wait for ever; so is asking for an item after `close`.

    Args:
        source: is advanced, and closed if it has `close`, in the thread.
        depth: items that wait.
        cancel: called by `close`, so that an item in the making need not be finished first.
    """

    def __init__(self, source: Iterator[T], depth: int, *, cancel: Callable[[], None] | None = None) -> None:
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=max(depth, 1))
        self._stop = threading.Event()
        self._has_ended = False
        self._source, self._cancel = source, cancel
        self._thread = threading.Thread(target=self._run, name="vidprep-batch", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._has_ended:
            raise StopIteration
        kind, value = self._get()
        if kind == "item":
            return value  # type: ignore[no-any-return]  # kind says what it is
        self._has_ended = True
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
        if self._cancel is not None:
            self._cancel()
        while self._thread.is_alive():
            self._drain()
            self._thread.join(POLL_SECONDS)
        self._drain()

    def _get(self) -> tuple[str, Any]:
        while not self._stop.is_set():
            try:
                return self._queue.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if not self._thread.is_alive() and self._queue.empty() and not self._stop.is_set():
                    return "error", RuntimeError("the loader's batch thread died")
        return "error", RuntimeError("this iteration is over: the loader was closed, or began another")

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
