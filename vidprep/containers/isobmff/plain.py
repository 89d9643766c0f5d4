"""The plain movie in one pass: one film with one set-up, shown as a whole, every sample of it in the file.

Nearly every muxer writes this and nothing else, and to read it as any movie is read takes twice as long, most of it to
find that nothing is unusual. What is not plain is left to the general reader, which gives the same for what is.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vidprep.containers.isobmff.boxes import u32, u64
from vidprep.containers.isobmff.entries import read_entries
from vidprep.containers.isobmff.facts import common_info
from vidprep.containers.isobmff.tables import (
    IMPLAUSIBLE_STEP,
    MAX_COMPOSITION_OFFSET,
    expand_runs,
    within_chunks,
)
from vidprep.containers.isobmff.tracks import SAME_FILE, placed, read_matrix
from vidprep.records import ParsedVideo, SampleFlag, SampleTable
from vidprep.timebase import altered, presentation_order, unchecked

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.containers.isobmff.boxes import Window
    from vidprep.records import StreamInfo
    from vidprep.timebase import IntArray

#: A larger movie box takes so long to convert that the pass saves nothing.
MAX_PLAIN_BYTES = 1 << 18
#: Up to this many runs of chunks are placed one by one, and this many keys marked.
_FEW_RUNS, _FEW_KEYS = 8, 16
#: So many numbers, for which numpy takes longer.
_FEW = [Struct(f">{count}I").unpack_from for count in range(3 * _FEW_RUNS + 1)]
#: Bytes of a sample description that is worth remembering.
MAX_SETUP_BYTES = 1 << 12

#: What may stand in each box and does not change what the film is.
_IN_TRACK = frozenset({b"tkhd", b"edts", b"mdia", b"udta", b"meta", b"tapt", b"load", b"free", b"uuid", b"tref"})
_IN_MEDIA = frozenset({b"mdhd", b"hdlr", b"minf", b"elng", b"free"})
_IN_INFORMATION = frozenset({b"vmhd", b"hdlr", b"dinf", b"stbl", b"free"})
_IN_TABLES = frozenset(
    {b"stsd", b"stts", b"ctts", b"cslg", b"stss", b"stsc", b"stsz", b"stco", b"co64", b"sdtp", b"sgpd", b"free"}
)

# Boxes of version 0 with their headers: size, type, version and flags, then the fields that matter.
_header = Struct(">I4s").unpack_from
_mvhd = Struct(">I4sI8xI").unpack_from
_tkhd = Struct(">I4sI8xI").unpack_from
_mdhd = Struct(">I4sI8xII").unpack_from
_hdlr = Struct(">I4s8x4s").unpack_from
_counted = Struct(">I4s4xI").unpack_from
_edts = Struct(">I4sI4sIIIiI").unpack_from
_VERSION_1 = 1 << 24

_U32, _U64, _UINT8, _INT64 = np.dtype(">u4"), np.dtype(">u8"), np.dtype(np.uint8), np.dtype(np.int64)
_SHOWN, _KEY_SHOWN = int(SampleFlag.SHOWN), int(SampleFlag.KEY | SampleFlag.SHOWN)
_SHOWN_BYTE = bytearray([_SHOWN])
_DISPOSABLE = np.uint8(SampleFlag.DISPOSABLE)
#: Bits of sdtp (8.6.4) that tell whether others depend on a sample, and their value where none does.
_DEPENDED_ON, _NOT_DEPENDED_ON = np.uint8(0x0C), np.uint8(0x08)

#: First bytes of boxes, headers included, by type.
_Places = dict[bytes, int]


class _NotPlain(Exception):  # noqa: N818 - no error: it never leaves this module
    """Something is not as a plain movie has it."""


class _Track(NamedTuple):
    handler: bytes
    track_id: int
    picture: int
    """where the matrix, width and height are"""
    information: int
    """where minf is"""
    timescale: int
    duration: int
    edit: tuple[int, int, int] | None
    """duration, media time and rate, as stored"""


def read_plain(window: Window) -> ParsedVideo | None:
    """The film of a file with a plain movie; None if it is anything else."""
    try:
        return _read(*_find_movie(window), window.size_bytes)
    except (_NotPlain, KeyError, IndexError, StructError):  # the latter: a box is not there, or too short
        return None


def _find_movie(window: Window) -> tuple[bytes, int, int, bytes]:
    """The buffer that holds the movie box, its body's first byte, the byte after its last; and the file's brand."""
    brand, position = b"", 0
    data, at = window.view(0, 16)
    for _ in range(_MAX_TOP_BOXES):
        size, kind = _header(data, at)
        if kind == b"moov":
            if not 8 <= size <= MAX_PLAIN_BYTES:
                raise _NotPlain
            if at + size > len(data):
                data, at = window.exactly(position, size)
                if at + size > len(data):
                    raise _NotPlain
            return data, at + 8, at + size, brand
        if kind == b"ftyp":
            brand = data[at + 8 : at + 12]
        elif kind not in _PASSED_OVER:
            break
        if size < 8:
            size = _long_size(data, at, size)
        position += size
        at += size
        if at + 16 > len(data):
            if position + 16 > window.size_bytes:
                break
            data, at = window.view(position, 16)
    raise _NotPlain


def _long_size(data: bytes, at: int, size: int) -> int:
    """The size of a box that states it in 64 bits."""
    size = u64(data, at + 8)[0] if size == 1 else 0
    if size < 16:
        raise _NotPlain
    return size


#: What may come before the movie box; and how many boxes.
_PASSED_OVER = frozenset({b"mdat", b"free", b"skip", b"wide"})
_MAX_TOP_BOXES = 16


def _read(data: bytes, start: int, end: int, brand: bytes, size_bytes: int) -> ParsedVideo:
    header, places = _movie_boxes(data, start, end)
    number, film, audio = _choose(data, places)
    size, _, version, movie_timescale = _mvhd(data, header)
    if size != 108 or version >= _VERSION_1:
        raise _NotPlain
    tables = _Tables(data, film.information)
    common = _facts(data, header, film, tables, brand)
    edit = _segment(film.edit, film.timescale, movie_timescale) if film.edit else None
    table, last_duration = _sample_table(tables, edit, size_bytes)
    info = altered(
        common,
        stream_index=number,
        track_id=film.track_id,
        last_duration_ticks=last_duration,
        header_num_frames=len(table.size),
        has_audio=audio is not None,
        audio_duration_seconds=_seconds(audio) if audio else None,
    )
    return unchecked(ParsedVideo, info=info, table=table, method="header")


def _movie_boxes(data: bytes, at: int, end: int) -> tuple[int, list[tuple[int, int]]]:
    """Where the movie's header is, and the bodies of its tracks."""
    header, tracks, last = 0, [], end - 8
    while at <= last:
        size, kind = _header(data, at)
        if size < 8:
            raise _NotPlain
        if kind == b"trak":
            tracks.append((at + 8, at + size))
        elif kind == b"mvhd" and not header:
            header = at
        elif kind in _NOT_IN_MOVIE or (kind == b"udta" and data.find(b"covr", at, at + size) >= 0):
            raise _NotPlain
        at += size
    if at != end or not header:
        raise _NotPlain
    return header, tracks


