"""Stream facts: what the track's boxes say, joined with what the codec's configuration says."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from vidprep.containers.codecconfig import codec_facts
from vidprep.containers.isobmff.fourccs import CONTAINER_BY_BRAND
from vidprep.containers.isobmff.tracks import Geometry, describe, geometry, media_header
from vidprep.containers.remembered import MAX_KEY_BYTES
from vidprep.records import StreamInfo
from vidprep.timebase import altered

if TYPE_CHECKING:
    from vidprep.containers.codecconfig import CodecFacts
    from vidprep.containers.isobmff.entries import Entry
    from vidprep.containers.isobmff.tracks import Movie, Track


class Totals(NamedTuple):
    """What the sample tables say of the whole track."""

    last_duration_ticks: int
    header_num_frames: int | None


def stream_info(
    movie: Movie, track: Track, others: list[Track], entry: Entry, brand: bytes, timescale: int, totals: Totals
) -> StreamInfo:
    """Facts of the film."""
    has_audio, audio_seconds = _audio(movie)
    return altered(
        common_info(entry, geometry(movie, track), brand[:3], timescale),
        stream_index=track.stream_index,
        track_id=track.track_id,
        last_duration_ticks=totals.last_duration_ticks,
        header_num_frames=totals.header_num_frames,
        has_audio=has_audio,
        audio_duration_seconds=audio_seconds,
        other_streams=describe(movie, others) if others or movie.covers else (),
    )


def stream_facts(entry: Entry, timescale: int) -> StreamInfo:
    """Facts of one sample description alone: codec, configuration, size."""
    return common_info(entry, Geometry(0, 0, 0, None), b"", timescale)


def common_info(entry: Entry, place: Geometry, brand: bytes, timescale: int) -> StreamInfo:
    """What files of one source have in common."""
    read = _remembered_info if len(entry.config) <= MAX_KEY_BYTES else _read_info
    return read(entry, place, brand, timescale)


def _read_info(entry: Entry, place: Geometry, brand: bytes, timescale: int) -> StreamInfo:
    codec = entry.codec or ""
    facts = codec_facts(codec, entry.facts_config)
    width, height = facts.width or entry.width or place.width, facts.height or entry.height or place.height
    sar = _aspect(place, entry, facts)
    display = _display_size(width, height, sar, place.rotation)
    colour = entry.colour
    return StreamInfo(
        container=CONTAINER_BY_BRAND.get(brand, "mp4" if brand else "mov"),
        codec=codec,
        codec_tag=entry.fourcc.decode("latin-1"),
        codec_config=entry.config,
        nal_length_size=facts.nal_length_size,
        width=width,
        height=height,
        coded_width=facts.coded_width or width,
        coded_height=facts.coded_height or height,
        display_width=display[0],
        display_height=display[1],
        sar=sar,
        rotation=place.rotation,
        profile=facts.profile,
        level=facts.level,
        pix_fmt=facts.pix_fmt,
        bit_depth=facts.bit_depth,
        chroma=facts.chroma,
        interlaced=facts.interlaced,
        colour_matrix=facts.colour_matrix or colour.matrix,
        colour_range=facts.colour_range or colour.range,
        colour_primaries=facts.colour_primaries or colour.primaries,
        colour_transfer=facts.colour_transfer or colour.transfer,
        time_base=Fraction(1, timescale),
        header_fps=facts.header_fps,
        reorder_depth=facts.reorder_depth,
        nvdec=facts.nvdec,
    )


_remembered_info = lru_cache(maxsize=512)(_read_info)


def _aspect(place: Geometry, entry: Entry, facts: CodecFacts) -> tuple[int, int]:
    """Sample aspect ratio: a scaling matrix, pasp, the codec, or the track's size against the picture's, as FFmpeg."""
    stated = place.sar or entry.sar
    if stated is None and place.width and place.height and (place.width, place.height) != (entry.width, entry.height):
        stated = (entry.height * place.width, entry.width * place.height)
    num, den = stated or facts.sar or (1, 1)
    if num <= 0 or den <= 0:
        return (1, 1)
    common = gcd(num, den)
    return (num // common, den // common)


def _display_size(width: int, height: int, sar: tuple[int, int], rotation: int) -> tuple[int, int]:
    """Width stretched to square samples, then turned."""
    shown = width if sar[0] == sar[1] else (2 * width * sar[0] + sar[1]) // (2 * sar[1])
    return (height, shown) if rotation in (90, 270) else (shown, height)


def _audio(movie: Movie) -> tuple[bool, float | None]:
    """Whether there is an audio track, and how long the first one is."""
    for track in movie.tracks:
        if track.handler == b"soun":
            header = media_header(movie.data, track)
            known = header.timescale and header.duration
            return True, header.duration / header.timescale if known and header.duration else None
    return False, None
