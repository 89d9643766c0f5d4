"""The cut: the fewest bytes and coded samples that give the wanted frames of one video."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vidprep.records import SampleTable, StreamInfo, VideoLike
    from vidprep.sources import Source
    from vidprep.timebase import IntArray

#: Neighbouring byte ranges with gaps up to this become one read.
LOCAL_MAX_GAP_BYTES = 64 << 10
REMOTE_MAX_GAP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPlan:
    """What to read and what to decode; arithmetic over the sample table, no byte of the file touched."""

    frames: IntArray
    """int64[u]: the distinct wanted frame indices, ascending"""
    frame_rows: IntArray
    """int64[u]: the row of the sample table that gives each of them"""
    rows: IntArray
    """int64[p]: candidate rows in decode order, from the covering key rows to the last wanted row"""
    reads: tuple[tuple[int, int], ...]
    """(offset, size) of each read, ascending, merged"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """One coded sample to be fed to a decoder. `row` doubles as the pts that identifies its picture."""

    row: int
    data: bytes
    key: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Packets in decode order, and what is wanted of them."""

    uri: str
    info: StreamInfo
    frames: IntArray
    """int64[u]: the distinct wanted frame indices, ascending"""
    frame_rows: IntArray
    """int64[u]: which packet's picture each of them is"""
    packets: tuple[Packet, ...]
    num_reads: int
    num_bytes_read: int
    num_bytes_candidates: int
    """bytes of the candidate packets: what could not have been read less of"""


def plan_cut(table: SampleTable, frames: IntArray, *, max_gap_bytes: int = LOCAL_MAX_GAP_BYTES) -> CutPlan:
    """The rows and byte ranges that the distinct frames need. Raises DecodeError for a frame that does not exist."""
    raise NotImplementedError


def read_cut(video: VideoLike, source: Source, frames: IntArray, *, max_gap_bytes: int | None = None) -> Cut:
    """Plan, read and split. Raises StaleIndexError, SourceError, DecodeError (naming video and frame)."""
    raise NotImplementedError