_NOT_IN_MOVIE = frozenset({b"mvhd", b"mvex", b"cmov"})


def _boxes(data: bytes, at: int, end: int, known: frozenset[bytes]) -> _Places:
    """The boxes of data[at:end], which they fill, each of a known type that comes once."""
    found: _Places = {}
    last = end - 8
    while at <= last:
        size, kind = _header(data, at)
        if size < 8 or kind in found:
            raise _NotPlain
        found[kind] = at
        at += size
    if at != end or not found.keys() <= known:
        raise _NotPlain
    return found


def _choose(data: bytes, places: list[tuple[int, int]]) -> tuple[int, _Track, _Track | None]:
    """Number of the only video track, that track, and the first sound."""
    film = audio = None
    number = 0
    for index, (start, end) in enumerate(places):
        track = _usual_track(data, start, end) or _track(data, start, end)
        if track.handler == b"soun":
            audio = audio or track
        elif track.handler == b"vide" and film is None:
            film, number = track, index
        elif track.handler in _VIDEO:
            raise _NotPlain
    if film is None:
        raise _NotPlain
    return number, film, audio


def _usual_track(data: bytes, start: int, end: int) -> _Track | None:
    """A track whose boxes stand in the usual order and are of the usual sizes, so that one look tells all; or None."""
    (
        tkhd, track_id, edts, duration, media_time, rate, mdia_size, mdia, mdhd, timescale, media_duration,
        named, hdlr, handler,
    ) = _usual(data, start)  # fmt: skip
    information = start + _USUAL_BYTES + named
    if (tkhd, edts, mdia, mdhd, hdlr) != _USUAL or start + _BEFORE_MEDIA_BYTES + mdia_size != end or named < 20:
        return None
    size, kind = _header(data, information)
    if kind != b"minf" or information + size != end:
        return None
    edit = duration, media_time, rate
    return _Track(handler, track_id, start + 48, information, timescale, media_duration, edit)


