"""Other shapes of `read_at`: a binary file for libraries that want one, and reads of a least size."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vidprep.records import ReadAt


class ReadAtFile(io.RawIOBase):
    """A seekable binary file over `read_at`, for libraries that want one (PyAV)."""

    def __init__(self, read_at: ReadAt, size_bytes: int) -> None:
        super().__init__()
        self._read_at = read_at
        self._size_bytes = size_bytes
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; negative positions become 0."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def tell(self) -> int:
        """Where the next read starts."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes from here."""
        left = max(self._size_bytes - self._position, 0)
        data = self._read_at(self._position, left if size < 0 else min(size, left))
        self._position += len(data)
        return data


class ReadAhead:
    """A `read_at` that asks for a least number of bytes: on an object store a request costs more than 100 KiB of it.

    A walk that goes on near where the last read ended doubles it, up to 16 times; a jump starts over.
    """

    def __init__(self, read_at: ReadAt, size_bytes: int, least_bytes: int) -> None:
        self._read_at = read_at
        self._size_bytes = size_bytes
        self._least = self._reach = least_bytes
        self._start = 0
        self._data = b""

    def __call__(self, offset: int, size: int) -> bytes:
        """As `read_at`."""
        size = min(size, self._size_bytes - offset)
        if size <= 0:
            return b""
        begin = offset - self._start
        if begin < 0 or begin + size > len(self._data):
            goes_on = self._data and 0 <= begin <= len(self._data) + self._reach
            self._reach = min(2 * self._reach, 16 * self._least) if goes_on else self._least
            self._data = self._read_at(offset, min(max(size, self._reach), self._size_bytes - offset))
            self._start, begin = offset, 0
        return self._data[begin : begin + size]
