"""ISO base media files (MP4, MOV, 3GP, M4V, F4V, AVIF sequences, DASH) → stream facts and frame table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from vidprep.containers.bitstream import INTRA_ONLY, head_bytes, is_understood, sample_facts
from vidprep.containers.in_band import in_band
from vidprep.containers.isobmff.boxes import HEAD_BYTES, Window, children
from vidprep.containers.isobmff.edits import read_edits
from vidprep.containers.isobmff.entries import read_entries
from vidprep.containers.isobmff.facts import Totals, stream_facts, stream_info
from vidprep.containers.isobmff.fragments import FragmentReader, read_defaults
from vidprep.containers.isobmff.plain import read_plain
from vidprep.containers.isobmff.rows import (
    RowTable,
    fragment_rows,
    joined,
    restarting,
    sample_table,
    sound_rows,
    table_rows,
)
from vidprep.containers.isobmff.tables import Notes, read_samples
from vidprep.containers.isobmff.tracks import (
    choose_track,
    external_reference,
    media_header,
    read_movie,
)
from vidprep.containers.isobmff.walk import walk
from vidprep.errors import (
    ContainerError,
    MalformedContainerError,
    NotMediaError,
    Reason,
    TruncatedContainerError,
    UnsupportedContainerError,
)
from vidprep.records import ParsedVideo
from vidprep.timebase import unchecked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.containers.isobmff.boxes import Boxes, TopBox
    from vidprep.containers.isobmff.edits import DeniesKey, Edit
    from vidprep.containers.isobmff.entries import Entry
    from vidprep.containers.isobmff.fragments import Defaults
    from vidprep.containers.isobmff.tables import Samples
    from vidprep.containers.isobmff.tracks import Movie, Track
    from vidprep.records import ReadAt

#: A movie box beyond this is not read.
MAX_MOVIE_BYTES = 1 << 30
#: Changes of the decoder's configuration that are followed, and their bytes in all.
MAX_LATER_CONFIGS, MAX_LATER_CONFIG_BYTES = 256, 1 << 20
#: What a movie's first box may be; anything else is no movie.
_FIRST_BOXES = frozenset({b"ftyp", b"mdat", b"wide", b"free", b"skip", b"moov", b"styp", b"sidx", b"pnot", b"uuid"})
#: Brands of still images (ISO/IEC 23008-12), first three characters.
_STILL_BRANDS = frozenset({b"avi", b"mif", b"hei", b"hev", b"msf", b"jpe"})


def parse(read_at: ReadAt, size_bytes: int, head: bytes = b"") -> ParsedVideo:
    """Frame table and stream facts from the headers alone.

    Args:
        read_at: `read_at(offset, size)` gives bytes of the file, fewer only at its end.
        size_bytes: length of the file.
        head: its first bytes, where they have been read.

    Raises:
        ContainerError: no table can be had; `offset` says where.
    """
    head = head or read_at(0, HEAD_BYTES)
    return read_plain(read_at, size_bytes, head) or _parse_any(Window(read_at, size_bytes, head))


def _parse_any(window: Window) -> ParsedVideo:
    passed = Notes(0)
    boxes = walk(window, passed)
    found = _find_movie(window, boxes)
    try:
        parsed = _parse_movie(found, window, boxes)
        return replace(parsed, warnings=(*passed.found, *parsed.warnings)) if passed.found else parsed
    except (NotMediaError, MalformedContainerError) as error:
        if found.box.claimed_end <= found.box.end:
            raise
        message = f"the movie box is cut off: {error.message}"
        raise TruncatedContainerError(message, offset=found.box.start) from error


def _parse_movie(found: _Found, window: Window, boxes: Iterator[TopBox]) -> ParsedVideo:
    size_bytes = window.size_bytes
    notes = Notes(found.box.start)
    film = _open_film(found, notes)
    samples = read_samples(film.movie.data, film.stbl, size_bytes, notes)
    rows = table_rows(samples, film.edits, notes, _key_test(film, samples, window))
    scanned = None
    if film.fragmented or len(samples) == 0:
        reader = FragmentReader(film.track.track_id, film.defaults(), _end_of(samples), size_bytes)
        reader.read(window, found.fragments)
        reader.read(window, boxes)
        notes.found += reader.warnings
        scanned = reader.samples()
        rows = joined(rows, fragment_rows(*scanned, film.edits)) if scanned else rows
    return _finish(film, rows, samples.claimed or None, size_bytes, notes, "scan" if scanned else "header")


def read_edit_list(read_at: ReadAt, size_bytes: int) -> tuple[list[Edit], int]:
    """The chosen track's edit list, and ticks per second of its times. Raises as `parse` does."""
    window = Window(read_at, size_bytes)
    found = _find_movie(window, walk(window, Notes(0)))
    film = _open_film(found, Notes(found.box.start))
    return film.edits, film.timescale