# tkhd, edts with an elst of one entry, mdia, mdhd and hdlr, the constant parts of each in one piece
_usual = Struct(">9s11xI68x 24sIiI I4s 9s11xII4x I4s8x4s").unpack_from
_USUAL = (
    b"\0\0\0\x5ctkhd\0", b"\0\0\0\x24edts\0\0\0\x1celst\0\0\0\0\0\0\0\1", b"mdia", b"\0\0\0\x20mdhd\0", b"hdlr",
)  # fmt: skip
_BEFORE_MEDIA_BYTES = 92 + 36
_USUAL_BYTES = _BEFORE_MEDIA_BYTES + 8 + 32


def _track(data: bytes, start: int, end: int) -> _Track:
    """A track of whatever order."""
    boxes = _boxes(data, start, end, _IN_TRACK)
    at, header = boxes[b"mdia"], boxes[b"tkhd"]
    if b"tref" in boxes and data.find(b"chap", boxes[b"tref"], end) >= 0:  # tells of pictures that are no film
        raise _NotPlain
    media = _boxes(data, at + 8, at + u32(data, at)[0], _IN_MEDIA)
    header_size, _, header_version, track_id = _tkhd(data, header)
    size, _, version, timescale, duration = _mdhd(data, media[b"mdhd"])
    named, _, handler = _hdlr(data, media[b"hdlr"])
    if (header_size, size) != (92, 32) or version >= _VERSION_1 or header_version >= _VERSION_1 or named < 20:
        raise _NotPlain
    edit = _edit(data, boxes[b"edts"]) if handler == b"vide" and b"edts" in boxes else None
    return _Track(handler, track_id, header + 48, media[b"minf"], timescale, duration, edit)


def _edit(data: bytes, at: int) -> tuple[int, int, int]:
    """The only edit of a list."""
    size, _, list_size, kind, version, count, *edit = _edts(data, at)
    if (size, list_size, kind, count) != (36, 28, b"elst", 1) or version >= _VERSION_1:
        raise _NotPlain
    return tuple(edit)


_VIDEO = frozenset({b"vide", b"pict"})


def _seconds(audio: _Track) -> float | None:
    if not audio.timescale or not audio.duration or audio.duration == 0xFFFFFFFF:
        return None
    return audio.duration / audio.timescale


class _Tables:
    """The sample tables of one track; all their numbers converted in one go, as ten cost numpy what a thousand do."""

    __slots__ = "data", "places", "setup", "start", "words"

    def __init__(self, data: bytes, information: int) -> None:
        at, end = _sample_boxes(data, information)
        self.data = data
        self.places = _table_places(data, at + 8, end)
        self.setup, size, _ = self.places[b"stsd"]
        self.start = start = self.setup + size
        self.words = np.ndarray((end - start) >> 2, _U32, data, start).astype(_INT64)

    def records(self, kind: bytes, width: int) -> IntArray:
        """The numbers of a table with an entry count and records of `width` 32-bit numbers."""
        at, size, count = self.places[kind]
        return self._numbers(at + 16, at + size, count * width)

    def sizes(self) -> IntArray:
        """Bytes of each sample, all with some."""
        at, size, constant = self.places[b"stsz"]
        count = u32(self.data, at + 16)[0]
        sizes = self._numbers(at + 20, at + size, count)
        if constant or not count or not sizes.item(sizes.argmin()):
            raise _NotPlain
        return sizes

    def chunks(self) -> IntArray:
        """Where each chunk starts."""
        if b"co64" not in self.places:
            return self.records(b"stco", 1)
        at, size, count = self.places[b"co64"]
        if 8 * count + 16 > size:
            raise _NotPlain
        chunks = np.ndarray(count, _U64, self.data, at + 16).astype(_INT64)
        if count and not 0 <= chunks.item(chunks.argmin()) <= chunks.item(chunks.argmax()) < _FOREVER:
            raise _NotPlain
        return chunks

    def _numbers(self, first: int, end: int, count: int) -> IntArray:
        if first + 4 * count > end:
            raise _NotPlain
        at = first - self.start
        if at & 3 or at < 0:  # behind a box of odd size, or before the set-up
            return np.ndarray(count, _U32, self.data, first).astype(_INT64)
        at >>= 2
        return self.words[at : at + count]


def _sample_boxes(data: bytes, information: int) -> tuple[int, int]:
    """Where the box of the sample tables starts and ends."""
    at = information + 8
    end = information + u32(data, information)[0]
    if data.startswith(_USUAL_INFORMATION, at):
        at += len(_USUAL_INFORMATION)
        size, kind = _header(data, at)
        if kind == b"stbl" and at + size == end:
            return at, end
    boxes = _boxes(data, information + 8, end, _IN_INFORMATION)
    references, at = boxes[b"dinf"], boxes[b"stbl"]
    if data[references + 8 : references + u32(data, references)[0]] != SAME_FILE:
        raise _NotPlain
    return at, at + u32(data, at)[0]


