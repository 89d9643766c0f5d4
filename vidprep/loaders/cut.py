"""The cut: the fewest bytes and coded samples that give the wanted frames of one video.

A decoder that is to show frame i starts at the key row that covers i and is fed every row up to the one that gives i.
Wanted frames that share a key row share a *segment*; so do those whose rows follow each other without a gap. Segments
are decoded apart, so that a few frames spread over a long video cost their own groups of pictures (GOPs) and no more.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.bitstream import is_understood, sample_facts
from vidprep.containers.in_band import in_band
from vidprep.errors import DecodeError, SourceError
from vidprep.loaders.cut_plan import CutPlan, plan_cut, start_rows
from vidprep.loaders.cut_reading import (
    HEAD_BYTES,
    check_identity,
    default_gap,
    open_indexed,
    payload_reader,
    since_indexed,
)
from vidprep.loaders.packets import Packet, Packets, Payloads
from vidprep.loaders.references import first_gaps
from vidprep.loaders.unreferenced import are_unreferenced
from vidprep.timebase import unchecked

if TYPE_CHECKING:
    from vidprep.loaders.cut_reading import PayloadReader
    from vidprep.records import SampleTable, StreamInfo, VideoLike
    from vidprep.sources import Source
    from vidprep.timebase import IntArray

__all__ = [
    "Cut",
    "CutPlan",
    "Packet",
    "Packets",
    "check_identity",
    "open_indexed",
    "plan_cut",
    "read_cut",
    "start_rows",
]

#: Codecs in which no picture that follows a key picture in presentation refers to one that precedes it:
#: leading pictures of HEVC and VVC (ITU-T H.265 3.65, H.266 3.73), B pictures of MPEG-1/2.
LEADING_ARE_UNREFERENCED = frozenset({"hevc", "vvc", "mpeg1video", "mpeg2video"})

#: Codecs whose samples we do not understand, and whose decoder gives an error where it begins at no key picture.
REFUSED_WITHOUT_KEY = frozenset({"ffv1"})

#: A plan's starts where there is one, at the first row.
_ROW_0 = ((0, 0),)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Packets in decode order, and what is wanted of them."""

    uri: str
    info: StreamInfo
    frames: IntArray
    """int64[u]: the distinct wanted frame indices, ascending"""
    frame_rows: IntArray
    """int64[u]: which packet's picture each of them is"""
    packets: Packets
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
    def segments(self) -> tuple[Packets, ...]:
        """The packets of each segment."""
        return tuple(self.packets[a:b] for a, b in pairwise((*self.segment_starts, len(self.packets))))


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
    gap = default_gap(source) if max_gap_bytes is None else max_gap_bytes
    try:
        reader = payload_reader(video, source)
        keys = _claimed_keys(video)
        may_be_fields = video.info.codec == "h264" and video.info.interlaced is not False
        plan = plan_cut(video.table, frames, max_gap_bytes=gap, key_rows=keys, may_be_fields=may_be_fields)
        payloads = reader.payloads(plan)
        while not video.keys_verified and (false := _false_starts(video.info, plan, payloads)):
            keys = _without_false_claims(video, reader, keys, false)
            plan = plan_cut(video.table, frames, max_gap_bytes=gap, key_rows=keys, may_be_fields=may_be_fields)
            payloads = reader.payloads(plan)
        _check_payloads(video.table, plan, payloads)
        # Starts that are not verified have been looked at, but for row 0.
        if len(video.table.key_rows) == 1 if video.keys_verified else plan.starts[:1] == _ROW_0:
            _check_starts(video.info, plan, payloads)
        if video.info.later_configs:
            payloads = _with_set_ups(video.info, plan, payloads)
        return _assembled(video, plan, payloads, reader)
    except DecodeError as error:
        raise DecodeError(error.message, uri=video.uri, frame_index=error.frame_index) from error
    except SourceError as error:
        raise since_indexed(error, video) from error


def _claimed_keys(video: VideoLike) -> IntArray:
    """Rows to start from. A claim that all are key frames is worth nothing if the samples cannot confirm it.

    Files without a table of key frames seem to make it too (ISO/IEC 14496-12, 8.6.2), and a decoder that begins at a
    predicted picture of such a codec gives a wrong one without a word.
    """
    keys = video.table.key_rows
    if video.keys_verified or len(keys) < len(video.table) or video.info.codec in REFUSED_WITHOUT_KEY:
        return keys
    return keys if is_understood(video.info.codec) else keys[:1]


def _false_starts(info: StreamInfo, plan: CutPlan, payloads: Payloads) -> list[int]:
    """Start rows whose bytes say that they are no key frames; row 0 is as good as it gets."""
    return [row for row, place in plan.starts if row > 0 and _is_key(info, row, payloads[place]) is False]


def _is_key(info: StreamInfo, row: int, payload: memoryview) -> bool | None:
    """What a sample says of itself, in its head if that will do."""
    if _begins_with_key(info, payload):
        return True
    info = info.at_row(row)
    is_key = sample_facts(info, bytes(payload[:HEAD_BYTES]), complete=len(payload) <= HEAD_BYTES).key
    return is_key if is_key is not None or len(payload) <= HEAD_BYTES else sample_facts(info, bytes(payload)).key


