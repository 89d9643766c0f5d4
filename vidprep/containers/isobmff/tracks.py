"""The movie box: its tracks, which of them is the film, and what the headers say of it."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from dataclasses import dataclass
from math import atan2, degrees, hypot
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from vidprep.containers.isobmff.boxes import children, path, u32, u64
from vidprep.containers.isobmff.entries import read_entries
from vidprep.errors import MalformedContainerError, NotMediaError, Reason, UnsupportedContainerError

if TYPE_CHECKING:
    from vidprep.containers.isobmff.boxes import Boxes, Span
    from vidprep.containers.isobmff.entries import Entry

#: A compressed movie box may not grow beyond this.
MAX_INFLATED_BYTES = 32 << 20
#: Tracks of one movie that are looked at.
MAX_TRACKS = 4096
_VIDEO_HANDLERS = frozenset({b"vide", b"pict"})
#: Boxes of a track that are walked together with it, and of its media information.
_TRACK_PARTS = frozenset({b"edts", b"mdia"})
_MEDIA_PARTS = frozenset({b"stbl"})
_IDENTITY = (0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_matrix = Struct(">9i").unpack_from
_IDENTITY_BYTES = b"".join(value.to_bytes(4, "big") for value in _IDENTITY)
#: The body of nearly every dinf box: one data reference, and it says "this file".
SAME_FILE = bytes.fromhex("0000001c 64726566 00000000 00000001 0000000c 75726c20 00000001")
#: Well-known types of iTunes cover art (jpeg, png, bmp), each of which FFmpeg counts as a stream.
_COVER_TYPES = frozenset({13, 14, 27})

Matrix = tuple[int, ...]


class MediaHeader(NamedTuple):
    """mdhd, or the like of it in mvhd."""

    timescale: int
    duration: int | None
    """ticks; None = unknown"""


@dataclass(slots=True, kw_only=True)
class Track:
    """One trak box, as far as the choice needs it."""

    stream_index: int
    track_id: int
    handler: bytes
    boxes: Boxes
    """children of trak, edts and mdia"""
    minf: Boxes
    """children of minf and stbl; empty for tracks that are no video"""

    @property
    def is_video(self) -> bool:
        """A moving picture, by its handler."""
        return self.handler in _VIDEO_HANDLERS or (not self.handler and b"vmhd" in self.minf)


@dataclass(slots=True, kw_only=True)
class Movie:
    """The moov box."""

    data: bytes
    boxes: Boxes
    timescale: int
    matrix: Matrix
    tracks: list[Track]
    covers: int
    """attached pictures in the metadata"""


def read_movie(data: bytes, body: Span, base: int) -> Movie:
    """The movie's header and tracks. `base` is the file offset of `data`."""
    boxes = children(data, *body)
    if b"cmov" in boxes:
        data = _inflate(data, boxes[b"cmov"][0], base)
        boxes = path(data, (0, len(data)), b"moov")
    timescale, matrix = _movie_header(data, boxes)
    covers = _cover_places(data, boxes)
    tracks = [
        _read_track(data, span, index + bisect_left(covers, span[0]))
        for index, span in enumerate(boxes.get(b"trak", ())[:MAX_TRACKS])
    ]
    return Movie(data=data, boxes=boxes, timescale=timescale, matrix=matrix, tracks=tracks, covers=len(covers))


def _inflate(data: bytes, span: Span, base: int) -> bytes:
    """A compressed movie box (QuickTime cmov: dcom names the method, cmvd holds size and bytes)."""
    boxes = children(data, *span)
    start, end = boxes.get(b"cmvd", ((0, 0),))[0]
    method = boxes.get(b"dcom", ((0, 0),))[0]
    if data[method[0] : method[0] + 4] != b"zlib" or end - start < 4:
        raise UnsupportedContainerError("movie box compressed by another method than zlib", offset=base + span[0])
    try:
        return zlib.decompressobj().decompress(data[start + 4 : end], min(u32(data, start)[0], MAX_INFLATED_BYTES) or 1)
    except zlib.error as error:
        raise MalformedContainerError(f"compressed movie box: {error}", offset=base + start) from error