#: vmhd and dinf as nearly all have them.
_USUAL_INFORMATION = b"\0\0\0\x14vmhd\0\0\0\1" + bytes(8) + b"\0\0\0\x24dinf" + SAME_FILE


def _table_places(data: bytes, at: int, end: int) -> dict[bytes, tuple[int, int, int]]:
    """As `_boxes`, with the size of each and what stands behind its version: nearly always the entry count."""
    found: dict[bytes, tuple[int, int, int]] = {}
    last = end - 16
    while at <= last:
        size, kind, count = _counted(data, at)
        if size < 16 or kind in found:
            raise _NotPlain
        found[kind] = at, size, count
        at += size
    if at != end or not found.keys() <= _IN_TABLES:
        raise _NotPlain
    return found


def _facts(data: bytes, header: int, film: _Track, tables: _Tables, brand: bytes) -> StreamInfo:
    """What the headers say of the film."""
    if not film.timescale or tables.start - tables.setup > MAX_SETUP_BYTES:
        raise _NotPlain
    at = film.picture
    setup, picture, matrix = data[tables.setup : tables.start], data[at : at + 44], data[header + 44 : header + 80]
    common = _common(setup, picture, matrix, brand[:3], film.timescale)
    if common is None:
        raise _NotPlain
    return common


@lru_cache(maxsize=512)
def _common(stsd: bytes, picture: bytes, matrix: bytes, brand: bytes, timescale: int) -> StreamInfo | None:
    """What files of one source have in common, from the bytes that say it; None if it is not plain."""
    entries = read_entries(stsd, (8, len(stsd)))
    if len(entries) != 1 or u32(stsd, 12)[0] != 1 or entries[0].encrypted or entries[0].codec is None:
        return None
    return common_info(entries[0], placed(picture, read_matrix(matrix)), brand, timescale)


def _sample_table(tables: _Tables, edit: tuple[int, int] | None, size_bytes: int) -> tuple[SampleTable, int]:
    """The rows, and how long the last frame is shown."""
    sizes = tables.sizes()
    n = len(sizes)
    offset = _offsets(tables, sizes, size_bytes)
    begin, end = edit or (0, _FOREVER)
    pts, duration = _times(tables, n, begin)
    rows = presentation_order(pts)
    frame_pts = pts[rows]
    if frame_pts.item(-1) + begin > MAX_COMPOSITION_OFFSET and b"ctts" in tables.places:  # else no offset can be
        _demand_usual(tables.records(b"ctts", 2)[1::2])
    if edit and (earliest := frame_pts.item(0)):
        if earliest < 0:
            raise _NotPlain
        pts -= earliest
        frame_pts -= earliest
        end -= earliest
    if frame_pts.item(-1) >= end - begin:
        raise _NotPlain
    table = unchecked(
        SampleTable, offset=offset, size=sizes, pts=pts, flags=_flags(tables, n), frame_rows=rows, frame_pts=frame_pts
    )
    return table, duration if isinstance(duration, int) else duration.item(rows.item(-1))


def _offsets(tables: _Tables, sizes: IntArray, size_bytes: int) -> IntArray:
    """Where the samples lie, each of them whole within the file."""
    chunks = tables.chunks()
    at, size, count = tables.places[b"stsc"]
    if not count or not len(chunks) or 12 * count + 16 > size:
        raise _NotPlain
    if count <= _FEW_RUNS:
        offset = _place_few_runs(_FEW[3 * count](tables.data, at + 16), chunks, sizes)
    else:
        offset = _place_many_runs(tables.records(b"stsc", 3), chunks, sizes)
    ends = offset + sizes
    if ends.item(ends.argmax()) > size_bytes:
        raise _NotPlain
    return offset


def _place_few_runs(runs: tuple[int, ...], chunks: IntArray, sizes: IntArray) -> IntArray:
    """Offsets, one run of chunks with equally many samples after the other."""
    n, num_chunks = len(sizes), len(chunks)
    offset = np.empty(n, _INT64)
    first = done = 0
    if runs[0] != 1:
        raise _NotPlain
    for stop, count in zip((*runs[3::3], num_chunks + 1), runs[1::3], strict=True):
        last = stop - 1
        end = done + (last - first) * count
        if not first < last <= num_chunks or not done < end <= n:
            raise _NotPlain
        if count == 1:
            offset[done:end] = chunks[first:last]
        elif first == last - 1:
            _place_one_chunk(offset[done:end], chunks.item(first), sizes[done:end])
        else:
            block = offset[done:end].reshape(-1, count)
            block[:, 0] = chunks[first:last]
            block[:, 1:] = sizes[done:end].reshape(-1, count)[:, :-1]
            np.add.accumulate(block, 1, out=block)
        first, done = last, end
    if done != n:
        raise _NotPlain
    return offset


