"""The cut: the fewest bytes and coded samples that give the wanted frames of one video.

A decoder that is to show frame i starts at the key row that covers i and is fed every row up to the one that gives i.
Wanted frames that share a key row share a *segment*; so do those whose rows follow each other without a gap. Segments
are decoded apart, so that a few frames spread over a long video cost their own groups of pictures (GOPs) and no more.
"""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.bitstream import sample_facts
from vidprep.containers.nal_pictures import hevc_sets
from vidprep.errors import DecodeError, Reason, SourceError, StaleIndexError
from vidprep.loaders.references import first_gap
from vidprep.records import SampleFlag
from vidprep.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from vidprep.records import SampleTable, StreamInfo, VideoLike
    from vidprep.sources import Source
    from vidprep.timebase import IntArray

__all__ = ["Cut", "CutPlan", "Packet", "open_indexed", "plan_cut", "read_cut"]

#: Neighbouring byte ranges with gaps up to this become one read.
LOCAL_MAX_GAP_BYTES = 64 << 10
REMOTE_MAX_GAP_BYTES = 1 << 20

#: Ranges that are asked of an object store at the same time.
REMOTE_READS_IN_FLIGHT = 32

#: Codecs in which no picture that follows a key picture in presentation refers to one that precedes it:
#: leading pictures of HEVC and VVC (ITU-T H.265 3.65, H.266 3.73), B pictures of MPEG-1/2.
LEADING_ARE_UNREFERENCED = frozenset({"hevc", "vvc", "mpeg1video", "mpeg2video"})

#: Bytes of a sample's head that tell its picture type.
HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPlan:
    """What to read and what to decode; arithmetic over the sample table, no byte of the file touched."""

    frames: IntArray
    """int64[u]: the distinct wanted frame indices, ascending"""
    frame_rows: IntArray
    """int64[u]: the row of the sample table that gives each of them"""
    rows: IntArray
    """int64[p]: candidate rows in decode order, from the covering key rows to the last wanted row"""
    segments: IntArray
    """int64[s, 2]: first and last row of each run that is decoded from a key row of its own, ascending, disjoint"""
    reads: tuple[tuple[int, int], ...]
    """(offset, size) of each read, ascending, merged"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """One coded sample to be fed to a decoder. `row` doubles as the pts that identifies its picture."""

    row: int
    data: bytes
    key: bool
    pts: int = 0
    """ticks of the stream's time base"""
    shown: bool = True
    """its picture is a frame that a viewer sees"""


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
    segment_starts: tuple[int, ...] = (0,)
    """places in `packets` at which decoding starts afresh: a decoder is drained and flushed before each"""
    leading_rows: frozenset[int] = frozenset()
    """rows that precede their segment's key row in presentation: without the GOP before they cannot be decoded,
    nothing wanted depends on them, and what a decoder says of them is of no concern"""

    @property
    def segments(self) -> tuple[tuple[Packet, ...], ...]:
        """The packets of each segment."""
        return tuple(self.packets[a:b] for a, b in pairwise((*self.segment_starts, len(self.packets))))


def plan_cut(
    table: SampleTable,
    frames: IntArray,
    *,
    max_gap_bytes: int = LOCAL_MAX_GAP_BYTES,
    key_rows: IntArray | None = None,
) -> CutPlan:
    """The rows and byte ranges that the distinct frames need.

    Args:
        table: the video's coded samples.
        frames: int64[f] frame indices in any order, repeats allowed; they cost nothing.
        max_gap_bytes: byte ranges that lie no further apart become one read.
        key_rows: rows to start from, ascending, where they are fewer than the table claims.

    Raises:
        DecodeError: a frame does not exist.
    """
    frames = _distinct(frames)
    if len(frames) and (frames[0] < 0 or frames[-1] >= table.num_frames):
        wrong = int(frames[0] if frames[0] < 0 else frames[-1])
        raise DecodeError(f"the video has {table.num_frames} frames", frame_index=wrong)
    frame_rows = table.frame_rows[frames]
    segments = _segments(table, frame_rows, key_rows)
    rows = _concatenated_ranges(segments[:, 0], segments[:, 1] + 1)
    reads = _merged(table.offset[rows], table.size[rows], max_gap_bytes)
    return CutPlan(frames=frames, frame_rows=frame_rows, rows=rows, segments=segments, reads=reads)


