"""Local files."""

from __future__ import annotations

import os
import stat as stat_module

from vidprep.errors import Reason, SourceError
from vidprep.records import Identity
from vidprep.sources.base import Closing


def local_identity(path: str) -> Identity | None:
    """What the file system says of a path; None = nothing (a link that leads nowhere, a name that is no path)."""
    try:
        facts = os.stat(path)  # noqa: PTH116 - hot, and names may be any bytes
    except (OSError, ValueError):
        return None
    return Identity(size_bytes=facts.st_size, mtime_ns=facts.st_mtime_ns)


class LocalSource(Closing):
    """A regular file, read with pread; folders, FIFOs and devices are refused before they can block."""

    def __init__(self, path: str) -> None:
        try:
            # O_NONBLOCK: opening a FIFO that nobody writes to must not wait.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SourceError("no such file", reason=Reason.NOT_FOUND, uri=path) from error
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot be opened: {error}", uri=path) from error
        facts = os.fstat(self._fd)
        if not stat_module.S_ISREG(facts.st_mode):
            os.close(self._fd)
            raise SourceError("not a regular file", uri=path)
        self.uri = path
        self.identity = Identity(size_bytes=facts.st_size, mtime_ns=facts.st_mtime_ns)

    def read_at(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer only at the end."""
        try:
            data = os.pread(self._fd, size, offset)
            while 0 < len(data) < size and offset + len(data) < self.identity.size_bytes:  # pread stops at 2 GiB
                more = os.pread(self._fd, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except (OSError, OverflowError) as error:
            raise SourceError(f"cannot be read: {error}", uri=self.uri, offset=offset) from error
        return data

    def read_into(self, offset: int, window: memoryview) -> int:
        """Fill the window with the bytes from `offset` on; how many there were, fewer than it holds only at the end."""
        try:
            num_bytes = os.preadv(self._fd, (window,), offset)
        except (OSError, OverflowError) as error:
            raise SourceError(f"cannot be read: {error}", uri=self.uri, offset=offset) from error
        if 0 < num_bytes < len(window):  # preadv stops at 2 GiB, and at the end
            num_bytes += self.read_into(offset + num_bytes, window[num_bytes:])
        return num_bytes

    def close(self) -> None:
        """Close the file; twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
