"""A binary file over `read_at`, for libraries that want one."""

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