def read_cut(video: VideoLike, source: Source, frames: IntArray, *, max_gap_bytes: int | None = None) -> Cut:
    """Plan, read and split; step back a GOP wherever the bytes read deny that a segment's start is a key frame.

    Args:
        video: a probed file or a row of an index.
        source: the open file; it must be the one that `video` describes.
        frames: int64[f] frame indices in any order, repeats allowed.
        max_gap_bytes: as for plan_cut; None = 64 KiB for local files, 1 MiB for object stores.

    Raises:
        StaleIndexError: the file is not the one that was indexed.
        SourceError: it cannot be read.
        DecodeError: a frame does not exist, its bytes are not all there, or fail their checksum.
    """
    check_identity(video, source)
    gap = _default_gap(source) if max_gap_bytes is None else max_gap_bytes
    try:
        plan = plan_cut(video.table, frames, max_gap_bytes=gap)
        reader = _DemuxReader(source) if video.access == "demux" else _RangeReader(source)
        keys = video.table.key_rows
        payloads = reader.payloads(video.table, plan)
        while not video.keys_verified and len(false := _false_starts(video.info, plan, payloads)):
            keys = _without_false_claims(video, reader, keys, false)
            plan = plan_cut(video.table, frames, max_gap_bytes=gap, key_rows=keys)
            payloads = reader.payloads(video.table, plan)
        _check_payloads(video.table, plan, payloads)
    except DecodeError as error:
        raise DecodeError(error.message, uri=video.uri, frame_index=error.frame_index) from error
    cut = _assembled(video, plan, payloads, reader)
    _check_references(cut, plan)
    return cut


def open_indexed(video: VideoLike) -> Source:
    """Open the file of an indexed video. Raises SourceError, `vanished` where it is no longer there."""
    try:
        return open_source(video.uri)
    except SourceError as error:
        if error.reason != Reason.NOT_FOUND:
            raise
        raise SourceError("no longer there", reason=Reason.VANISHED, uri=video.uri) from error


def check_identity(video: VideoLike, source: Source) -> None:
    """Raise StaleIndexError where `source` is not the content that `video` describes."""
    indexed, found = video.identity, source.identity
    for name in ("size_bytes", "mtime_ns", "etag"):
        before, now = getattr(indexed, name), getattr(found, name)
        if before is not None and now is not None and before != now:
            raise StaleIndexError(f"{name} was {before} when indexed and is {now}", uri=video.uri)


# --- planning ---------------------------------------------------------------------------------------------------------


def _distinct(frames: IntArray) -> IntArray:
    frames = np.asarray(frames, dtype=np.int64).reshape(-1)
    if len(frames) < 2 or bool((frames[1:] > frames[:-1]).all()):
        return frames
    return np.unique(frames)


def start_rows(table: SampleTable, rows: IntArray, key_rows: IntArray | None = None) -> IntArray:
    """int64: the row from which decoding must start to give each of `rows`.

    A frame shown before its key frame belongs to an open GOP: its references lie in the GOP before. Rows before
    the first key row start at row 0.
    """
    keys = table.key_rows if key_rows is None else key_rows
    if len(keys) == 0 or keys[0] != 0:
        keys = np.concatenate((np.zeros(1, np.int64), keys))
    place = np.searchsorted(keys, rows, side="right") - 1
    leading = table.pts[rows] < table.pts[keys[place]]
    starts: IntArray = keys[np.maximum(place - leading, 0)]
    return starts


def _segments(table: SampleTable, rows: IntArray, key_rows: IntArray | None) -> IntArray:
    """int64[s, 2] disjoint first and last rows, ascending."""
    if len(rows) == 0:
        return np.zeros((0, 2), np.int64)
    starts = start_rows(table, rows, key_rows)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(rows[order])
    first = np.concatenate(([True], starts[1:] > ends[:-1] + 1))
    last = np.concatenate((first[1:], [True]))
    segments: IntArray = np.stack((starts[first], ends[last]), axis=1)
    return segments


