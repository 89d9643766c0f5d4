"""What a source is, and a counter over any source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from types import TracebackType

    from vidprep.records import Identity


class Source(Protocol):
    """Random access to the bytes of one video. Safe to read from several threads at once."""

    @property
    def uri(self) -> str:
        """Where it is."""

    @property
    def identity(self) -> Identity:
        """Size, modification time, etag at the time of opening."""

    def read_at(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer only at the end. Raises SourceError."""

    def close(self) -> None:
        """Release it; reading afterwards is an error."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Closing:
    """Closes at the end of its `with`."""

    def close(self) -> None:
        """Release what is held; nothing, if a source does not say otherwise."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class CountingSource(Closing):
    """A source that counts what is read through it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.num_reads = 0
        self.num_bytes = 0

    @property
    def uri(self) -> str:
        """The wrapped source's uri."""
        return self._source.uri

    @property
    def identity(self) -> Identity:
        """The wrapped source's identity."""
        return self._source.identity

    def read_at(self, offset: int, size: int) -> bytes:
        """As the wrapped source, counted."""
        data = self._source.read_at(offset, size)
        self.num_reads += 1
        self.num_bytes += len(data)
        return data

    def close(self) -> None:
        """Close the wrapped source."""
        self._source.close()
