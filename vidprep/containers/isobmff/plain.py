"""The plain movie in one pass: one film with one set-up, shown as a whole, every sample of it in the file.

Nearly every muxer writes this and nothing else, and to read it as any movie is read takes twice as long, most of it to
find that nothing is unusual. What is not plain is left to the general reader, which gives the same for what is.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TYPE_CHECKING

from vidprep.containers.isobmff.boxes import INDEX_BYTES, u32, u64
from vidprep.containers.isobmff.entries import read_entries
from vidprep.containers.isobmff.facts import common_info
from vidprep.containers.isobmff.plain_samples import FOREVER, NotPlain, Tables, sample_table
from vidprep.containers.isobmff.tracks import SAME_FILE, placed, read_matrix
from vidprep.records import ParsedVideo
from vidprep.timebase import altered, unchecked

if TYPE_CHECKING:
    from vidprep.records import ReadAt, StreamInfo

#: A larger movie box takes so long to convert that the pass saves nothing.
MAX_PLAIN_BYTES = 1 << 18
#: Bytes of a sample description that is worth remembering.
MAX_SETUP_BYTES = 1 << 12

#: What may stand in each box and does not change what the film is.
_IN_TRACK = frozenset({b"tkhd", b"edts", b"mdia", b"udta", b"meta", b"tapt", b"load", b"free", b"uuid", b"tref"})
_IN_MEDIA = frozenset({b"mdhd", b"hdlr", b"minf", b"elng", b"free"})
_IN_INFORMATION = frozenset({b"vmhd", b"hdlr", b"dinf", b"stbl", b"free"})


# Boxes of version 0 with their headers: size, type, version and flags, then the fields that matter.
_header = Struct(">I4s").unpack_from
_mvhd = Struct(">I4sI8xI").unpack_from
_tkhd = Struct(">I4sI8xI").unpack_from
_mdhd = Struct(">I4sI8xII").unpack_from
_hdlr = Struct(">I4s8x4s").unpack_from
_edts = Struct(">I4sI4sIIIiI").unpack_from
_VERSION_1 = 1 << 24

#: First bytes of boxes, headers included, by type.
_Places = dict[bytes, int]


#: Handler, id, place of the matrix (width and height behind it), place of minf, timescale, duration, and its only edit:
#: duration, media time and rate, as stored.
_Track = tuple[bytes, int, int, int, int, int, tuple[int, int, int] | None]


def read_plain(read_at: ReadAt, size_bytes: int, head: bytes) -> ParsedVideo | None:
    """The film of a file with a plain movie; None if it is anything else. Arguments as of `parse`."""
    try:
        return _read(*_find_movie(read_at, size_bytes, head), size_bytes)
    except (NotPlain, KeyError, IndexError, StructError):  # the latter: a box is not there, or too short
        return None


def _find_movie(read_at: ReadAt, size_bytes: int, head: bytes) -> tuple[bytes, int, int, bytes]:
    """The buffer that holds the movie box, its body's first byte, the byte after its last; and the file's brand."""
    data, brand, at, position = head, b"", 0, 0
    for _ in range(_MAX_TOP_BOXES):
        size, kind = _header(data, at)
        if kind == b"moov":
            if not 8 <= size <= MAX_PLAIN_BYTES:
                raise NotPlain
            if at + size > len(data):
                data, at = read_at(position, size), 0
                if size > len(data):
                    raise NotPlain
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
            if position + 16 > size_bytes:
                break
            data, at = read_at(position, INDEX_BYTES), 0
    raise NotPlain


def _long_size(data: bytes, at: int, size: int) -> int:
    """The size of a box that states it in 64 bits."""
    size = u64(data, at + 8)[0] if size == 1 else 0
    if size < 16:
        raise NotPlain
    return size


#: What may come before the movie box; and how many boxes.
_PASSED_OVER = frozenset({b"mdat", b"free", b"skip", b"wide"})
_MAX_TOP_BOXES = 16


def _read(data: bytes, start: int, end: int, brand: bytes, size_bytes: int) -> ParsedVideo:
    header, number, film, audio = _movie(data, start, end)
    _, track_id, picture, information, timescale, _, edit = film
    size, _, version, movie_timescale = _mvhd(data, header)
    if size != 108 or version >= _VERSION_1 or not timescale:
        raise NotPlain
    tables = Tables(data, *_sample_boxes(data, information))
    setup = data[tables.setup : tables.start]
    if len(setup) > MAX_SETUP_BYTES:
        raise NotPlain
    matrix = data[header + 44 : header + 80]
    common = _common(setup, data[picture : picture + 44], matrix, brand[:3], timescale)
    if common is None:
        raise NotPlain
    segment = _segment(edit, timescale, movie_timescale) if edit else None
    table, last_duration = sample_table(tables, segment, size_bytes)
    info = altered(
        common,
        stream_index=number,
        track_id=track_id,
        last_duration_ticks=last_duration,
        header_num_frames=len(table.size),
        has_audio=audio is not None,
        audio_duration_seconds=_seconds(audio) if audio else None,
    )
    return unchecked(ParsedVideo, info=info, table=table, method="header")


def _movie(data: bytes, at: int, end: int) -> tuple[int, int, _Track, _Track | None]:
    """Where the movie's header is, number of the only video track, that track, and the first sound."""
    film = audio = None
    header = index = number = 0
    last = end - 8
    while at <= last:
        size, kind = _header(data, at)
        if size < 8:
            raise NotPlain
        if kind == b"trak":
            track = _usual_track(data, at + 8, at + size) or _track(data, at + 8, at + size)
            handler = track[0]
            if handler == b"soun":
                audio = audio or track
            elif handler == b"vide" and film is None:
                film, number = track, index
            elif handler in _VIDEO:
                raise NotPlain
            index += 1
        elif kind == b"mvhd" and not header:
            header = at
        elif kind in _NOT_IN_MOVIE or (kind == b"udta" and data.find(b"covr", at, at + size) >= 0):
            raise NotPlain
        at += size
    if at != end or not header or film is None:
        raise NotPlain
    return header, number, film, audio


