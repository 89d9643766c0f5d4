"""The walk over a file's top level, also past damage.

Boxes follow each other by their sizes. Where one of them lies, the next certain box is looked for: at the places that
the file's own indexes name (sidx 8.16.3, mfra 8.8.9), which costs few reads, and between here and there by its bytes.
The indexes are used for nothing else: every moof must be read for its samples anyway, and the one after it is known
from the header of the mdat that the same read brings.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from vidprep.containers.isobmff.boxes import TopBox, children, top_boxes, u32, u64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.containers.isobmff.boxes import Window
    from vidprep.containers.isobmff.tables import Notes

#: Type of what `walk` gives where bytes were passed over: samples may be lost there.
HOLE = b""
#: What a film's top level holds. A box of another type may be payload that a wrong size led to.
_KNOWN = frozenset({
    b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"free", b"skip", b"wide", b"uuid", b"meta", b"sidx", b"ssix", b"prft",
    b"emsg", b"pdin", b"pnot", b"mfra", b"udta", b"PICT",
})  # fmt: skip
#: What a segment that an index names may start with.
_SEGMENT_STARTS = frozenset({b"moof", b"styp", b"sidx", b"prft", b"emsg", b"mdat"})
#: A movie or a fragment with its first child: payload does not look so by chance.
_LANDMARK = re.compile(
    rb"moov(?=....(?:mvhd|cmov|trak|udta|meta|iods|mvex))|moof(?=\0\0\0\x10mfhd|....traf)", re.DOTALL
)
_LANDMARK_BYTES = 12
#: How often damage is passed, and bytes that are searched for it in all.
MAX_HOLES = 64
MAX_SEARCH_BYTES = 64 << 20
_SEARCH_BYTES = 1 << 20
#: Index entries that are believed, and bytes of an index that is read.
_MAX_PLACES = 1 << 16
_MAX_INDEX_BYTES = 1 << 20


def walk(window: Window, notes: Notes) -> Iterator[TopBox]:
    """Boxes at the top level in file order, and a HOLE wherever bytes had to be passed over."""
    places: list[int] = []
    position, left, kinds = 0, MAX_SEARCH_BYTES, set[bytes]()
    for _ in range(MAX_HOLES):
        certain, last = position + 8 * bool(position), None  # what was found by its bytes may have no size either
        for box in top_boxes(window, position):
            if box.kind in _KNOWN:
                certain = box.start + 8
                kinds.add(box.kind)
                if box.kind == b"sidx":
                    places += _sidx_places(window, box, _MAX_PLACES - len(places))
            last = box
            yield box
        if (last is None and not position) or (last and _is_whole(last, window.size_bytes, kinds)):
            return
        indexed = _next_indexed(window, places or _mfra_places(window), certain)
        stop = min(certain + left, indexed or window.size_bytes)
        left -= max(stop - certain, 0)
        position = _next_landmark(window, certain, stop) or indexed
        if not position:
            return
        notes.add_at(f"no box can be here: {position - certain} bytes are passed over", certain)
        yield TopBox(HOLE, certain, certain, position, position)


def _is_whole(last: TopBox, size_bytes: int, kinds: set[bytes]) -> bool:
    """The walk ended where the file does, and has met a movie, or a media segment, which is never more."""
    ends_well = last.kind in _KNOWN and 0 <= size_bytes - last.claimed_end < 8
    return ends_well and (b"moov" in kinds or b"moof" in kinds)


def _next_landmark(window: Window, start: int, stop: int) -> int:
    """Start of the first movie or fragment box in start..stop, by its bytes; 0 if there is none."""
    while start < stop:
        data = window.get(start, min(_SEARCH_BYTES, stop - start) + _LANDMARK_BYTES)
        if found := _LANDMARK.search(data, 4):
            return start + found.start() - 4
        start += _SEARCH_BYTES
    return 0


def _next_indexed(window: Window, places: list[int], certain: int) -> int:
    """The first indexed place behind `certain` where a segment does start; 0 if there is none."""
    for place in sorted(places)[bisect_right(sorted(places), certain) :][:MAX_HOLES]:
        if window.get(place, 8)[4:] in _SEGMENT_STARTS:
            return place
    return 0


def _sidx_places(window: Window, box: TopBox, room: int) -> list[int]:
    """Where the subsegments of a segment index start (8.16.3.2)."""
    data = window.get(box.body, min(box.end - box.body, _MAX_INDEX_BYTES))
    wide = data[:1] == b"\1"
    first = 28 if wide else 20
    if len(data) < first + 4:
        return []
    place = box.end + (u64(data, 20)[0] if wide else u32(data, 16)[0])
    places = []
    for at in range(first + 4, len(data) - 11, 12)[:room]:
        places.append(place)
        place += u32(data, at)[0] & 0x7FFFFFFF
    return [place for place in places if place < window.size_bytes]


def _mfra_places(window: Window) -> list[int]:
    """Where the fragments start that the random access boxes at the file's end name (8.8.10, 8.8.11)."""
    tail = window.get(max(window.size_bytes - 16, 0), 16)
    size = u32(tail, 12)[0] if len(tail) == 16 and tail[4:8] == b"mfro" else 0
    if not 16 <= size <= min(_MAX_INDEX_BYTES, window.size_bytes):
        return []
    data = window.get(window.size_bytes - size, size)
    places: set[int] = set()
    for start, end in children(data, 8, len(data)).get(b"tfra", ()):
        if end - start < 16:
            continue
        wide, lengths = data[start] == 1, u32(data, start + 8)[0]
        times = 16 if wide else 8
        entry = times + sum((lengths >> shift & 3) + 1 for shift in (0, 2, 4))
        for at in range(start + 16, end - entry + 1, entry):
            places.add(u64(data, at + 8)[0] if wide else u32(data, at + 4)[0])
    return [place for place in places if place < window.size_bytes]