def _movie_header(data: bytes, boxes: Boxes) -> tuple[int, Matrix]:
    start, end = boxes.get(b"mvhd", ((0, 0),))[0]
    long = 12 if end > start and data[start] == 1 else 0
    if end - start < 20 + long:
        return 0, _IDENTITY
    timescale = u32(data, start + (20 if long else 12))[0]
    return timescale, read_matrix(data[start + 36 + long : min(start + 72 + long, end)])


def read_matrix(raw: bytes) -> Matrix:
    """The nine numbers of a display matrix from its 36 bytes; the identity where fewer are there."""
    if raw[:36] == _IDENTITY_BYTES or len(raw) < 36:
        return _IDENTITY
    return _matrix(raw)


def _cover_places(data: bytes, boxes: Boxes) -> list[int]:
    """Where the attached pictures of moov/udta/meta/ilst/covr lie in the buffer."""
    places: list[int] = []
    for udta in boxes.get(b"udta", ()):
        if data.find(b"covr", *udta) < 0:
            continue
        for start, end in children(data, *udta).get(b"meta", ()):
            full = 4 if data[start : start + 4] == b"\0\0\0\0" else 0
            for cover in path(data, (start + full, end), b"ilst").get(b"covr", ()):
                places += [
                    at for at, stop in children(data, *cover).get(b"data", ())
                    if stop - at > 8 and u32(data, at)[0] in _COVER_TYPES
                ]  # fmt: skip
    return sorted(places)


def _read_track(data: bytes, span: Span, stream_index: int) -> Track:
    boxes = children(data, *span, _TRACK_PARTS)
    header, end = boxes.get(b"tkhd", ((0, 0),))[0]
    at = header + (20 if end > header and data[header] == 1 else 12)
    named, stop = boxes.get(b"hdlr", ((0, 0),))[0]
    handler = data[named + 8 : named + 12] if stop - named >= 12 else b""
    is_video_or_unknown = handler in _VIDEO_HANDLERS or not handler
    return Track(
        stream_index=stream_index,
        track_id=u32(data, at)[0] if at + 4 <= end else 0,
        handler=handler,
        boxes=boxes,
        minf=children(data, *boxes[b"minf"][0], _MEDIA_PARTS) if is_video_or_unknown and b"minf" in boxes else {},
    )


def media_header(data: bytes, track: Track) -> MediaHeader:
    """Timescale and duration of the track's media."""
    start, end = track.boxes.get(b"mdhd", ((0, 0),))[0]
    if end - start >= 32 and data[start] == 1:
        duration = u64(data, start + 24)[0]
        return MediaHeader(u32(data, start + 20)[0], duration if duration < 1 << 62 else None)
    if end - start >= 20:
        duration = u32(data, start + 16)[0]
        return MediaHeader(u32(data, start + 12)[0], duration if duration != 0xFFFFFFFF else None)
    return MediaHeader(0, None)


def choose_track(movie: Movie) -> tuple[Track, list[Track]]:
    """The film, and the other video tracks.

    The first video track that has samples or may get them from fragments, as FFmpeg's first video stream; tracks
    that serve as pictures of chapters are attached pictures and not the film.
    """
    video = [track for track in movie.tracks if track.is_video]
    films = (
        [track for track in video if track.track_id not in _chapter_tracks(movie)] if len(movie.tracks) > 1 else video
    )
    if not films:
        what = "only attached pictures" if video or movie.covers else f"{len(movie.tracks)} tracks, none of them video"
        raise NotMediaError(f"no video stream: {what}", reason=Reason.NO_VIDEO_STREAM)
    film = films[0]
    if len(films) > 1 and b"mvex" not in movie.boxes:
        film = next((track for track in films if _has_samples(movie.data, track)), film)
    return film, [track for track in video if track is not film]


def _chapter_tracks(movie: Movie) -> set[int]:
    """Tracks that another track refers to as its chapters (tref/chap)."""
    found: set[int] = set()
    for track in movie.tracks:
        for tref in track.boxes.get(b"tref", ()):
            for start, end in children(movie.data, *tref).get(b"chap", ()):
                found.update(u32(movie.data, at)[0] for at in range(start, end - 3, 4))
    return found


