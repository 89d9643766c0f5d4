"""Edit lists (ISO/IEC 14496-12 8.6.6): which samples are shown, when, and which others those need.

The rules are those of FFmpeg's `mov_fix_index`, which players agree with: each segment starts at the covering key
sample, a frame is shown where its composition time lies within the segment, the first of them stands at the segment's
start, and the whole is moved so that the first frame comes at 0 or right after the leading empty edits. Differences,
by the specification: an empty edit in the middle shows nothing, a dwell (rate 0) one frame, and a segment's start is
where its first frame in presentation order stands (FFmpeg: in decode order, so that reordering leaves a hole).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vidprep.containers.isobmff.boxes import i32, u32
from vidprep.records import SampleFlag

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.containers.isobmff.boxes import Span
    from vidprep.containers.isobmff.tables import Notes, Samples
    from vidprep.timebase import IntArray

#: Rows that an edit list may make out of a table by repeating it.
MAX_REPEATED_ROWS = 1 << 20
#: Edits that are believed, and samples that are looked at for all of them.
MAX_EDITS = 4096
MAX_EDIT_WORK = 1 << 25
#: The end of a segment without a stated length.
_FOREVER = 1 << 62
#: Times beyond this are nowhere; sums of them must stay within int64.
_FAR = 1 << 60


#: denies_key(sample) -> whether the sample's own head says that decoding cannot start there.
DeniesKey = Callable[[int], bool]
#: Samples that are looked at for the key sample of one segment.
MAX_KEYS_TRIED = 4096

_KEY, _SHOWN, _DISPOSABLE = (np.uint8(flag) for flag in (SampleFlag.KEY, SampleFlag.SHOWN, SampleFlag.DISPOSABLE))


class Edit(NamedTuple):
    """One segment of the movie's timeline."""

    duration: int
    """ticks of the media's time base"""
    media_time: int
    """ticks of the media's time base; -1 = empty"""
    rate: int
    """16.16 fixed point"""


@dataclass(slots=True, kw_only=True)
class Rows:
    """Rows to be fed to a decoder: which samples, when, shown or not."""

    sample: IntArray | slice
    pts: IntArray
    flags: npt.NDArray[np.uint8]
    segment: IntArray | None = None
    """number of the segment of each row, where there are several"""