@dataclass(slots=True)
class _Found:
    box: TopBox
    data: bytes
    brand: bytes
    fragments: list[TopBox]
    """moof boxes before the movie box"""


def _find_movie(window: Window, boxes: Iterator[TopBox]) -> _Found:
    brand, last = b"", None
    fragments: list[TopBox] = []
    kinds: set[bytes] = set()
    for box in boxes:
        if box.kind == b"moov":
            if box.end - box.start > MAX_MOVIE_BYTES:
                raise MalformedContainerError(f"moov of {box.end - box.start} bytes", offset=box.start)
            return _Found(box, window.get(box.start, box.end - box.start), brand, fragments)
        if box.kind == b"ftyp":
            brand = window.get(box.body, 4)
        elif box.kind == b"moof":
            fragments.append(box)
        last = box
        if len(kinds) < 64:
            kinds.add(box.kind)
    raise _no_movie(last, kinds, brand, window.size_bytes)


def _no_movie(last: TopBox | None, kinds: set[bytes], brand: bytes, size_bytes: int) -> ContainerError:
    """Say why there is no index: a still image, a media segment, a file cut short, or no such file at all."""
    if b"meta" in kinds and brand[:3] in _STILL_BRANDS:
        return UnsupportedContainerError(f"still image (brand {brand.decode('latin-1')}), not a video", offset=0)
    if b"moof" in kinds:
        return MalformedContainerError("media segment without its initialisation segment (no moov)", offset=0)
    if last is None or not kinds & _FIRST_BOXES:
        return NotMediaError("no box that a movie starts with", offset=0)
    if last.claimed_end > size_bytes:
        message = (
            f"no moov; the last box claims {last.claimed_end - last.start} bytes, {size_bytes - last.start} are there"
        )
        return TruncatedContainerError(message, offset=last.start)
    return TruncatedContainerError("no moov: the file was not finished or is cut off", offset=last.end)


@dataclass(slots=True, kw_only=True)
class _Film:
    """The chosen track, opened."""

    movie: Movie
    track: Track
    others: list[Track]
    stbl: Boxes
    entries: list[Entry]
    edits: list[Edit]
    timescale: int
    fragmented: bool
    brand: bytes

    def defaults(self) -> Defaults:
        """What the track's fragments start from."""
        mvex = self.movie.boxes.get(b"mvex")
        return read_defaults(self.movie.data, children(self.movie.data, *mvex[0]) if mvex else {}, self.track.track_id)


def _open_film(found: _Found, notes: Notes) -> _Film:
    box = found.box
    movie = read_movie(found.data, (box.body - box.start, len(found.data)), box.start)
    if box.claimed_end > box.end:
        notes.add("the movie box is cut off", 0, Reason.TRUNCATED)
        if not movie.tracks:
            raise TruncatedContainerError("the movie box is cut off before any track", offset=box.start)
    track, others = choose_track(movie)
    timescale = media_header(movie.data, track).timescale or movie.timescale or 1
    stbl = track.minf
    elst = track.boxes.get(b"elst")
    return _Film(
        movie=movie,
        track=track,
        others=others,
        stbl=stbl,
        entries=read_entries(movie.data, stbl[b"stsd"][0] if b"stsd" in stbl else None),
        edits=read_edits(movie.data, elst[0] if elst else None, movie.timescale, timescale, notes),
        timescale=timescale,
        fragmented=b"mvex" in movie.boxes,
        brand=found.brand,
    )


def _key_test(film: _Film, samples: Samples, window: Window) -> DeniesKey | None:
    """What tells of a sample whether its head denies that it is a key sample; None where the codec does not matter."""
    codec = film.entries[0].codec if film.entries else None
    if not film.edits or codec is None or codec in INTRA_ONLY or not is_understood(codec):
        return None

    def denies_key(sample: int) -> bool:
        number = 1 if samples.entry is None else int(samples.entry[sample])
        entry = film.entries[min(max(number, 1), len(film.entries)) - 1]
        info = stream_facts(entry, film.timescale)
        size = int(samples.size[sample])
        head = window.get(int(samples.offset[sample]), min(size, head_bytes(info)))
        return sample_facts(info, head, complete=len(head) == size).key is False

    return denies_key


def _end_of(samples: Samples) -> int:
    """Decode time at which the sample table ends."""
    return int(samples.dts[-1] + samples.duration[-1]) if len(samples) else 0


