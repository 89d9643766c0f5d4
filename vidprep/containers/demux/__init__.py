"""Every container that has no parser of its own here: PyAV demuxes it, and its packets become rows.

The stream is also decoded once, as far as a budget goes: which packets give a picture, and in which order, is a matter
of the bitstream where the container has no times, starts before the first key frame, or is damaged. Beyond the budget
the container's times and key flags are believed, with a warning, if it has any times.

On an object store MPEG-TS and MPEG-PS are streamed whole by this; there is no index in them to go by.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.containers.demux.facts import container_name, frame_rate, stream_info
from vidprep.containers.demux.packets import DemuxedPacket, iter_packets, open_video, stream_packets
from vidprep.containers.demux.pictures import PictureOrder
from vidprep.containers.demux.ranges import PacketRanges
from vidprep.containers.demux.tail import Tail, ends_early
from vidprep.containers.demux.times import MISSING, fill_missing, regular_times, unwrap_clock
from vidprep.errors import LimitError, NotMediaError, Reason
from vidprep.records import Finding, ParsedVideo, SampleFlag, SampleTable

if TYPE_CHECKING:
    from vidprep.records import ReadAt
    from vidprep.timebase import IntArray

__all__ = ["DemuxedPacket", "iter_packets", "parse"]

#: Containers that have slots or nothing at all where others have times.
_WITHOUT_TIMES = frozenset({"avi", "h264", "hevc", "vvc", "evc", "m4v", "mpegvideo", "h263", "h261", "vc1", "cavsvideo",
                            "avs2", "avs3", "dirac", "dnxhd", "obu", "av1", "mjpeg"})  # fmt: skip
#: Of those, the ones whose slots (dts) are written in the file.
_WITH_SLOTS = frozenset({"avi"})
_MPEG_SYSTEMS = frozenset({"mpegts", "mpegps"})

#: Where a JPEG picture has others in its file, previews of it or parts (CIPA DC-007): the index of them in its header.
_MULTI_PICTURE, _MULTI_PICTURE_BYTES = b"MPF\0", 1 << 17

#: First bytes that tell the length of transport stream packets.
_HEAD_BYTES = 1024

_COLUMNS = OFFSET, SIZE, PTS, DTS, DURATION, KEY, CORRUPT = range(7)


@dataclass(kw_only=True)
class _Rows:
    """What the packets say, seven numbers a row."""

    numbers: array[int] = field(default_factory=lambda: array("q"))
    last_pos: int = 0

    def add(self, packet: Any, offset: int) -> None:
        self.numbers.extend((
            offset,
            packet.size,
            MISSING if packet.pts is None else packet.pts,
            MISSING if packet.dts is None else packet.dts,
            packet.duration or 0,
            packet.is_keyframe,
            packet.is_corrupt,
        ))  # fmt: skip

    def __len__(self) -> int:
        return len(self.numbers) // len(_COLUMNS)

    def columns(self) -> IntArray:
        return np.array(self.numbers, dtype=np.int64).reshape(-1, len(_COLUMNS)).T


def parse(read_at: ReadAt, size_bytes: int) -> ParsedVideo:
    """Demux and, within a budget, decode the whole file.

    Raises:
        ContainerError: not a video FFmpeg can open, or one without a packet or a picture.
        LimitError: the file makes the demuxer read or give far more than its own size, or has an order of pictures that
            only decoding would tell, beyond the budget.
    """
    with open_video(read_at, size_bytes) as (container, stream):
        is_motion_jpeg = container_name(container) == "mjpeg"
        pictures = PictureOrder(stream, size_bytes)
        ranges = PacketRanges(read_at, container_name(container))
        rows, tail, first = _Rows(), Tail(), b""
        pos = 0
        for row, packet in enumerate(stream_packets(container, stream, size_bytes)):
            data = bytes(packet)
            first = first or data
            pos = pos if packet.pos is None else packet.pos
            offset = ranges.locate(packet.pos, data)
            rows.add(packet, pos if packet.pos is None else offset)
            tail.add(packet, data)
            pictures.feed(packet, row)
        pictures.feed(None, -1)
        if is_motion_jpeg and (len(rows) == 1 or _MULTI_PICTURE in first[:_MULTI_PICTURE_BYTES]):
            raise NotMediaError("a single picture (JPEG)", offset=0)
        if not pictures.is_complete and _has_no_other_order(container, stream):
            raise LimitError("too much to decode for the order of its pictures, which the container does not tell")
        head = read_at(0, _HEAD_BYTES)
        is_cut_off = pictures.is_complete and tail.is_cut_off(stream, head, size_bytes)
        parsed = _assemble(container, stream, rows.columns(), pictures, ranges.is_contiguous, first, is_cut_off)
    if not is_cut_off and ends_early(head, size_bytes):
        early = Finding(reason=Reason.TRUNCATED, message="the file ends earlier than its container says")
        return replace(parsed, warnings=(early, *parsed.warnings))
    return parsed


def _has_no_other_order(container: Any, stream: Any) -> bool:
    return container_name(container) in _WITHOUT_TIMES and stream.codec_context.has_b_frames > 0


def _assemble(
    container: Any, stream: Any, columns: IntArray, pictures: PictureOrder, contiguous: bool, first_sample: bytes,
    is_cut_off: bool,
) -> ParsedVideo:  # fmt: skip
    if not columns.shape[1]:
        raise NotMediaError("the video stream has no packets", reason=Reason.NO_FRAMES)
    frame_rows = _frame_rows(columns, pictures)
    if is_cut_off:
        frame_rows = frame_rows[frame_rows != columns.shape[1] - 1]
    if not len(frame_rows):
        raise NotMediaError("no packet gives a picture", reason=Reason.NO_FRAMES)
    ticks = _frame_ticks(stream, columns)
    pts = _times(container_name(container), columns, frame_rows, ticks)
    flags = columns[KEY] * SampleFlag.KEY
    flags[frame_rows] |= SampleFlag.SHOWN
    table = SampleTable(
        offset=columns[OFFSET],
        size=columns[SIZE],
        pts=pts,
        flags=flags.astype(np.uint8),
        order=None if _is_sorted(pts, frame_rows) else frame_rows,
    )
    last = int(columns[DURATION][frame_rows[-1]]) or ticks
    return ParsedVideo(
        info=stream_info(container, stream, first_sample=first_sample, last_duration=last, pictures=pictures),
        table=table,
        method="demux",
        access="ranges" if contiguous else "demux",
        warnings=tuple(_findings(container_name(container), stream, columns, pictures, is_cut_off)),
    )


def _frame_rows(columns: IntArray, pictures: PictureOrder) -> IntArray:
    """Rows in presentation order: as decoded, or all from the first key row on, by pts."""
    if pictures.is_complete:
        return np.array(pictures.rows, dtype=np.int64)
    first = int(columns[KEY].argmax())
    pts = columns[PTS][first:]
    if (pts == MISSING).any():
        return np.arange(first, first + len(pts))
    return first + np.argsort(pts, kind="stable")


def _frame_ticks(stream: Any, columns: IntArray) -> int:
    """How long a frame is shown where nothing else tells: the packets' median duration, or the rate's period."""
    durations = columns[DURATION][columns[DURATION] > 0]
    if len(durations):
        return int(np.median(durations))
    rate = frame_rate(stream)
    return max(round(1 / (rate * stream.time_base)), 1) if rate and stream.time_base else 1


def _times(container: str, columns: IntArray, frame_rows: IntArray, ticks: int) -> IntArray:
    pts, dts = columns[PTS], columns[DTS]
    if container in _WITHOUT_TIMES:
        slots = dts if container in _WITH_SLOTS and not (dts == MISSING).any() else np.arange(len(dts)) * ticks
        return regular_times(slots, frame_rows)
    if container in _MPEG_SYSTEMS:
        reference = np.where(dts == MISSING, pts, dts)
        pts = unwrap_clock(pts, reference)
    if (pts == MISSING).any():
        return fill_missing(pts, frame_rows, ticks)
    return regular_times(pts, frame_rows) if _are_decode_times(pts, frame_rows) else pts


def _are_decode_times(pts: IntArray, frame_rows: IntArray) -> bool:
    """Times that rise in coded order though the decoder gives its pictures in another (MXF, ASF of some writers)."""
    reordered = bool((frame_rows[1:] < frame_rows[:-1]).any())
    return reordered and bool((pts[1:] > pts[:-1]).all())


def _is_sorted(pts: IntArray, frame_rows: IntArray) -> bool:
    """Whether sorting the shown rows by pts, stably, gives just `frame_rows`."""
    shown = np.sort(frame_rows)
    return bool((shown[np.argsort(pts[shown], kind="stable")] == frame_rows).all())


def _findings(
    container: str, stream: Any, columns: IntArray, pictures: PictureOrder, is_cut_off: bool
) -> list[Finding]:
    count, is_timed = columns.shape[1], container not in _WITHOUT_TIMES
    lost = count - len(pictures.rows)
    told = (
        (is_cut_off, Reason.TRUNCATED, "the file ends within its last packet, which is left out"),
        (bool(columns[CORRUPT].any()), Reason.TRUNCATED, "packets that the demuxer found damaged"),
        (pictures.num_errors > 0, Reason.CORRUPT_TABLE, f"the decoder refuses {pictures.num_errors} packets"),
        (pictures.is_complete and lost > 0, Reason.NO_FRAMES, f"{lost} of {count} packets give no picture"),
        (pictures.num_extra > 0, Reason.CORRUPT_TABLE, f"{pictures.num_extra} pictures beside one a packet"),
        (not pictures.is_complete, Reason.TIMEOUT, "too much to decode: the container's times and keys are believed"),
        (
            bool(stream.frames) and stream.frames != count,
            Reason.CORRUPT_TABLE,
            f"the header counts {stream.frames} frames, there are {count} packets",
        ),
        (is_timed and bool((columns[PTS] == MISSING).any()), Reason.CORRUPT_TABLE, "packets without a time got one"),
    )
    return [Finding(reason=reason, message=message) for true, reason, message in told if true]
