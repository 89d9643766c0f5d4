"""What a loader does about clips that cannot be had, and the record that it keeps of them."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vidprep.errors import DecodeError, MediaError, TooManyFailuresError, VidprepError

if TYPE_CHECKING:
    from collections.abc import Iterable

POLICIES = ("replace", "skip", "raise")

#: Clips tried in the place of one that cannot be had, before the loader gives up.
MAX_REPLACEMENTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One clip that could not be had."""

    uri: str
    video: int
    epoch: int
    position: int
    error_class: str
    reason: str
    """a `Reason`, or "decode" or "sampling" """
    message: str
    frame_index: int | None = None
    offset: int | None = None


def failure_of(error: VidprepError, *, uri: str, video: int, epoch: int, position: int) -> Failure:
    """The record of an error."""
    return Failure(
        uri=uri,
        video=video,
        epoch=epoch,
        position=position,
        error_class=type(error).__name__,
        reason=_reason(error),
        message=getattr(error, "message", str(error)),
        frame_index=getattr(error, "frame_index", None),
        offset=getattr(error, "offset", None),
    )


def _reason(error: VidprepError) -> str:
    if isinstance(error, MediaError):
        return str(error.reason)
    return "decode" if isinstance(error, DecodeError) else "sampling"


class FailureLedger:
    """Failures in the order in which their places were consumed; safe to read from any thread.

    Args:
        max_failures: more than this raise TooManyFailuresError; None = no limit.
    """

    def __init__(self, max_failures: int | None) -> None:
        self._max = max_failures
        self._entries: list[Failure] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Any:
        with self._lock:
            return iter(tuple(self._entries))

    def __getitem__(self, place: int) -> Failure:
        return self._entries[place]

    def add(self, failures: Iterable[Failure]) -> None:
        """Record failures. Raises TooManyFailuresError."""
        with self._lock:
            self._entries.extend(failures)
        self.check(len(self))

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._max is not None

    def check(self, count: int) -> None:
        """Raise TooManyFailuresError if `count`, of this rank or of all, is over the limit."""
        if self._max is not None and count > self._max:
            last = f"; the last: {self[-1].uri}: {self[-1].message}" if len(self) else ""
            raise TooManyFailuresError(
                f"{count} clips failed, max_failures is {self._max} ({self.summary()}){last}"
            )  # fmt: skip

    def counts(self) -> dict[str, int]:
        """Failures by reason."""
        out: dict[str, int] = {}
        for failure in self:
            out[failure.reason] = out.get(failure.reason, 0) + 1
        return out

    def summary(self) -> str:
        """The counts as one phrase."""
        return ", ".join(f"{count} {reason}" for reason, count in sorted(self.counts().items())) or "none here"

    def rows(self) -> list[dict[str, Any]]:
        """One mapping for each failure, as the Parquet writer of `vidprep.indexes` takes them."""
        return [asdict(failure) for failure in self]
