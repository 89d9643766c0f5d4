"""Check a sample table against the heads of its samples: true keys, hidden pictures, pictures nothing refers to."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.bitstream import (
    INTRA_ONLY,
    NAL_CODECS,
    READERS,
    head_bytes,
    is_understood,
    pair_fields,
    sample_facts,
)
from vidprep.containers.samplefacts import SampleFacts
from vidprep.errors import Reason
from vidprep.records import Finding, SampleFlag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vidprep.records import ParsedVideo, ReadAt, SampleTable, StreamInfo
    from vidprep.timebase import IntArray

#: Codecs with samples that refer to others, and that are understood here.
_PREDICTING = NAL_CODECS | READERS.keys()
#: One sync sample is the rule in a short clip; in an HEVC or VVC track of this length CRA pictures may be unlisted.
SINGLE_SYNC_SECONDS = 10

#: Among so many first samples there are single fields wherever there are any, mostly.
FIRST_ROWS = 16

#: Heads whose gap is not larger are read in one piece, of at most `MAX_READ_BYTES`.
MAX_GAP_BYTES = 16 << 10
MAX_READ_BYTES = 1 << 20

#: Most bytes of one sample that are read where its head did not tell.
MAX_SAMPLE_BYTES = 4 << 20

#: Most bytes that all those samples may have together.
MAX_WHOLE_BYTES = 32 << 20

#: How many times over rows may name the same bytes (edit lists that show a part again).
MAX_OVERLAP = 4


def doubts_of(parsed: ParsedVideo) -> tuple[str, ...]:
    """Reasons to doubt the key frames that a container's tables claim; empty for a healthy table.

    - all_sync: every sample is called a key frame, by a codec that predicts
    - no_sync: none is
    - first_not_sync: the first one is not
    - single_sync: only the first one, in a long HEVC or VVC track (CRA pictures need not be listed)
    - separate_fields: see `field_doubts`
    - duplicate_times: neighbours with one time, of a codec whose samples may hold no picture or one field
    - demuxer_keys: FFmpeg's key flags, which gradual recovery points have too
    - uneven_times: a gap far below the others, of a codec whose hidden frames may be samples (VP8, VP9)
    - encoder_unnamed: Dirac, of which a decoder must know the encoder from the first sample on
    """
    codec, pts = parsed.info.codec, parsed.table.pts
    if codec not in _PREDICTING or parsed.keys_verified or not len(pts):
        return ()
    doubts = _sync_doubts(parsed, codec)
    if parsed.method == "demux":
        doubts.append("demuxer_keys")
    if codec in NAL_CODECS:
        all_differ = parsed.timing.num_duplicates == 0 and len(pts) == len(parsed.table.frame_rows)
        if not all_differ and bool((pts[1:] == pts[:-1]).any()):
            doubts.append("duplicate_times")
    elif codec in ("vp8", "vp9") and _has_uneven_times(pts):
        doubts.append("uneven_times")
    elif codec == "dirac" and parsed.method != "demux":
        doubts.append("encoder_unnamed")
    return tuple(doubts)


def field_doubts(parsed: ParsedVideo, read_at: ReadAt, size_bytes: int) -> tuple[str, ...]:
    """separate_fields: of interlaced H.264, samples among the first that hold one field.

    Two of them are one frame, whatever their times. Remuxed broadcasts have them, in MP4 with a time for each.
    """
    if parsed.info.codec != "h264" or not parsed.info.interlaced or parsed.keys_verified or not len(parsed.table):
        return ()
    head = part_of(parsed.table, 0, FIRST_ROWS)
    facts = facts_of_rows(parsed.info, head, read_at, access=parsed.access, size_bytes=size_bytes)
    return ("separate_fields",) if any(fact.field is not None for fact in facts) else ()


def _sync_doubts(parsed: ParsedVideo, codec: str) -> list[str]:
    keys, rows = parsed.table.key_rows, len(parsed.table.pts)
    count = len(keys)
    if count == 0:
        return ["no_sync"]
    if keys.item(0) != 0:
        return ["first_not_sync"]
    if count == rows > 1:
        return ["all_sync"]
    if count == 1 and codec in ("hevc", "vvc"):
        pts = parsed.table.pts
        if float((pts.max() - pts.min()) * parsed.info.time_base) > SINGLE_SYNC_SECONDS:
            return ["single_sync"]
    return []


def _has_uneven_times(pts: IntArray) -> bool:
    gaps = np.diff(np.sort(pts))
    return len(gaps) > 0 and bool(gaps.min() * 2 < np.median(gaps))


def verify(parsed: ParsedVideo, read_at: ReadAt, *, doubts: tuple[str, ...] = (), size_bytes: int = 0) -> ParsedVideo:
    """The same video with KEY, SHOWN and DISPOSABLE as the samples' own heads say, and `keys_verified` set.

    Codecs that are not understood keep the container's claims and `keys_verified=False`.

    Args:
        parsed: what a container parser returned.
        read_at: the file.
        doubts: why, recorded in the result.
        size_bytes: length of the file; needed where the samples must be demuxed again (`access="demux"`).
    """
    if not is_understood(parsed.info.codec):
        return replace(parsed, doubts=parsed.doubts + doubts)
    facts = facts_of_rows(parsed.info, parsed.table, read_at, access=parsed.access, size_bytes=size_bytes)
    return apply_facts(replace(parsed, doubts=parsed.doubts + doubts), facts)


def facts_of_rows(
    info: StreamInfo, table: SampleTable, read_at: ReadAt, *, access: str, size_bytes: int
) -> list[SampleFacts]:
    """What the head of each row's bytes says of it.

    Args:
        info: the stream.
        table: its first rows, or all of them.
        read_at: the file.
        access: as ParsedVideo.access.
        size_bytes: length of the file.
    """
    if info.codec in INTRA_ONLY or not is_understood(info.codec):
        return [sample_facts(info, b"")] * len(table)
    if access == "demux":
        return _facts_by_demuxing(info, len(table), read_at, size_bytes)
    if not info.later_configs:
        return _facts_of_ranges(info, table, read_at)
    bounds = [0, *(min(row, len(table)) for row, _ in info.later_configs), len(table)]
    parts = [
        _facts_of_ranges(info.at_row(first), part_of(table, first, stop), read_at)
        for first, stop in pairwise(bounds)
        if first < stop
    ]
    return list(chain.from_iterable(parts))


def part_of(table: SampleTable, first: int, stop: int) -> SampleTable:
    """The rows from `first` on, up to `stop`."""
    rows = slice(first, stop)
    return replace(table, offset=table.offset[rows], size=table.size[rows], pts=table.pts[rows],
                   flags=table.flags[rows], order=None, crc32=None)  # fmt: skip


def _facts_by_demuxing(info: StreamInfo, count: int, read_at: ReadAt, size_bytes: int) -> list[SampleFacts]:
    """Facts of each row, from the packets of a second pass over the file; rows that it does not reach stay unknown."""
    from vidprep.containers import demux  # imports PyAV, which is slow to load

    packets = islice(demux.iter_packets(read_at, size_bytes), count)
    facts = [sample_facts(info, packet.data) for packet in packets]
    return facts + [SampleFacts()] * (count - len(facts))


def _facts_of_ranges(info: StreamInfo, table: SampleTable, read_at: ReadAt) -> list[SampleFacts]:
    """Facts of each row, from its head; from the whole sample where the head does not tell."""
    limit = head_bytes(info)
    facts = [SampleFacts()] * len(table)
    if _overlaps_too_much(table, limit):
        return facts
    left = MAX_WHOLE_BYTES
    for row, head in _read_heads(table, read_at, limit, info.nal_length_size):
        size = int(table.size[row])
        found = sample_facts(info, head, complete=size <= limit)
        if limit < size <= left and (found.key is None or found.shown is None):
            left -= min(size, MAX_SAMPLE_BYTES)
            found = sample_facts(info, read_at(int(table.offset[row]), min(size, MAX_SAMPLE_BYTES)))
        facts[row] = found
    return facts


def _overlaps_too_much(table: SampleTable, limit: int) -> bool:
    """Rows of a hostile table that point at the same bytes over and over: nothing of it is read."""
    span = int((table.offset + table.size).max() - table.offset.min())
    return int(np.minimum(table.size, limit).sum()) > MAX_OVERLAP * span + MAX_READ_BYTES


def _read_heads(table: SampleTable, read_at: ReadAt, limit: int, least: int) -> Iterator[tuple[int, bytes]]:
    """(row, first bytes) of every sample of more than `least` bytes, in file order."""
    order = np.argsort(table.offset, kind="stable")
    order = order[table.size[order] > least]
    starts = table.offset[order]
    ends = starts + np.minimum(table.size[order], limit)
    first = 0
    while first < len(order):
        stop, start = first + 1, int(starts[first])
        while (
            stop < len(order)
            and starts[stop] - ends[stop - 1] <= MAX_GAP_BYTES
            and ends[stop] - start <= MAX_READ_BYTES
        ):
            stop += 1
        data = read_at(start, int(ends[first:stop].max()) - start)
        for place in range(first, stop):
            yield int(order[place]), data[int(starts[place]) - start : int(ends[place]) - start]
        first = stop


def apply_facts(parsed: ParsedVideo, facts: Sequence[SampleFacts]) -> ParsedVideo:
    """The same video with its flags corrected by one SampleFacts a row; unchanged if none of them tells anything."""
    if not any(fact.key is not None for fact in facts):
        return parsed
    flags = parsed.table.flags.copy()
    _correct_disposable(flags, facts)
    warnings = _correct_keys(flags, facts)
    if parsed.method != "demux":  # there the decoder itself has told which rows give a frame
        _correct_shown(flags, facts)
        warnings += _hide_undecodable_start(flags, facts, parsed.table)
    table = replace(parsed.table, flags=flags, order=_shown_order(parsed.table.order, flags))
    return replace(parsed, table=table, keys_verified=True, warnings=parsed.warnings + tuple(warnings))


def _mask(values: Iterator[bool], count: int) -> np.ndarray:
    return np.fromiter(values, bool, count)


def _set(flags: np.ndarray, flag: SampleFlag, mask: np.ndarray) -> None:
    flags[mask] |= np.uint8(flag)


def _clear(flags: np.ndarray, flag: SampleFlag, mask: np.ndarray) -> None:
    flags[mask] &= np.uint8(~flag & 0xFF)


def _correct_shown(flags: np.ndarray, facts: Sequence[SampleFacts]) -> None:
    """Rows without a picture of their own, hidden pictures and second fields are not frames.

    Nor are those that need the pictures before a broken link (RASL of a BLA picture: ITU-T H.265, 8.3.1). A placeholder
    after a packed sample stands for the packed B-picture.
    """
    hidden = np.zeros(len(facts), bool)
    owed, is_broken = 0, False
    first = SampleFacts()
    for row, fact in enumerate(facts):
        is_second = pair_fields(first, fact)
        is_broken = fact.broken_link if fact.key else is_broken
        hidden[row] = fact.shown is False or is_second or (is_broken and fact.needs_gop_before is True)
        owed += max((fact.num_pictures or 0) - 1, 0)
        if hidden[row] and fact.has_picture is False and owed:
            hidden[row], owed = False, owed - 1
        if fact.has_picture is not False:
            first = SampleFacts() if is_second else fact
    _clear(flags, SampleFlag.SHOWN, hidden)


def _correct_disposable(flags: np.ndarray, facts: Sequence[SampleFacts]) -> None:
    _set(flags, SampleFlag.DISPOSABLE, _mask((fact.disposable is True for fact in facts), len(facts)))
    _clear(flags, SampleFlag.DISPOSABLE, _mask((fact.disposable is False for fact in facts), len(facts)))


def _correct_keys(flags: np.ndarray, facts: Sequence[SampleFacts]) -> list[Finding]:
    """True keys only; where there is none, the row that a decoder starts from all the same."""
    keys = _mask((fact.key is True for fact in facts), len(facts))
    warnings = []
    if not keys.any():
        start = next((row for row, fact in enumerate(facts) if fact.recovery_frames is not None), 0)
        keys[start] = True
        warnings.append(
            Finding(
                reason=Reason.CORRUPT_TABLE,
                message=f"no sample is a true key frame; row {start} is taken as the start and may not be exact",
            )
        )
    _clear(flags, SampleFlag.KEY, ~keys)
    _set(flags, SampleFlag.KEY, keys)
    return warnings


def _hide_undecodable_start(flags: np.ndarray, facts: Sequence[SampleFacts], table: SampleTable) -> list[Finding]:
    """Frames that need pictures from before the first key are not frames that a decoder can deliver."""
    keys = np.flatnonzero(flags & SampleFlag.KEY)
    first = int(keys[0])
    lost = np.zeros(len(facts), bool)
    lost[:first] = True
    stop = int(keys[1]) if len(keys) > 1 else len(facts)
    for row in range(first + 1, stop):
        lost[row] = _needs_pictures_before(facts, first, row, table.pts)
    lost &= (flags & SampleFlag.SHOWN) > 0
    if not lost.any():
        return []
    _clear(flags, SampleFlag.SHOWN, lost)
    count = int(lost.sum())
    return [
        Finding(
            reason=Reason.TRUNCATED,
            message=f"{count} frames at the start need pictures that are not in the file; they are left out",
            offset=int(table.offset[np.flatnonzero(lost)[0]]),
        )
    ]


def _needs_pictures_before(facts: Sequence[SampleFacts], key: int, row: int, pts: IntArray) -> bool:
    """A leading picture of the first key: shown before it, decoded after it."""
    fact = facts[row]
    if fact.needs_gop_before is not None:
        return fact.needs_gop_before
    is_leading = fact.picture_type == "B" and bool(pts[row] < pts[key])
    return is_leading and not facts[key].closed_gop


def _shown_order(order: IntArray | None, flags: np.ndarray) -> IntArray | None:
    return None if order is None else order[(flags[order] & SampleFlag.SHOWN) > 0]