def _concatenated_ranges(starts: IntArray, stops: IntArray) -> IntArray:
    """The integers of [start, stop) for each pair, one after the other."""
    lengths = stops - starts
    before = np.cumsum(lengths) - lengths
    integers: IntArray = np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(starts - before, lengths)
    return integers


def _merged(offset: IntArray, size: IntArray, max_gap_bytes: int) -> tuple[tuple[int, int], ...]:
    if len(offset) == 0:
        return ()
    if bool((offset[1:] < offset[:-1]).any()):
        order = np.argsort(offset, kind="stable")
        offset, size = offset[order], size[order]
    ends = np.maximum.accumulate(offset + size)
    apart = np.flatnonzero(offset[1:] - ends[:-1] > max_gap_bytes)
    starts = offset[np.concatenate(([0], apart + 1))]
    stops = ends[np.concatenate((apart, [len(ends) - 1]))]
    return tuple(zip(starts.tolist(), (stops - starts).tolist(), strict=True))


# --- reading ----------------------------------------------------------------------------------------------------------


def _is_remote(source: Source) -> bool:
    return source.identity.etag is not None


def _default_gap(source: Source) -> int:
    return REMOTE_MAX_GAP_BYTES if _is_remote(source) else LOCAL_MAX_GAP_BYTES


class _RangeReader:
    """Reads the merged ranges and splits them; counts what it reads."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.num_reads = 0
        self.num_bytes = 0

    def read_at(self, offset: int, size: int) -> bytes:
        data = self._source.read_at(offset, size)
        self.num_reads += 1
        self.num_bytes += len(data)
        return data

    def payloads(self, table: SampleTable, plan: CutPlan) -> list[bytes]:
        """Bytes of each candidate row; short where the file ends."""
        blocks = self._blocks(plan.reads)
        starts = np.array([offset for offset, _ in plan.reads], dtype=np.int64)
        offset, size = table.offset[plan.rows], table.size[plan.rows]
        block = np.searchsorted(starts, offset, side="right") - 1
        begin = offset - starts[block] if len(starts) else offset
        return [
            blocks[i][a:b]
            for i, a, b in zip(block.tolist(), begin.tolist(), (begin + size).tolist(), strict=True)
        ]  # fmt: skip

    def head(self, table: SampleTable, row: int) -> bytes:
        """The first bytes of one row."""
        return self.read_at(int(table.offset[row]), min(int(table.size[row]), HEAD_BYTES))

    def _blocks(self, reads: Sequence[tuple[int, int]]) -> list[bytes]:
        if len(reads) > 1 and _is_remote(self._source):
            with ThreadPoolExecutor(min(len(reads), REMOTE_READS_IN_FLIGHT)) as pool:
                return list(pool.map(lambda read: self.read_at(*read), reads))
        return [self.read_at(offset, size) for offset, size in reads]


class _DemuxReader:
    """Demuxes the file up to the last wanted row: for containers whose samples lie in pieces."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size_bytes = source.identity.size_bytes
        self.num_reads = 0
        self.num_bytes = 0
        self._known: dict[int, bytes] = {}

    def read_at(self, offset: int, size: int) -> bytes:
        data = self._source.read_at(offset, size)
        self.num_reads += 1
        self.num_bytes += len(data)
        return data

    def payloads(self, table: SampleTable, plan: CutPlan) -> list[bytes]:
        """Bytes of each candidate row; empty where the demuxer ends before it."""
        del table
        self._demux(set(plan.rows.tolist()))
        return [self._known.get(row, b"") for row in plan.rows.tolist()]

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
        for row, data in enumerate(_demuxed(self)):
            if row in missing:
                self._known[row] = data
            if row >= last:
                return


def _demuxed(reader: _DemuxReader) -> Iterable[bytes]:
    """Payload of each row, in row order."""
    from vidprep.containers import demux

    for packet in demux.iter_packets(reader.read_at, reader.size_bytes):
        yield packet.data


