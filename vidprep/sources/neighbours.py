"""Small members of archives in a store, read together: whoever needs one first fetches the block that holds its neighbours."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

from vidprep.errors import SourceError
from vidprep.records import Identity
from vidprep.sources.base import Closing
from vidprep.sources.held import BLOCK_BYTES, from_blocks
from vidprep.sources.open import MEMBER_MARK, is_remote, open_file, open_source

if TYPE_CHECKING:
    from vidprep.sources.base import Source

#: Members up to this size are better read along with others than each by itself, where each read is a request.
SMALL_MEMBER_BYTES = 512 << 10
#: That are held: more than the files that one worker has in flight fill.
_MAX_BLOCKS = 12


class Block(NamedTuple):
    """A piece of an archive."""

    archive: str
    etag: str | None
    number: int


class Blocks:
    """The blocks that were read last. Safe to use from several threads: each block is fetched once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[Block, Future[bytes]] = OrderedDict()

    def get(self, block: Block, mtime_ns: int | None) -> bytes:
        """Its bytes, fewer where the archive ends. Raises SourceError."""
        mine: Future[bytes] = Future()
        with self._lock:
            found = self._held.setdefault(block, mine)
            self._held.move_to_end(block)
            while len(self._held) > _MAX_BLOCKS:
                self._held.popitem(last=False)
        if found is mine:
            try:
                mine.set_result(_read(block, mtime_ns))
            except BaseException as error:
                with self._lock:
                    self._held.pop(block, None)  # who comes later tries again
                told = isinstance(error, SourceError)
                mine.set_exception(
                    error if told else SourceError("who was reading it was interrupted", uri=block.archive)
                )
                raise
        return found.result()


def _read(block: Block, mtime_ns: int | None) -> bytes:
    start = block.number * BLOCK_BYTES
    beyond = Identity(
        size_bytes=start + BLOCK_BYTES, mtime_ns=mtime_ns, etag=block.etag
    )  # the store knows the real end
    with open_file(block.archive, beyond) as archive:
        return archive.read_at(start, BLOCK_BYTES)


class NeighbourSource(Closing):
    """A small member whose bytes come out of blocks; by itself where a block cannot be had."""

    def __init__(self, member: Source, archive_uri: str, blocks: Blocks) -> None:
        self._member, self._archive_uri, self._blocks = member, archive_uri, blocks
        self.uri, self.identity = member.uri, member.identity

    def read_at(self, offset: int, size: int) -> bytes:
        """As Source.read_at."""
        end = min(offset + size, self.identity.size_bytes)
        if end <= offset:
            return b""
        start = (self.identity.member_offset or 0) + offset
        try:
            return self._from_blocks(start, start + end - offset)
        except SourceError:
            return self._member.read_at(offset, size)

    def _from_blocks(self, start: int, end: int) -> bytes:
        name, identity = self._archive_uri, self.identity

        def block(number: int) -> bytes:
            return self._blocks.get(Block(name, identity.etag, number), identity.mtime_ns)

        return from_blocks(start, end, block)

    def close(self) -> None:
        """Close the member."""
        self._member.close()


def open_among_neighbours(uri: str, identity: Identity | None, blocks: Blocks) -> Source:
    """As `open_source`, for one of many that are read in the order of their archives."""
    source = open_source(uri, identity)
    archive, mark, _ = uri.partition(MEMBER_MARK)
    if not mark or not is_remote(uri) or identity is None or identity.member_offset is None:
        return source
    if identity.size_bytes > SMALL_MEMBER_BYTES:
        return source
    return NeighbourSource(source, archive + MEMBER_MARK.removesuffix("::"), blocks)