def _begins_with_key(info: StreamInfo, payload: memoryview) -> bool:
    """Whether the first NAL unit is of an IDR picture (H.264), or any IRAP picture of the base layer (HEVC)."""
    if info.nal_length_size != 4 or len(payload) < 7:
        return False
    if info.codec == "h264":
        return payload[4] & 0x1F == 5
    return info.codec == "hevc" and payload[4] & 0xF1 == 16 << 1 and payload[5] < 8


def _check_starts(info: StreamInfo, plan: CutPlan, payloads: Payloads) -> None:
    """Raise DecodeError where decoding would start at a predicted picture: some decoders make up what it refers to."""
    for row, place in plan.starts:
        if _begins_with_key(info, payloads[place]):
            continue
        fact = sample_facts(info.at_row(row), bytes(payloads[place]))
        if fact.key is False and fact.recovery_frames is None and fact.picture_type in ("P", "B"):
            raise _row_error(plan, row, f"coded sample {row} is no key frame, and no key frame comes before it")


def _without_false_claims(video: VideoLike, reader: PayloadReader, keys: IntArray, false: list[int]) -> IntArray:
    """`keys` less the false ones and those before them, up to the first whose head does not deny the claim."""
    dropped = set(false)
    for row in false:
        for key in keys[: int(np.searchsorted(keys, row))][::-1].tolist():
            facts = sample_facts(video.info.at_row(key), reader.head(video.table, key), complete=False)
            if key == 0 or facts.key is not False:
                break
            dropped.add(key)
    return np.setdiff1d(keys, np.fromiter(dropped, np.int64, len(dropped)), assume_unique=True)


def _check_payloads(table: SampleTable, plan: CutPlan, payloads: Payloads) -> None:
    """Raise DecodeError, naming the first wanted frame that it touches, for bytes that are missing or changed."""
    if payloads.size is not plan.size:  # nothing is missing where the reader hands on the very column
        for place in (payloads.size != plan.size).nonzero()[0][:1].tolist():
            row, have, want = plan.rows.item(place), payloads.size.item(place), plan.size.item(place)
            raise _row_error(plan, row, f"coded sample {row} is cut off: {have} of {want} bytes are there")
    if table.crc32 is None:
        return
    for row, payload, crc32 in zip(plan.rows.tolist(), payloads, table.crc32[plan.rows].tolist(), strict=True):
        if zlib.crc32(payload) != crc32:
            raise _row_error(plan, row, f"coded sample {row} fails its checksum: the file's bytes changed")


def _with_set_ups(info: StreamInfo, plan: CutPlan, payloads: Payloads) -> Payloads:
    """Payloads with their configuration in band wherever it is not the one that the decoder has at that point."""
    starts = set(plan.segments[:, 0].tolist())
    has = info.codec_config
    out: list[bytes | memoryview] = []
    for row, payload in zip(plan.rows.tolist(), payloads, strict=True):
        has, wants = info.codec_config if row in starts else has, info.at_row(row).codec_config
        set_up = b"" if wants == has else in_band(info.codec, wants, info.nal_length_size) or b""
        out.append(set_up + bytes(payload) if set_up else payload)
        has = wants
    return Payloads.of(out)


def _check_references(cut: Cut, plan: CutPlan) -> None:
    """Raise DecodeError where the samples themselves say that a picture they refer to is not among them."""
    for row in first_gaps(cut.info, cut.packets, cut.segment_starts):
        if row not in cut.leading_rows:
            raise _row_error(plan, row, f"reference pictures are missing before coded sample {row}")


def _row_error(plan: CutPlan, row: int, message: str) -> DecodeError:
    """An error at `row`, named after the first wanted frame that a decoder would give after meeting it."""
    later = plan.frames[plan.frame_rows >= row]
    return DecodeError(message, frame_index=int(later[0]) if len(later) else None)


def _assembled(video: VideoLike, plan: CutPlan, payloads: Payloads, reader: PayloadReader) -> Cut:
    table, rows = video.table, plan.rows
    keep = ~are_unreferenced(video.info, payloads, _needed(plan))
    if np.count_nonzero(payloads.size) < len(keep):
        keep &= payloads.size > 0
    if len(plan.leading_rows) and video.info.codec in LEADING_ARE_UNREFERENCED:
        keep &= ~np.isin(rows, plan.leading_rows)
    places = keep.nonzero()[0]
    kept = rows[places]
    packets = Packets(kept, payloads[places], table.pts[kept], table.flags[kept])
    cut = unchecked(
        Cut,
        uri=video.uri,
        info=video.info,
        frames=plan.frames,
        frame_rows=plan.frame_rows,
        packets=packets,
        num_reads=reader.num_reads,
        num_bytes_read=reader.num_bytes,
        num_bytes_candidates=int(payloads.size.sum()),
        segment_starts=(0,) if len(plan.starts) == 1 else tuple(kept.searchsorted(plan.segments[:, 0]).tolist()),
        leading_rows=frozenset(plan.leading_rows.tolist()),
    )
    _check_references(cut, plan)
    return cut


def _needed(plan: CutPlan) -> tuple[IntArray | int, ...]:
    """Places of rows that are wanted or start a segment; the others need not be decoded if nothing refers to them."""
    return (plan.frame_places, *(place for _, place in plan.starts))