def _place_one_chunk(offset: IntArray, start: int, sizes: IntArray) -> None:
    offset[0] = start
    if len(offset) == 2:
        offset[1] = start + sizes.item(0)
    else:
        np.add(sizes[:-1].cumsum(), start, out=offset[1:])


def _place_many_runs(runs: IntArray, chunks: IntArray, sizes: IntArray) -> IntArray:
    per_chunk = expand_runs(runs[0::3], runs[1::3], len(chunks))
    last = np.add.accumulate(per_chunk)
    if last.item(-1) != len(sizes):
        raise _NotPlain
    return within_chunks(sizes, chunks, per_chunk, last)


def _times(tables: _Tables, n: int, begin: int) -> tuple[IntArray, IntArray | int]:
    """Composition times from `begin` on, and durations; a number for durations that are all the same."""
    at, size, count = tables.places[b"stts"]
    if count == 1 and size >= 24:
        count, step = _FEW[2](tables.data, at + 16)
        if count != n or step >= IMPLAUSIBLE_STEP:
            raise _NotPlain
        pts, duration = np.arange(-begin, n * step - begin, step) if step else np.full(n, -begin), step
    else:
        duration = _expanded(tables.records(b"stts", 2), n)
        if duration.item(duration.argmax()) >= IMPLAUSIBLE_STEP:
            raise _NotPlain
        pts = np.empty(n, _INT64)
        pts[0] = 0
        np.add.accumulate(duration[:-1], out=pts[1:])
        pts -= begin
    if b"ctts" in tables.places:
        pts += _expanded(tables.records(b"ctts", 2), n)
    return pts, duration


def _demand_usual(offsets: IntArray) -> None:
    """Composition offsets are read as unsigned: negative ones look large."""
    if offsets.item(offsets.argmax()) > MAX_COMPOSITION_OFFSET:
        raise _NotPlain


def _expanded(runs: IntArray, n: int) -> IntArray:
    """The value of each of n samples, from runs of (count, value)."""
    counts, values = runs[0::2], runs[1::2]
    num_runs = len(values)
    if num_runs == n and counts.item(counts.argmax()) == 1 == counts.item(counts.argmin()):
        return values
    if not num_runs or np.add.accumulate(counts).item(-1) != n:
        raise _NotPlain
    return values.repeat(counts)


def _segment(edit: tuple[int, int, int], timescale: int, movie_timescale: int) -> tuple[int, int]:
    """From where to where an edit goes, in ticks of the media."""
    duration, begin, rate = edit
    if rate != 1 << 16 or begin < 0 or not movie_timescale:
        raise _NotPlain
    length = (duration * timescale + movie_timescale // 2) // movie_timescale
    return begin, begin + length if length else _FOREVER


_FOREVER = 1 << 62


def _flags(tables: _Tables, n: int) -> npt.NDArray[np.uint8]:
    places = tables.places
    flags = _keys_shown(tables, n) if b"stss" in places else np.full(n, _KEY_SHOWN, _UINT8)
    if b"sdtp" in places and places[b"sdtp"][1] >= n + 12:
        dependencies = np.ndarray(n, _UINT8, tables.data, places[b"sdtp"][0] + 12)
        flags |= ((dependencies & _DEPENDED_ON) == _NOT_DEPENDED_ON) * _DISPOSABLE
    return flags


def _keys_shown(tables: _Tables, n: int) -> npt.NDArray[np.uint8]:
    """The flags of samples of which some are listed as keys."""
    at, size, count = tables.places[b"stss"]
    if 0 < count <= _FEW_KEYS and 4 * count + 16 <= size:
        listed = _FEW[count](tables.data, at + 16)
        few = _SHOWN_BYTE * (n + 1)  # samples are numbered from 1
        for key in listed:
            few[key] = _KEY_SHOWN
        if not listed[0]:
            raise _NotPlain
        return np.ndarray(n, _UINT8, few, 1)
    keys = tables.records(b"stss", 1)
    if not len(keys) or not keys.item(0):
        raise _NotPlain
    flags = np.empty(n + 1, _UINT8)
    flags.fill(_SHOWN)
    flags[keys] = _KEY_SHOWN
    return flags[1:]