def _has_samples(data: bytes, track: Track) -> bool:
    spans = track.minf.get(b"stsz") or track.minf.get(b"stz2") or ((0, 0),)
    return spans[0][1] - spans[0][0] >= 12 and u32(data, spans[0][0] + 8)[0] > 0


def describe(movie: Movie, others: list[Track]) -> tuple[str, ...]:
    """A phrase for each video stream that is not the film."""
    phrases = [f"stream {track.stream_index}: {_phrase(movie.data, track)}" for track in others]
    return (*phrases, *("attached picture" for _ in range(movie.covers)))


def _phrase(data: bytes, track: Track) -> str:
    entries = read_entries(data, track.minf.get(b"stsd", (None,))[0])
    if not entries:
        return "video"
    return f"{entries[0].codec or entries[0].fourcc.decode('latin-1')} {entries[0].width}x{entries[0].height}"


def external_reference(data: bytes, track: Track, entry: Entry) -> int | None:
    """Where the data reference (dref, 8.7.2) that points outside the file lies in the buffer; None if it does not."""
    span = track.minf.get(b"dinf", ((0, 0),))[0]
    if data[span[0] : span[1]] == SAME_FILE:
        return None
    dinf = children(data, *span)
    start, end = dinf.get(b"dref", ((0, 0),))[0]
    if end - start < 8:
        return None
    position = start + 8
    for number in range(1, u32(data, start + 4)[0] + 1):
        if position + 12 > end:
            return None
        size, kind, flags = u32(data, position)[0], data[position + 4 : position + 8], data[position + 11]
        if number == entry.data_reference:
            located = kind != b"url " or data[position + 12 : min(position + size, end)].strip(b"\0") != b""
            return position if not flags & 1 and located else None
        position += max(size, 8)
    return None


class Geometry(NamedTuple):
    """What the track header says of the picture's place."""

    rotation: int
    """degrees clockwise: 0, 90, 180, 270"""
    width: int
    height: int
    sar: tuple[int, int] | None
    """from a matrix that scales the two directions differently"""


def geometry(movie: Movie, track: Track) -> Geometry:
    """What the track header says of the picture's place."""
    start, end = track.boxes.get(b"tkhd", ((0, 0),))[0]
    at = start + (52 if end > start and movie.data[start] == 1 else 40)
    if at + 44 > end:
        return Geometry(0, 0, 0, None)
    return placed(movie.data[at : at + 44], movie.matrix)


def placed(header: bytes, movie_matrix: Matrix) -> Geometry:
    """Display matrix (tkhd times mvhd) and track size; the matrix read as FFmpeg's av_display_rotation_get does.

    Args:
        header: the last 44 bytes of the track header: its matrix, width and height.
        movie_matrix: what the movie's header adds.
    """
    width, height = u32(header, 36)[0] >> 16, u32(header, 40)[0] >> 16
    matrix = _multiply(read_matrix(header), movie_matrix)
    if matrix == _IDENTITY:
        return Geometry(0, width, height, None)
    return Geometry(_rotation(matrix), width, height, _scale_ratio(matrix) if width and height else None)


def _multiply(a: Matrix, b: Matrix) -> Matrix:
    if b == _IDENTITY:
        return a
    shift = (16, 16, 30)
    return tuple(sum(a[3 * i + e] * b[3 * e + j] >> shift[e] for e in range(3)) for i in range(3) for j in range(3))


def _rotation(matrix: Matrix) -> int:
    horizontal, vertical = hypot(matrix[0], matrix[3]), hypot(matrix[1], matrix[4])
    if not horizontal or not vertical:
        return 0
    angle = degrees(atan2(matrix[1] / vertical, matrix[0] / horizontal))
    return round(angle / 90) * 90 % 360


def _scale_ratio(matrix: Matrix) -> tuple[int, int] | None:
    horizontal, vertical = hypot(matrix[0], matrix[3]), hypot(matrix[1], matrix[4])
    if not (1 < horizontal < 1 << 24 and 1 < vertical < 1 << 24) or abs(horizontal / vertical - 1) <= 0.01:
        return None
    num, den = (horizontal / vertical).as_integer_ratio()
    return (num, den) if den < 1 << 31 else (round(horizontal), round(vertical))
