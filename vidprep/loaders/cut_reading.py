"""The bytes of a cut: merged ranges read, or a file demuxed where samples lie in pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import Reason, SourceError, StaleIndexError
from vidprep.loaders.cut_plan import LOCAL_MAX_GAP_BYTES, REMOTE_MAX_GAP_BYTES
from vidprep.loaders.packets import Payloads
from vidprep.sources import open_source
from vidprep.sources.local import LocalSource
from vidprep.sources.open import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vidprep.errors import MediaError
    from vidprep.loaders.cut_plan import CutPlan
    from vidprep.records import SampleTable, VideoLike
    from vidprep.sources import Source
    from vidprep.timebase import IntArray
#: Ranges that are asked of an object store at the same time.
REMOTE_READS_IN_FLIGHT = 32

#: Bytes of a sample's head that tell its picture type.
HEAD_BYTES = 4096


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
    def payloads(self, plan: CutPlan) -> Payloads:
        """Bytes of each candidate row."""

    @abstractmethod
    def head(self, table: SampleTable, row: int) -> bytes:
        """The first bytes of one row."""


class RangeReader(PayloadReader):
    """Reads the merged ranges and splits them."""

    def payloads(self, plan: CutPlan) -> Payloads:
        """Views of what was read."""
        if not plan.reads:
            return Payloads.of(())
        offset, size = plan.offset, plan.size
        if len(plan.reads) == 1:
            block = self.read_at(*plan.reads[0])
            begin = offset - plan.reads[0][0]
            if len(block) < plan.reads[0][1]:
                size = np.clip(len(block) - begin, 0, size)
            return Payloads(memoryview(block), begin, size)
        asked = np.array(plan.reads)
        places = asked[:, 1].cumsum() - asked[:, 1]
        read = asked[:, 0].searchsorted(offset, side="right") - 1
        begin = offset + (places - asked[:, 0])[read]
        blocks, lengths = self._blocks(plan.reads, places)
        if (lengths < asked[:, 1]).any():
            size = np.clip((places + lengths)[read] - begin, 0, size)
        return Payloads(blocks, begin, size)

    def head(self, table: SampleTable, row: int) -> bytes:
        """The first bytes of one row."""
        return self.read_at(int(table.offset[row]), min(int(table.size[row]), HEAD_BYTES))

    def _blocks(self, reads: Sequence[tuple[int, int]], places: IntArray) -> tuple[memoryview, IntArray]:
        """What is read, each at its place, and how many bytes of each there were."""
        block = np.empty(sum(size for _, size in reads), np.uint8).data
        windows = [block[at : at + size] for at, (_, size) in zip(places.tolist(), reads, strict=True)]
        offsets = [offset for offset, _ in reads]
        if _is_remote(self._source):
            with ThreadPoolExecutor(min(len(reads), REMOTE_READS_IN_FLIGHT)) as pool:
                lengths = list(pool.map(self._read_into, offsets, windows))
        else:
            lengths = list(map(self._read_into, offsets, windows))
        return block, np.array(lengths)

    def _read_into(self, offset: int, window: memoryview) -> int:
        """Fill the window from an offset on, as far as the file goes; how many bytes that was."""
        if isinstance(self._source, LocalSource):
            num_bytes = self._source.read_into(offset, window)
            self.num_reads += 1
            self.num_bytes += num_bytes
            return num_bytes
        data = self.read_at(offset, len(window))
        window[: len(data)] = data
        return len(data)


class DemuxReader(PayloadReader):
    """Demuxes the file up to the last wanted row: for containers whose samples lie in pieces."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._size_bytes = source.identity.size_bytes
        self._known: dict[int, bytes] = {}

    def payloads(self, plan: CutPlan) -> Payloads:
        """Empty where the demuxer ends before the row."""
        rows = plan.rows.tolist()
        self._demux(set(rows))
        sizes = plan.size.tolist()
        return Payloads.of([self._known.get(row, b"")[:size] for row, size in zip(rows, sizes, strict=True)])

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