def read_edits(data: bytes, span: Span | None, movie_timescale: int, timescale: int, notes: Notes) -> list[Edit]:
    """The edit list box, durations converted to media ticks, rounded to the nearest."""
    if span is None or span[1] - span[0] < 8:
        return []
    start, end = span
    version, count = data[start], u32(data, start + 4)[0]
    if version == 0 and count == 1 and end - start >= 20 and movie_timescale:  # nearly all files
        record = [(u32(data, start + 8)[0], i32(data, start + 12)[0], u32(data, start + 16)[0])]
    else:
        dtype = np.dtype(">u8,>i8,>u4" if version == 1 else ">u4,>i4,>u4")
        held = (end - start - 8) // dtype.itemsize
        if count > held:
            notes.add(f"elst claims {count} entries and holds {held}", start)
        record = np.frombuffer(data, dtype, min(count, held), start + 8).tolist()
    if not record:
        return []
    if not movie_timescale:
        notes.add("the movie has no timescale: its edit list is ignored", start)
        return []
    half = movie_timescale // 2
    edits = [
        Edit(min((d * timescale + half) // movie_timescale, _FAR), max(-_FAR, min(t, _FAR)), r) for d, t, r in record
    ]
    if any(e.rate not in (0, 0x10000) for e in edits):
        notes.add("an edit has a rate other than 0 and 1: taken for 1", start)
    return edits


def time_offset(edits: list[Edit]) -> int:
    """What fragments' times are moved back by: start of the first segment, less a leading empty edit."""
    lead = edits[0].duration if edits and edits[0].media_time == -1 else 0
    rest = edits[1:] if lead or (edits and edits[0].media_time == -1) else edits
    start = rest[0].media_time if rest and rest[0].media_time >= 0 else 0
    return start - lead


def apply_edits(samples: Samples, edits: list[Edit], notes: Notes, denies_key: DeniesKey | None = None) -> Rows:
    """Rows of the whole presentation, segment after segment.

    A segment from the middle of the media relies upon the sync table for where its decoding starts: `denies_key`, if
    it is given, is asked about that sample.
    """
    pts = samples.pts
    flags = _flags(samples)
    if not edits or len(samples) == 0:
        return Rows(sample=slice(None), pts=pts, flags=flags | _SHOWN)
    if len(edits) == 1 and (earliest := _start_of_all(pts, edits[0])) is not None:
        if earliest:
            pts = np.subtract(pts, earliest, out=None if pts is samples.dts else pts)
        return Rows(sample=slice(None), pts=pts, flags=flags | _SHOWN)
    cuts, lead = _segments(samples, pts, edits, notes, denies_key)
    if not cuts:
        empty = np.zeros(0, np.int64)
        return Rows(sample=empty, pts=empty, flags=flags[:0])
    shift = max(cuts[0].start - lead, 0)  # edits before it that show nothing take no time
    if len(cuts) == 1 and cuts[0].inside is None:
        cut = cuts[0]
        return Rows(
            sample=slice(cut.first, None if cut.stop == len(samples) else cut.stop),
            pts=np.subtract(cut.pts, shift, out=None if cut.pts is samples.dts else cut.pts) if shift else cut.pts,
            flags=flags[cut.first : cut.stop] | _SHOWN,
        )
    return Rows(
        sample=np.concatenate([np.arange(c.first, c.stop) for c in cuts]),
        pts=np.concatenate([c.pts for c in cuts]) - shift,
        flags=np.concatenate([flags[c.first : c.stop] | _shown(c) for c in cuts]),
        segment=np.repeat(np.arange(len(cuts)), [c.stop - c.first for c in cuts]) if len(cuts) > 1 else None,
    )


def _start_of_all(pts: IntArray, edit: Edit) -> int | None:
    """The least composition time, where the only edit shows every sample; None if it does not."""
    begin, end = edit.media_time, edit.media_time + (edit.duration or _FOREVER)
    earliest: int = pts.item(pts.argmin())
    if edit.rate and 0 <= begin <= earliest and pts.item(pts.argmax()) < end:
        return earliest
    return None


class _Cut(NamedTuple):
    """Samples first..stop that one segment is made of."""

    first: int
    stop: int
    pts: IntArray
    inside: npt.NDArray[np.bool_] | None
    """which are shown; None = all"""
    start: int
    """least pts of those shown"""


def _shown(cut: _Cut) -> npt.NDArray[np.uint8] | np.uint8:
    return _SHOWN if cut.inside is None else cut.inside * _SHOWN


def _flags(samples: Samples) -> npt.NDArray[np.uint8]:
    flags = np.full(len(samples), _KEY, np.uint8) if samples.key is None else samples.key.view(np.uint8)
    if samples.disposable is not None:
        flags = flags | samples.disposable * _DISPOSABLE
    return flags


def _segments(
    samples: Samples, pts: IntArray, edits: list[Edit], notes: Notes, denies_key: DeniesKey | None
) -> tuple[list[_Cut], int]:
    """The non-empty segments, and the length of the empty edits before them."""
    cuts: list[_Cut] = []
    clock = lead = 0
    room = max(MAX_REPEATED_ROWS, len(samples))
    most = min(MAX_EDITS, max(64, MAX_EDIT_WORK // len(samples)))
    for number, edit in enumerate(edits):
        start, clock = clock, min(clock + edit.duration, _FAR)
        if edit.media_time == -1:
            lead += edit.duration if not cuts else 0
            continue
        endless = edit.duration == 0 and number == len(edits) - 1 and not cuts
        end = _FOREVER if endless else edit.media_time + edit.duration
        cut = _cut(samples, pts, edit, start, end, denies_key)
        if cut is None:
            continue
        if cut.stop - cut.first > room or number >= most:
            notes.add(f"an edit list of {len(edits)} entries is beyond what is believed: cut off after {number}")
            break
        room -= cut.stop - cut.first
        cuts.append(cut)
    return cuts, lead


def _cut(
    samples: Samples, pts: IntArray, edit: Edit, start: int, end: int, denies_key: DeniesKey | None
) -> _Cut | None:
    """The samples of one segment that begins at `start` of the presentation; None if it shows nothing."""
    begin = edit.media_time
    if edit.rate == 0:
        return _dwell(samples, pts, begin, start, denies_key)
    earliest = pts.item(pts.argmin())
    if earliest >= begin and pts.item(pts.argmax()) < end:
        return _Cut(0, len(pts), pts + (start - earliest) if start != earliest else pts, None, start)
    first = _covering_key(samples, pts, begin, denies_key)
    inside = (pts[first:] >= begin) & (pts[first:] < end)
    shown = inside.nonzero()[0]
    if len(shown) == 0:
        return None
    stop = first + int(shown[-1]) + 1
    inside = inside[: stop - first]
    moved = pts[first:stop] + (start - int(pts[first:stop][inside].min()))
    return _Cut(first, stop, moved, None if inside.all() else inside, start)


def _covering_key(samples: Samples, pts: IntArray, begin: int, denies_key: DeniesKey | None) -> int:
    """The last key sample that is decoded and shown no later than `begin`; 0 if there is none."""
    early = (samples.dts <= begin) & (pts <= begin)
    if samples.key is not None:
        early &= samples.key
    rows = early.nonzero()[0]
    if denies_key is None:
        return int(rows[-1]) if len(rows) else 0
    last = rows[: -MAX_KEYS_TRIED - 1 : -1].tolist()
    return next((row for row in last if row == 0 or not denies_key(row)), 0)


def _dwell(samples: Samples, pts: IntArray, begin: int, start: int, denies_key: DeniesKey | None) -> _Cut | None:
    """The one frame that is on screen at `begin`."""
    before = np.flatnonzero(pts <= begin)
    if len(before) == 0:
        return None
    row = int(before[np.argmax(pts[before])])
    first = min(_covering_key(samples, pts, begin, denies_key), row)
    inside = np.zeros(row + 1 - first, np.bool_)
    inside[-1] = True
    return _Cut(first, row + 1, pts[first : row + 1] + (start - int(pts[row])), inside, start)
