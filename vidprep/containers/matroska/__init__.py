"""Matroska and WebM (RFC 9559): block headers are walked, payloads jumped over."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.codecconfig import CodecFacts, codec_facts
from vidprep.containers.colours import MATRIX, PRIMARIES, RANGE, TRANSFER
from vidprep.containers.losses import behind_losses
from vidprep.containers.matroska import ids
from vidprep.containers.matroska.blocks import KEY, NUM_COLUMNS, OFFSET, SIZE, Walk
from vidprep.containers.matroska.ebml import Window, flatten, next_id, text, uint
from vidprep.containers.matroska.timing import row_times
from vidprep.containers.matroska.tracks import INTRA_ONLY, Track, read_tracks
from vidprep.containers.matroska.visible import shown_rows
from vidprep.errors import (
    MalformedContainerError,
    NotMediaError,
    Reason,
    TruncatedContainerError,
    UnsupportedContainerError,
)
from vidprep.records import Finding, ParsedVideo, SampleFlag, SampleTable, StreamInfo

if TYPE_CHECKING:
    from vidprep.records import ReadAt
    from vidprep.timebase import IntArray

__all__ = ["parse"]

#: A header element larger than this is not read.
_MAX_HEADER_BYTES = 32 << 20
#: What the header goes on with behind damage.
_LANDMARKS = frozenset({ids.INFO, ids.TRACKS, ids.CLUSTER})
_MAX_RESYNCS = 64
#: How much of the first sample tells the codec's facts where the header has no configuration.
_FIRST_SAMPLE_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    doc_type: str
    tracks: list[Track]
    ns_per_tick: int
    """TimestampScale"""
    body: int
    """where the walk starts"""
    segment_end: int
    """the file's end, as claimed"""


def parse(read_at: ReadAt, size_bytes: int) -> ParsedVideo:
    """Frame table of the first video track.

    Tracks whose blocks are compressed, lack a stripped header, or hold a codec whose packets FFmpeg rewrites are left
    to the demuxer (`access="demux"`): their payloads are not ranges of the file.

    Raises:
        ContainerError: no EBML header, no video track, no whole block, or encrypted.
    """
    window = Window(read_at, size_bytes)
    header = _read_header(window)
    videos = [track for track in header.tracks if track.is_video]
    if not videos:
        raise NotMediaError("no video track", reason=Reason.NO_VIDEO_STREAM)
    video = videos[0]
    if video.is_encrypted:
        raise UnsupportedContainerError(f"track {video.number} is encrypted", reason=Reason.ENCRYPTED)
    if video.is_encoded or video.codec is None or video.timestamp_scale != 1.0:
        from vidprep.containers import demux

        return demux.parse(read_at, size_bytes)
    audio = next((track for track in header.tracks if track.is_audio), None)
    walk = Walk(window, video, audio)
    walk.run(header.body)
    columns = np.frombuffer(walk.rows, dtype=np.int64).reshape(-1, NUM_COLUMNS).T
    if not columns.shape[1]:
        if walk.findings or header.segment_end > size_bytes:
            raise TruncatedContainerError("no whole block of the video track", reason=Reason.NO_FRAMES)
        raise NotMediaError("no block of the video track", reason=Reason.NO_FRAMES)
    return _assemble(read_at, size_bytes, header, video, walk, columns)


def _assemble(
    read_at: ReadAt, size_bytes: int, header: _Header, video: Track, walk: Walk, columns: IntArray
) -> ParsedVideo:
    times = row_times(columns, walk.cluster_rows, video, header.ns_per_tick)
    shown = shown_rows(read_at, video.codec or "", columns)
    key = (columns[KEY] | (video.codec in INTRA_ONLY)).astype(np.bool_)
    behind = behind_losses(key, times.pts, np.array(walk.losses, np.int64))
    shown = shown & ~(behind.lost | behind.leading)
    flags = (key * SampleFlag.KEY + shown * SampleFlag.SHOWN + behind.restarts * SampleFlag.RESTART).astype(np.uint8)
    order = None if times.order is None else times.order[shown[times.order]]
    table = SampleTable(offset=columns[OFFSET], size=columns[SIZE], pts=times.pts, flags=flags, order=order)
    last = int(times.duration[table.frame_rows[-1]]) if table.num_frames else 0
    first_sample = read_at(int(columns[OFFSET][0]), min(int(columns[SIZE][0]), _FIRST_SAMPLE_BYTES))
    facts = codec_facts(video.codec or "", video.codec_config, first_sample)
    return ParsedVideo(
        info=_info(header, video, walk, facts, last),
        table=table,
        method="scan",
        warnings=(*walk.findings, *_late_findings(header, walk, size_bytes), *times.findings),
    )


