"""A bounded pool of decoders that are kept between clips, each for one kind of stream and one thread at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

K = TypeVar("K", bound="Hashable")
D = TypeVar("D")


class DecoderPool(Generic[K, D]):
    """At most `limit` decoders live at once, idle ones included; who finds none free waits.

    A decoder is made where its kind has no idle one and there is room; where there is none, the idle decoder that was
    used longest ago gives way.

    Args:
        create: makes a decoder for a key; called outside the lock, by the thread that will use it.
        limit: decoders alive at once.
    """

    def __init__(self, create: Callable[[K], D], limit: int) -> None:
        if limit < 1:
            raise ValueError(f"limit is {limit}; at least one decoder is needed")
        self._create = create
        self._limit = limit
        self._idle: OrderedDict[int, tuple[K, D]] = OrderedDict()  # oldest first
        self._alive = 0
        self._closed = False
        self._changed = threading.Condition()
        self.num_created = 0
        self.num_evicted = 0

    @contextmanager
    def lend(self, key: K) -> Iterator[D]:
        """A decoder of this kind; one whose user raised is dropped, its state being unknown."""
        decoder = self._acquire(key)
        try:
            yield decoder
        except BaseException:
            self._forget()
            raise
        self._give_back(key, decoder)

    def close(self) -> None:
        """Drop idle decoders; those lent are dropped when they come back. Waiting threads get an error."""
        with self._changed:
            self._closed = True
            self._alive -= len(self._idle)
            self._idle.clear()
            self._changed.notify_all()

    @property
    def num_alive(self) -> int:
        """Decoders that exist now, lent ones included."""
        with self._changed:
            return self._alive

    def _acquire(self, key: K) -> D:
        with self._changed:
            while True:
                if self._closed:
                    raise RuntimeError("the decoder pool is closed")
                if (decoder := self._take_idle(key)) is not None:
                    return decoder
                if self._has_room():
                    break
                self._changed.wait()
        try:
            decoder = self._create(key)
        except BaseException:
            self._forget()
            raise
        self.num_created += 1
        return decoder

    def _take_idle(self, key: K) -> D | None:
        """The most recently used idle decoder of this kind."""
        for token in reversed(self._idle):
            if self._idle[token][0] == key:
                return self._idle.pop(token)[1]
        return None

    def _has_room(self) -> bool:
        """Reserve a place, at the cost of the idle decoder used longest ago if need be."""
        if self._alive < self._limit:
            self._alive += 1
            return True
        if self._idle:
            self._idle.popitem(last=False)
            self.num_evicted += 1
            return True
        return False

    def _give_back(self, key: K, decoder: D) -> None:
        with self._changed:
            if self._closed:
                self._alive -= 1
            else:
                self._idle[id(decoder)] = (key, decoder)
            self._changed.notify()

    def _forget(self) -> None:
        with self._changed:
            self._alive -= 1
            self._changed.notify()