_NOT_IN_MOVIE = frozenset({b"mvhd", b"mvex", b"cmov"})


def _boxes(data: bytes, at: int, end: int, known: frozenset[bytes]) -> _Places:
    """The boxes of data[at:end], which they fill, each of a known type that comes once."""
    found: _Places = {}
    last = end - 8
    while at <= last:
        size, kind = _header(data, at)
        if size < 8 or kind in found:
            raise NotPlain
        found[kind] = at
        at += size
    if at != end or not found.keys() <= known:
        raise NotPlain
    return found


def _usual_track(data: bytes, start: int, end: int) -> _Track | None:
    """A track whose boxes stand in the usual order and are of the usual sizes, so that one look tells all; or None."""
    (
        tkhd, track_id, edts, duration, media_time, rate, mdia_size, mdia, mdhd, timescale, media_duration,
        named, hdlr, handler,
    ) = _usual(data, start)  # fmt: skip
    information = start + _USUAL_BYTES + named
    if (tkhd, edts, mdia, mdhd, hdlr) != _USUAL or start + _BEFORE_MEDIA_BYTES + mdia_size != end or named < 20:
        return None
    if handler != b"soun":  # of which nothing else is read
        size, kind = _header(data, information)
        if kind != b"minf" or information + size != end:
            return None
    return handler, track_id, start + 48, information, timescale, media_duration, (duration, media_time, rate)


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
        raise NotPlain
    media = _boxes(data, at + 8, at + u32(data, at)[0], _IN_MEDIA)
    header_size, _, header_version, track_id = _tkhd(data, header)
    size, _, version, timescale, duration = _mdhd(data, media[b"mdhd"])
    named, _, handler = _hdlr(data, media[b"hdlr"])
    if (header_size, size) != (92, 32) or version >= _VERSION_1 or header_version >= _VERSION_1 or named < 20:
        raise NotPlain
    edit = _edit(data, boxes[b"edts"]) if handler == b"vide" and b"edts" in boxes else None
    return handler, track_id, header + 48, media[b"minf"], timescale, duration, edit


def _edit(data: bytes, at: int) -> tuple[int, int, int]:
    """The only edit of a list."""
    size, _, list_size, kind, version, count, *edit = _edts(data, at)
    if (size, list_size, kind, count) != (36, 28, b"elst", 1) or version >= _VERSION_1:
        raise NotPlain
    return tuple(edit)


_VIDEO = frozenset({b"vide", b"pict"})


def _seconds(audio: _Track) -> float | None:
    timescale, duration = audio[4:6]
    return duration / timescale if timescale and duration and duration != 0xFFFFFFFF else None


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
        raise NotPlain
    return at, at + u32(data, at)[0]


#: vmhd and dinf as nearly all have them.
_USUAL_INFORMATION = b"\0\0\0\x14vmhd\0\0\0\1" + bytes(8) + b"\0\0\0\x24dinf" + SAME_FILE


@lru_cache(maxsize=512)
def _common(stsd: bytes, picture: bytes, matrix: bytes, brand: bytes, timescale: int) -> StreamInfo | None:
    """What files of one source have in common, from the bytes that say it; None if it is not plain."""
    entries = read_entries(stsd, (8, len(stsd)))
    if len(entries) != 1 or u32(stsd, 12)[0] != 1 or entries[0].encrypted or entries[0].codec is None:
        return None
    return common_info(entries[0], placed(picture, read_matrix(matrix)), brand, timescale)


def _segment(edit: tuple[int, int, int], timescale: int, movie_timescale: int) -> tuple[int, int]:
    """From where to where an edit goes, in ticks of the media."""
    duration, begin, rate = edit
    if rate != 1 << 16 or begin < 0 or not movie_timescale:
        raise NotPlain
    length = (duration * timescale + movie_timescale // 2) // movie_timescale
    return begin, begin + length if length else FOREVER