def _read_header(window: Window) -> _Header:
    """Everything before the first cluster; where Tracks stand behind clusters, those are passed over first."""
    ebml = window.element(0)
    if ebml.id != ids.EBML or ebml.end is None:
        raise NotMediaError("no EBML header", offset=0)
    doc_type = text(flatten(_payload(window, ebml.start, ebml.end), ()).get(ids.DOC_TYPE))
    if doc_type not in ("matroska", "webm"):
        raise NotMediaError(f"an EBML header, but of DocType {doc_type!r}", offset=0)
    position, size_bytes = ebml.end, window.size_bytes
    tracks: list[Track] = []
    scale, body, segment_end, num_resyncs, is_cut = 1_000_000, -1, 0, 0, False
    while 0 <= position < size_bytes and not (tracks and body >= 0):
        found = window.element(position)
        if found.id == ids.SEGMENT:
            segment_end = found.end or 0
            position = found.start
            continue
        if found.id == ids.CLUSTER and body < 0:
            body = position
        known = found.id in ids.KNOWN or window.lands_well(found, ids.KNOWN)
        if not known or found.end is None or found.end > size_bytes:
            is_cut |= known and found.end is not None
            num_resyncs += 1
            position = next_id(window, position + 1, _LANDMARKS) if num_resyncs < _MAX_RESYNCS else -1
            continue
        if found.id == ids.INFO:
            fields = flatten(_payload(window, found.start, found.end), ())
            scale = uint(fields.get(ids.TIMESTAMP_SCALE), scale) or scale
        elif found.id == ids.TRACKS and not tracks:
            tracks = read_tracks(_payload(window, found.start, found.end))
        position = found.end
    if not tracks:
        raise _no_tracks(is_cut or position >= size_bytes, size_bytes)
    return _Header(
        doc_type=doc_type,
        tracks=tracks,
        ns_per_tick=scale,
        body=size_bytes if body < 0 else body,
        segment_end=segment_end,
    )


def _no_tracks(is_cut: bool, size_bytes: int) -> MalformedContainerError | TruncatedContainerError:
    if is_cut:
        return TruncatedContainerError("the file ends before its Tracks element", offset=size_bytes)
    return MalformedContainerError("an element that cannot be passed, and no Tracks element behind it")


def _payload(window: Window, start: int, end: int) -> bytes:
    if end > window.size_bytes:
        raise TruncatedContainerError("a header element goes on behind the end of the file", offset=start)
    if end - start > _MAX_HEADER_BYTES:
        raise MalformedContainerError(f"a header element of {end - start} bytes", offset=start)
    return window.read_at(start, end - start)


def _late_findings(header: _Header, walk: Walk, size_bytes: int) -> tuple[Finding, ...]:
    """The segment promises more than there is, and no block told so already."""
    if header.segment_end <= size_bytes or any(finding.reason == Reason.TRUNCATED for finding in walk.findings):
        return ()
    message = f"the segment should end at byte {header.segment_end}, the file ends at {size_bytes}"
    return (Finding(reason=Reason.TRUNCATED, message=message, offset=size_bytes),)


def _info(header: _Header, video: Track, walk: Walk, facts: CodecFacts, last_duration: int) -> StreamInfo:
    width, height = facts.width or video.pixel_size[0], facts.height or video.pixel_size[1]
    columns, rows = video.crop
    sar = video.sar or (Fraction(*facts.sar) if facts.sar and all(facts.sar) else Fraction(1))
    # as FFmpeg does: PixelCrop is a matter of display, decoders give the whole picture
    shown = (round(max(width - columns, 1) * sar), max(height - rows, 1))
    get = video.fields.get
    return StreamInfo(
        container=header.doc_type,
        codec=video.codec or "",
        codec_tag=video.fourcc.decode("latin-1"),
        codec_config=video.codec_config,
        nal_length_size=facts.nal_length_size,
        stream_index=video.stream_index,
        track_id=video.number,
        width=width,
        height=height,
        coded_width=facts.coded_width or video.pixel_size[0],
        coded_height=facts.coded_height or video.pixel_size[1],
        display_width=shown[video.rotation % 180 == 90],
        display_height=shown[video.rotation % 180 != 90],
        sar=(sar.numerator, sar.denominator),
        rotation=video.rotation,
        profile=facts.profile,
        level=facts.level,
        pix_fmt=facts.pix_fmt,
        bit_depth=facts.bit_depth,
        chroma=facts.chroma,
        # FFmpeg writes "progressive" where the first frame is, though the stream may hold fields.
        interlaced=facts.interlaced or {1: True, 2: False}.get(uint(get(ids.FLAG_INTERLACED)), facts.interlaced),
        colour_matrix=facts.colour_matrix or MATRIX.get(uint(get(ids.MATRIX), 2)),
        colour_range=facts.colour_range or RANGE.get(uint(get(ids.RANGE)) - 1),
        colour_primaries=facts.colour_primaries or PRIMARIES.get(uint(get(ids.PRIMARIES), 2)),
        colour_transfer=facts.colour_transfer or TRANSFER.get(uint(get(ids.TRANSFER), 2)),
        time_base=Fraction(header.ns_per_tick, 1_000_000_000),
        last_duration_ticks=last_duration,
        header_fps=1e9 / video.default_duration_ns if video.default_duration_ns else facts.header_fps,
        reorder_depth=facts.reorder_depth,
        nvdec=facts.nvdec,
        has_audio=any(track.is_audio for track in header.tracks),
        audio_duration_seconds=_audio_seconds(walk, header.ns_per_tick),
        other_streams=tuple(_phrase(track) for track in header.tracks if track.is_video and track is not video),
    )


def _audio_seconds(walk: Walk, ns_per_tick: int) -> float | None:
    """From the first audio block to the start of the last."""
    return None if walk.audio_span is None else (walk.audio_span[1] - walk.audio_span[0]) * ns_per_tick / 1e9


def _phrase(track: Track) -> str:
    width, height = track.pixel_size
    return f"track {track.number}: {track.codec or track.codec_id} {width}x{height}"
