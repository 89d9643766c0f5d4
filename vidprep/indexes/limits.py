"""Time and memory that one file may take, in a process that serves files one after the other.

Neither costs a system call for each file. The alarm is set once and looks, when it rings, how long the file at hand has
been read; the ceiling of address space is looked up anew for every 64th file only.
"""

from __future__ import annotations

import mmap
import resource
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vidprep.errors import LimitError, Reason

if TYPE_CHECKING:
    from types import TracebackType

#: How many files share one look at the address space.
_CEILING_FILES = 64

_enforced = False


def enforce() -> None:
    """Make limits hold in this process: one of ours, whose main thread reads files, and where nothing else uses alarms."""
    global _enforced
    _enforced = True


class Limits:
    """Limits on each block of `with`, where they are enforced; `lift` when what follows is no file's doing.

    Raises LimitError in a block that takes too long; memory that is not given is a MemoryError.
    """

    def __init__(self, timeout_seconds: float, memory_bytes: int) -> None:
        self._timeout_seconds, self._memory_bytes = timeout_seconds, memory_bytes
        self._begun: float | None = None
        self._files_left = 0
        self._usual: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        if _enforced:
            if not self._files_left:
                self._set()
            self._files_left -= 1
            self._begun = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._begun = None

    def _set(self) -> None:
        if self._usual is None:
            self._usual = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes() + self._memory_bytes, self._usual[1]))
        self._files_left = _CEILING_FILES
        signal.signal(signal.SIGALRM, self._look)
        if signal.getitimer(signal.ITIMER_REAL)[0] == 0:
            signal.setitimer(signal.ITIMER_REAL, self._timeout_seconds)

    def lift(self) -> None:
        """No limits until the next block."""
        if self._usual is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            resource.setrlimit(resource.RLIMIT_AS, self._usual)
            self._usual, self._files_left = None, 0

    def _look(self, number: int, frame: Any) -> None:
        """The alarm rang: end the block if it has had its time, else have the alarm ring when it will have."""
        del number, frame
        spent = 0.0 if self._begun is None else time.monotonic() - self._begun
        if spent >= self._timeout_seconds:
            self._files_left = 0  # the next block sets the alarm
            raise LimitError("its time is up", reason=Reason.TIMEOUT)
        signal.setitimer(signal.ITIMER_REAL, self._timeout_seconds - spent)


def address_space_bytes() -> int:
    """What this process takes of its address space now."""
    return int(Path("/proc/self/statm").read_bytes().split()[0]) * mmap.PAGESIZE
