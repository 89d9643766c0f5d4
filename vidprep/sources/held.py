"""Sources for bytes that come with a delay: fetched beforehand in the ranges that a parser misses, or block by block."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from vidprep.errors import SourceError
from vidprep.sources.base import Closing

if TYPE_CHECKING:
    from collections.abc import Callable

    from vidprep.sources.base import Source

#: Fetched from a file's start, and at least at each miss: the tables of most short videos, or all of a small file.
FETCH_BYTES = 128 << 10
#: Files that are read on and on are read in blocks of this size.
BLOCK_BYTES = 4 << 20
_MAX_BLOCKS = 4


def from_blocks(start: int, end: int, block: Callable[[int], bytes]) -> bytes:
    """Bytes [start, end), not none, out of blocks of BLOCK_BYTES: `block(number)` is one."""
    first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
    data = b"".join(block(number) for number in range(first, last + 1))
    return data[start - first * BLOCK_BYTES : end - first * BLOCK_BYTES]


class Span(NamedTuple):
    """Bytes that were fetched."""

    start: int
    end: int
    """as asked for; the bytes end earlier where the object does"""
    data: bytes


class HeldSource(Closing):
    """Serves what was fetched before; any other read is noted in `missing`, and fails.

    Whoever reads from it must look at `missing` before anything else: if it is set, what was made of the bytes is void.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._spans: list[Span] = []
        self.uri, self.identity = source.uri, source.identity
        self.missing: tuple[int, int] | None = (0, 1) if source.identity.size_bytes else None
        """the range (offset, size) that is wanted next"""

    def fetch(self) -> None:
        """Get what is missing; waits for it. Raises SourceError."""
        if self.missing is not None:
            offset, size = self.missing
            end = min(offset + max(size, FETCH_BYTES), self.identity.size_bytes)
            self._spans.append(Span(offset, end, self._source.read_at(offset, end - offset)))
            self.missing = None

    def read_at(self, offset: int, size: int) -> bytes:
        """As Source.read_at, of what is held."""
        end = min(offset + size, self.identity.size_bytes)
        if end <= offset:
            return b""
        for span in self._spans:
            if span.start <= offset and end <= span.end:
                return span.data[offset - span.start : end - span.start]
        self.missing = self.missing or (offset, end - offset)
        raise SourceError("not fetched yet", uri=self.uri, offset=offset)

    def in_blocks(self) -> BlockSource:
        """The same file for a parser that goes on and on."""
        return BlockSource(self._source)

    def close(self) -> None:
        """Close the source behind it."""
        self._source.close()


class BlockSource(Closing):
    """Reads whole blocks, and keeps the last few."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self.uri, self.identity = source.uri, source.identity

    def read_at(self, offset: int, size: int) -> bytes:
        """As Source.read_at."""
        end = min(offset + size, self.identity.size_bytes)
        if end <= offset:
            return b""
        if end - offset > BLOCK_BYTES:
            return self._source.read_at(offset, end - offset)
        return from_blocks(offset, end, self._block)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * BLOCK_BYTES
            size = min(BLOCK_BYTES, self.identity.size_bytes - start)
            self._blocks[number] = self._source.read_at(start, size)
        self._blocks.move_to_end(number)
        while len(self._blocks) > _MAX_BLOCKS:
            self._blocks.popitem(last=False)
        return self._blocks[number]

    def close(self) -> None:
        """Close the source behind it."""
        self._source.close()
