"""The bytes of a cut: merged ranges read and split without a copy, or a file demuxed where samples lie in pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import Reason, SourceError, StaleIndexError
from vidprep.loaders.cut_plan import LOCAL_MAX_GAP_BYTES, REMOTE_MAX_GAP_BYTES
from vidprep.sources import open_source
from vidprep.sources.open import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from vidprep.errors import MediaError
    from vidprep.loaders.cut_plan import CutPlan
    from vidprep.records import SampleTable, VideoLike
    from vidprep.sources import Source
    from vidprep.timebase import IntArray

    Heads = npt.NDArray[np.uint8]

#: Ranges that are asked of an object store at the same time.
REMOTE_READS_IN_FLIGHT = 32

#: Bytes of a sample's head that tell its picture type.
HEAD_BYTES = 4096

#: As many tell where it stands among its references, nearly always: a four-byte length, a NAL unit header, and four
#: bytes of a slice header.
FIRST_BYTES = 4 + 1 + 4


def open_indexed(video: VideoLike) -> Source:
    """Open the file of an indexed video. Raises SourceError, `vanished` where it is no longer there.

    An object whose etag is known is not asked for first: each read says whether it is still the same.
    """
    known = None if is_remote(video.uri) and video.identity.etag is None else video.identity
    try:
        return open_source(video.uri, known)
    except SourceError as error:
        raise since_indexed(error, video) from error


def since_indexed(error: SourceError, video: VideoLike) -> MediaError:
    """The error of a file that was there when it was indexed."""
    if error.reason == Reason.NOT_FOUND:
        return SourceError("no longer there", reason=Reason.VANISHED, uri=video.uri)
    if error.reason == Reason.STALE:
        return StaleIndexError(error.message, uri=video.uri, offset=error.offset)
    return error


def check_identity(video: VideoLike, source: Source) -> None:
    """Raise StaleIndexError where `source` is not the content that `video` describes."""
    indexed, found = video.identity, source.identity
    for name in ("size_bytes", "mtime_ns", "etag"):
        before, now = getattr(indexed, name), getattr(found, name)
        if before is not None and now is not None and before != now:
            raise StaleIndexError(f"{name} was {before} when indexed and is {now}", uri=video.uri)


def default_gap(source: Source) -> int:
    """Bytes between two ranges that are read along rather than passed over."""
    return REMOTE_MAX_GAP_BYTES if _is_remote(source) else LOCAL_MAX_GAP_BYTES


def payload_reader(video: VideoLike, source: Source) -> PayloadReader:
    """What reads the samples of this video."""
    return DemuxReader(source) if video.access == "demux" else RangeReader(source)


class Payloads:
    """The bytes of the candidate rows of a plan, as views of the blocks that were read.

    Args:
        blocks: what was read.
        block: int64[p]: which of them holds each sample; None = there is one.
        begin: int64[p]: where it begins in its block.
        size: int64[p]: its bytes, by the sample table.
    """

    def __init__(self, blocks: Sequence[memoryview], block: IntArray | None, begin: IntArray, size: IntArray) -> None:
        self._blocks, self._block, self._begin, self._size = blocks, block, begin, size
        ends = (begin + size).tolist()
        if block is None:
            whole = blocks[0]
            self.views = [whole[a:b] for a, b in zip(begin.tolist(), ends, strict=True)]
        else:
            places = zip(block.tolist(), begin.tolist(), ends, strict=True)
            self.views = [blocks[i][a:b] for i, a, b in places]

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, place: int) -> memoryview:
        """One sample; short where the file ends before it is all there."""
        return self.views[place]

    def heads(self) -> Heads:
        """uint8 (p, FIRST_BYTES): the first bytes of each sample, zeros behind its end; all of them must be there."""
        if self._block is None:
            heads = _taken(self._blocks[0], self._begin)
        else:
            heads = np.zeros((len(self.views), FIRST_BYTES), np.uint8)
            for number, block in enumerate(self._blocks):
                here = (self._block == number).nonzero()[0]
                heads[here] = _taken(block, self._begin[here])
        if len(heads) and self._size.min() < FIRST_BYTES:
            heads[self._size[:, None] <= _COLUMNS] = 0
        return heads


_COLUMNS = np.arange(FIRST_BYTES)


def _taken(block: memoryview, begin: IntArray) -> Heads:
    """FIRST_BYTES of the block from each place on."""
    if len(block) == 0:
        return np.zeros((len(begin), FIRST_BYTES), np.uint8)
    return np.frombuffer(block, np.uint8).take(begin[:, None] + _COLUMNS, mode="clip")


class PayloadReader(ABC):
    """Reads coded samples; counts what it reads."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.num_reads = 0
        self.num_bytes = 0

    def read_at(self, offset: int, size: int) -> bytes:
        """As the source's."""
        data = self._source.read_at(offset, size)
        self.num_reads += 1
        self.num_bytes += len(data)
        return data

    @abstractmethod
    def payloads(self, table: SampleTable, plan: CutPlan) -> Payloads:
        """Bytes of each candidate row."""

    @abstractmethod
    def head(self, table: SampleTable, row: int) -> bytes:
        """The first bytes of one row."""