def _finish(
    film: _Film, rows: RowTable, claimed: int | None, size_bytes: int, notes: Notes, method: str
) -> ParsedVideo:
    entry, rows = _one_entry(film, rows, notes)
    there = len(rows)
    rows = sound_rows(rows, size_bytes, notes)
    rows, later = _later_configs(film, entry, rows, notes)
    table = sample_table(rows)
    if table.num_frames == 0:
        _no_frames(there, claimed, notes)
    totals = Totals(max(int(rows.duration[table.frame_rows[-1]]), 0), claimed)
    info = stream_info(film.movie, film.track, film.others, entry, film.brand, film.timescale, totals)
    if later:
        info = replace(info, later_configs=later)
    return unchecked(ParsedVideo, info=info, table=table, method=method, warnings=tuple(notes.found))


def _no_frames(there: int, claimed: int | None, notes: Notes) -> NoReturn:
    if there:
        raise TruncatedContainerError(f"none of {there} samples lies whole in the file", offset=notes.base)
    if claimed:
        why = "; ".join(finding.message for finding in notes.found) or "none is shown or has bytes"
        raise MalformedContainerError(f"{claimed} samples are claimed, but {why}", offset=notes.base)
    raise NotMediaError("the video track has no samples", reason=Reason.NO_FRAMES, offset=notes.base)


def _one_entry(film: _Film, rows: RowTable, notes: Notes) -> tuple[Entry, RowTable]:
    """The sample description of the first row, and the rows that a decoder set up with it can take.

    Raises:
        UnsupportedContainerError: encrypted, in another file, or of an unknown codec.
    """
    if not film.entries:
        raise MalformedContainerError("no sample description (stsd)", offset=notes.base)
    if rows.entry is not None:
        exists = (rows.entry > 0) & (rows.entry <= len(film.entries))
        rows.entry = np.where(exists, rows.entry, 1)
    number = 1 if rows.entry is None or len(rows) == 0 else int(rows.entry[0])
    entry = film.entries[number - 1]
    _refuse(film, entry, notes)
    if rows.entry is not None and len(film.entries) > 1:
        usable = np.array([_can_follow(film, entry, each) for each in film.entries])[rows.entry - 1]
        if not usable.all():
            notes.add(f"{int((~usable).sum())} of {len(rows)} samples need another decoder set-up: left out")
            rows = rows.take(usable)
    return entry, rows


def _can_follow(film: _Film, entry: Entry, other: Entry) -> bool:
    """Whether a decoder set up for `entry` can go on with the samples of `other`, told its configuration in band."""
    if other is entry:
        return True
    length_size = stream_facts(entry, 1).nal_length_size
    return (
        other.codec == entry.codec
        and not other.encrypted
        and external_reference(film.movie.data, film.track, other) is None
        and stream_facts(other, 1).nal_length_size == length_size
        and (other.config == entry.config or in_band(entry.codec or "", other.config, length_size) is not None)
    )


def _later_configs(
    film: _Film, entry: Entry, rows: RowTable, notes: Notes
) -> tuple[RowTable, tuple[tuple[int, bytes], ...]]:
    """Rows at which the decoder's configuration changes, marked in the table as places to start afresh."""
    if rows.entry is None or len(film.entries) < 2 or len(rows) == 0:
        return rows, ()
    changes = np.concatenate(([0], np.diff(rows.entry).nonzero()[0] + 1))
    later: list[tuple[int, bytes]] = []
    has, room = entry.config, MAX_LATER_CONFIG_BYTES
    for row in changes.tolist():
        config = film.entries[int(rows.entry[row]) - 1].config
        if config != has:
            room -= len(config)
            if room < 0 or len(later) == MAX_LATER_CONFIGS:
                notes.add(f"the decoder's set-up changes too often: {len(rows) - row} samples are left out")
                rows = rows.take(slice(row))
                break
            later.append((row, config))
            has = config
    rows.flags = restarting(rows.flags, np.array([row for row, _ in later], np.int64))
    return rows, tuple(later)


def _refuse(film: _Film, entry: Entry, notes: Notes) -> None:
    name = entry.fourcc.decode("latin-1")
    if entry.encrypted:
        raise UnsupportedContainerError(f"encrypted track ({name})", reason=Reason.ENCRYPTED, offset=notes.base)
    external = external_reference(film.movie.data, film.track, entry)
    if external is not None:
        raise UnsupportedContainerError(
            "the samples lie in another file", reason=Reason.EXTERNAL_DATA, offset=notes.base + external
        )
    if entry.codec is None:
        raise UnsupportedContainerError(f"unknown codec {name!r}", reason=Reason.UNSUPPORTED_CODEC, offset=notes.base)