# --- checking ---------------------------------------------------------------------------------------------------------


def _false_starts(info: StreamInfo, plan: CutPlan, payloads: list[bytes]) -> list[int]:
    """Start rows whose bytes say that they are no key frames; row 0 is as good as it gets."""
    places = np.searchsorted(plan.rows, plan.segments[:, 0]).tolist()
    return [
        int(plan.rows[place])
        for place in places
        if plan.rows[place] > 0 and sample_facts(info, payloads[place]).key is False
    ]  # fmt: skip


def _without_false_claims(
    video: VideoLike, reader: _RangeReader | _DemuxReader, keys: IntArray, false: list[int]
) -> IntArray:
    """`keys` less the false ones and those before them, up to the first whose head does not deny the claim."""
    dropped = set(false)
    for row in false:
        for key in keys[: int(np.searchsorted(keys, row))][::-1].tolist():
            if key == 0 or sample_facts(video.info, reader.head(video.table, key), complete=False).key is not False:
                break
            dropped.add(key)
    return np.setdiff1d(keys, np.fromiter(dropped, np.int64, len(dropped)), assume_unique=True)


def _check_payloads(table: SampleTable, plan: CutPlan, payloads: list[bytes]) -> None:
    """Raise DecodeError, naming the first wanted frame that it touches, for bytes that are missing or changed."""
    sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))
    short = np.flatnonzero(sizes != table.size[plan.rows])
    if len(short):
        row = int(plan.rows[short[0]])
        have, want = int(sizes[short[0]]), int(table.size[row])
        raise _row_error(plan, row, f"coded sample {row} is cut off: {have} of {want} bytes are there")
    if table.crc32 is None:
        return
    for row, payload, crc32 in zip(plan.rows.tolist(), payloads, table.crc32[plan.rows].tolist(), strict=True):
        if zlib.crc32(payload) != crc32:
            raise _row_error(plan, row, f"coded sample {row} fails its checksum: the file's bytes changed")


def _check_references(cut: Cut, plan: CutPlan) -> None:
    """Raise DecodeError where the samples themselves say that a picture they refer to is not among them."""
    for segment in cut.segments:
        row = first_gap(cut.info, segment)
        if row is not None and row not in cut.leading_rows:
            error = _row_error(plan, row, f"reference pictures are missing before coded sample {row}")
            raise DecodeError(error.message, uri=cut.uri, frame_index=error.frame_index)


def _row_error(plan: CutPlan, row: int, message: str) -> DecodeError:
    """An error at `row`, named after the first wanted frame that a decoder would give after meeting it."""
    later = plan.frames[plan.frame_rows >= row]
    return DecodeError(message, frame_index=int(later[0]) if len(later) else None)


# --- assembling -------------------------------------------------------------------------------------------------------


def _assembled(video: VideoLike, plan: CutPlan, payloads: list[bytes], reader: _RangeReader | _DemuxReader) -> Cut:
    flags = video.table.flags[plan.rows]
    leading = _leading_rows(video.table, plan)
    skip = _unneeded(video.info, plan, payloads) | (video.table.size[plan.rows] == 0)
    if video.info.codec in LEADING_ARE_UNREFERENCED:
        skip |= np.isin(plan.rows, leading)
    kept = plan.rows[~skip]
    keys, shown = flags & SampleFlag.KEY != 0, flags & SampleFlag.SHOWN != 0
    columns = (plan.rows.tolist(), payloads, keys.tolist(), video.table.pts[plan.rows].tolist(), shown.tolist())
    packets = tuple(
        Packet(row=row, data=data, key=key, pts=pts, shown=shown)
        for row, data, key, pts, shown, unneeded in zip(*columns, skip.tolist(), strict=True)
        if not unneeded
    )
    return Cut(
        uri=video.uri,
        info=video.info,
        frames=plan.frames,
        frame_rows=plan.frame_rows,
        packets=packets,
        num_reads=reader.num_reads,
        num_bytes_read=reader.num_bytes,
        num_bytes_candidates=int(video.table.size[plan.rows].sum()),
        segment_starts=tuple(np.searchsorted(kept, plan.segments[:, 0]).tolist()),
        leading_rows=frozenset(leading.tolist()),
    )