class RangeReader(PayloadReader):
    """Reads the merged ranges and splits them."""

    def payloads(self, table: SampleTable, plan: CutPlan) -> Payloads:
        """Views of what was read: copies would cost more than all the rest."""
        blocks = [memoryview(block) for block in self._blocks(plan.reads)]
        rows = slice(int(plan.rows[0]), int(plan.rows[-1]) + 1) if len(plan.segments) == 1 else plan.rows
        offset, size = table.offset[rows], table.size[rows]
        if len(blocks) == 1:
            return Payloads(blocks, None, offset - plan.reads[0][0], size)
        starts = np.array([offset for offset, _ in plan.reads], dtype=np.int64)
        block = starts.searchsorted(offset, side="right") - 1
        return Payloads(blocks, block, offset - starts[block] if len(starts) else offset, size)

    def head(self, table: SampleTable, row: int) -> bytes:
        """The first bytes of one row."""
        return self.read_at(int(table.offset[row]), min(int(table.size[row]), HEAD_BYTES))

    def _blocks(self, reads: Sequence[tuple[int, int]]) -> list[bytes]:
        if len(reads) > 1 and _is_remote(self._source):
            with ThreadPoolExecutor(min(len(reads), REMOTE_READS_IN_FLIGHT)) as pool:
                return list(pool.map(lambda read: self.read_at(*read), reads))
        return [self.read_at(offset, size) for offset, size in reads]


class DemuxReader(PayloadReader):
    """Demuxes the file up to the last wanted row: for containers whose samples lie in pieces."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._size_bytes = source.identity.size_bytes
        self._known: dict[int, bytes] = {}

    def payloads(self, table: SampleTable, plan: CutPlan) -> Payloads:
        """Empty where the demuxer ends before the row."""
        rows = plan.rows.tolist()
        self._demux(set(rows))
        blocks = [memoryview(self._known.get(row, b"")) for row in rows]
        return Payloads(blocks, np.arange(len(rows)), np.zeros(len(rows), np.int64), table.size[plan.rows])

    def head(self, table: SampleTable, row: int) -> bytes:
        """The first bytes of one row."""
        del table
        self._demux({row})
        return self._known.get(row, b"")[:HEAD_BYTES]

    def _demux(self, rows: set[int]) -> None:
        missing = rows - self._known.keys()
        if not missing:
            return
        last = max(missing)
        for row, data in enumerate(self._demuxed()):
            if row in missing:
                self._known[row] = data
            if row >= last:
                return

    def _demuxed(self) -> Iterable[bytes]:
        """Payload of each row, in row order."""
        from vidprep.containers import demux

        for packet in demux.iter_packets(self.read_at, self._size_bytes):
            yield packet.data


def _is_remote(source: Source) -> bool:
    return is_remote(source.uri)
