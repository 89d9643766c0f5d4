"""Memory for decoded pictures that is used again once nobody looks at it.

Fresh memory of this size comes from the system page by page at every clip, which costs up to as much as the conversion
of the pictures that are put there.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

#: Bytes of free memory that is kept; the oldest piece goes first.
MAX_FREE_BYTES = 256 << 20

#: Smaller arrays are left to numpy.
MIN_BYTES = 1 << 20


class ResultMemory:
    """A bounded store of free memory; arrays made from it give theirs back when the last view of it is gone."""

    def __init__(self, max_free_bytes: int = MAX_FREE_BYTES) -> None:
        self._max_free_bytes = max_free_bytes
        self._free: list[npt.NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
        """As `numpy.empty`."""
        size_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size_bytes < MIN_BYTES:
            return np.empty(shape, dtype)
        lease = _Lease(self, self._taken(size_bytes))
        return np.asarray(lease)[:size_bytes].view(dtype).reshape(shape)

    def _taken(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        with self._lock:
            for place, memory in enumerate(self._free):
                if size_bytes <= len(memory) <= 2 * size_bytes:
                    return self._free.pop(place)
        return np.empty(size_bytes, np.uint8)

    def give_back(self, memory: npt.NDArray[np.uint8]) -> None:
        """Keep it for the next array, if there is room."""
        if not self._lock.acquire(blocking=False):  # a destructor must not wait
            return
        try:
            self._free.append(memory)
            while sum(map(len, self._free)) > self._max_free_bytes:
                self._free.pop(0)
        finally:
            self._lock.release()


class _Lease:
    """What arrays hold on to while they use the memory."""

    def __init__(self, home: ResultMemory, memory: npt.NDArray[np.uint8]) -> None:
        self._home, self._memory = home, memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._home.give_back(self._memory)