def _unneeded(info: StreamInfo, plan: CutPlan, payloads: list[bytes]) -> npt.NDArray[np.bool_]:
    """bool[p]: rows that no other picture refers to and that nobody wants.

    The samples alone say so. Tables lie: FFmpeg's libsvtav1 marks temporal units as disposable whose last frame is,
    though a frame hidden before it is what the next units show.
    """
    candidate = np.ones(len(plan.rows), bool)
    candidate[np.searchsorted(plan.rows, plan.frame_rows)] = False
    candidate[np.searchsorted(plan.rows, plan.segments[:, 0])] = False
    unneeded = np.zeros(len(plan.rows), bool)
    unreferenced = _unreferenced_test(info)
    for place in np.flatnonzero(candidate).tolist():
        unneeded[place] = unreferenced(payloads[place])
    return unneeded


def _unreferenced_test(info: StreamInfo) -> Callable[[bytes], bool]:
    """A function that tells whether no other picture refers to that of a sample.

    Progressive H.264, by far the commonest, says so in the first byte of any slice: nal_ref_idc is 0 (ITU-T H.264,
    7.4.1). With fields a sample may be half a wanted frame. HEVC says so in the first two bytes (ITU-T H.265, 7.4.2.2)
    where all its sequences have the same number of sub-layers. VP9 never does: `sample_facts` says why.
    """
    if info.codec == "vp9":
        return lambda _: False
    if info.codec == "hevc" and info.nal_length_size == 4:
        sub_layers = set(hevc_sets(info.codec_config).max_sub_layers.values())
        if len(sub_layers) == 1:
            return partial(_is_unreferenced_hevc, sub_layers=sub_layers.pop())
    if info.codec == "h264" and info.nal_length_size == 4 and info.interlaced is False:
        return _is_unreferenced_h264
    return lambda payload: sample_facts(info, payload).disposable is True


def _is_unreferenced_h264(payload: bytes) -> bool:
    """Of a sample whose NAL units stand behind four-byte lengths: slices are types 1 to 5, parameter sets 7 and 8."""
    at = 4
    while at < len(payload):
        header = payload[at]
        if header & 0x1F in (7, 8):
            return False
        if 1 <= header & 0x1F <= 5:
            return header & 0x60 == 0
        at += int.from_bytes(payload[at - 4 : at], "big") + 4
    return False


def _is_unreferenced_hevc(payload: bytes, *, sub_layers: int) -> bool:
    """As of H.264: an even type up to 14, in the highest sub-layer; parameter sets are types 32 to 34."""
    at = 4
    while at + 2 < len(payload):
        kind, layer = payload[at] >> 1 & 0x3F, (payload[at] & 1) << 5 | payload[at + 1] >> 3
        if layer == 0 and 32 <= kind <= 34:
            return False
        if layer == 0 and kind < 32:
            return kind <= 14 and kind % 2 == 0 and payload[at + 1] & 7 == sub_layers
        at += int.from_bytes(payload[at - 4 : at], "big") + 4
    return False


def _leading_rows(table: SampleTable, plan: CutPlan) -> IntArray:
    """Unwanted rows that are shown before the key row that their segment starts from.

    Where one of a segment's leading pictures is wanted (the stream begins with them), others may be its references.
    """
    if table.order is not None:  # times jump back: they do not tell what is shown before what
        return plan.rows[:0]
    starts = plan.segments[:, 0]
    segment = np.searchsorted(starts, plan.rows, side="right") - 1
    leading = table.pts[plan.rows] < table.pts[starts][segment]
    if not leading.any():
        return plan.rows[:0]
    is_wanted = np.isin(plan.rows, plan.frame_rows)
    needed = np.isin(segment, segment[leading & is_wanted])
    return plan.rows[leading & ~needed]
