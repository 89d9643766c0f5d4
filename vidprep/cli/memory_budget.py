"""Memory that several threads share."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class MemoryBudget:
    """At most `num_bytes` are taken at a time; who asks for more than is left waits.

    Args:
        num_bytes: in all. Who asks for more gets it when nobody else has any.
    """

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self._left = num_bytes
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, num_bytes: int) -> Iterator[None]:
        """Have this much within the block."""
        num_bytes = min(num_bytes, self.num_bytes)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= num_bytes)
            self._left -= num_bytes
        try:
            yield
        finally:
            with self._changed:
                self._left += num_bytes
                self._changed.notify_all()
