"""Edit lists: laws of the specification, and FFmpeg's reading of the same bytes."""

from __future__ import annotations

import io
from pathlib import Path
from struct import pack

import av
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isobmff_files import Movie, read_from

from vidprep.containers import isobmff
from vidprep.records import ParsedVideo, SampleFlag

ONE = 0x10000
TWO_EDITS = Path(__file__).parent / "cases" / "files" / "elst_cut_middle.mp4"


def parse(data: bytes) -> ParsedVideo:
    return isobmff.parse(read_from(data), len(data))


def two_edits(*edits: tuple[int, int, int]) -> bytes:
    """The case file (30 frames of 512 ticks at 12800, keys at 0, 10, 20) with other entries in its edit list."""
    data = bytearray(TWO_EDITS.read_bytes())
    at = data.find(b"elst") + 12
    data[at : at + 24] = b"".join(pack(">Iii", *edit) for edit in edits)
    return bytes(data)


def ffmpeg_times(data: bytes) -> list[int]:
    with av.open(io.BytesIO(data)) as container:
        return sorted(p.pts for p in container.demux(video=0) if p.size and not p.is_discard)


@pytest.mark.parametrize(
    "edits",
    [
        [(400, 0, ONE), (400, 10240, ONE)],
        [(400, 100, ONE), (400, 5300, ONE)],
        [(400, 2560, ONE), (400, 512, ONE)],
        [(400, -5000, ONE), (400, 512, ONE)],
        [(200, -1, ONE), (400, 7000, ONE)],
        [(130, 0, ONE), (130, 1024, ONE)],
        [(1 << 31, 0, ONE), (0xFFFFFFFF, (1 << 31) - 1, ONE)],
        [(40, 5120, ONE), (40, 5120, ONE)],
    ],
)
def test_segments_are_shown_as_ffmpeg_shows_them(edits: list[tuple[int, int, int]]) -> None:
    data = two_edits(*edits)
    assert parse(data).table.frame_pts.tolist() == ffmpeg_times(data)


@settings(max_examples=60, deadline=None)
@given(st.tuples(st.integers(40, 1500), st.integers(0, 16000)), st.tuples(st.integers(40, 1500), st.integers(0, 16000)))
def test_any_two_segments_are_shown_as_ffmpeg_shows_them(first: tuple[int, int], second: tuple[int, int]) -> None:
    data = two_edits((*first, ONE), (*second, ONE))
    want = ffmpeg_times(data)
    if want:
        assert parse(data).table.frame_pts.tolist() == want


def test_hidden_rows_are_kept_only_where_something_shown_needs_them() -> None:
    movie = Movie(sizes=[9] * 12, stss=[1, 5, 9], edits=[(300, 500, ONE)])
    got = parse(movie.file())
    assert got.table.frame_pts.tolist() == [0, 100, 200]
    assert got.table.pts.tolist() == [-100, 0, 100, 200]
    assert (got.table.flags & SampleFlag.SHOWN).tolist() == [0, 2, 2, 2]
    assert got.table.key_rows.tolist() == [0]


def test_a_segment_shown_twice_stands_there_twice_in_the_order_of_the_edits() -> None:
    movie = Movie(sizes=[9] * 4, edits=[(400, 0, ONE), (400, 0, ONE)])
    got = parse(movie.file())
    assert got.table.frame_pts.tolist() == [0, 100, 200, 300, 400, 500, 600, 700]
    assert got.table.offset[:4].tolist() == got.table.offset[4:].tolist()


def test_an_empty_edit_in_the_middle_shows_nothing_while_time_passes() -> None:
    movie = Movie(sizes=[9] * 4, edits=[(200, 0, ONE), (1000, -1, ONE), (200, 200, ONE)])
    assert parse(movie.file()).table.frame_pts.tolist() == [0, 100, 1200, 1300]


def test_a_dwell_shows_one_frame() -> None:
    movie = Movie(sizes=[9] * 4, stss=[1], edits=[(500, 250, 0), (200, 200, ONE)])
    got = parse(movie.file())
    assert got.table.frame_pts.tolist() == [0, 500, 600]
    assert got.table.size[got.table.frame_rows].tolist() == [9, 9, 9]
    assert (got.table.offset[got.table.frame_rows] - movie.first()).tolist() == [18, 18, 27]


def test_other_rates_are_taken_for_one_and_noted() -> None:
    got = parse(Movie(edits=[(600, 0, 2 * ONE)]).file())
    assert got.table.num_frames == 6
    assert "rate" in got.warnings[0].message


@pytest.mark.parametrize("version", [0, 1])
def test_leading_empty_edits_delay_the_first_frame(version: int) -> None:
    movie = Movie(edits=[(250, -1, ONE), (600, 0, ONE)], edit_version=version)
    assert parse(movie.file()).table.frame_pts.tolist() == [250, 350, 450, 550, 650, 750]


def test_durations_are_rescaled_from_the_movies_clock_to_the_medias() -> None:
    movie = Movie(timescale=90000, movie_timescale=600, stts=[(6, 3000)], edits=[(60, 6000, ONE)])
    assert parse(movie.file()).table.frame_pts.tolist() == [0, 3000, 6000]


def test_a_single_edit_of_no_length_shows_all_of_the_media() -> None:
    assert parse(Movie(edits=[(0, 200, ONE)]).file()).table.frame_pts.tolist() == [0, 100, 200, 300]


def test_without_a_movie_timescale_the_edit_list_is_ignored_and_noted() -> None:
    got = parse(Movie(movie_timescale=0, edits=[(100, 300, ONE)]).file())
    assert got.table.num_frames == 6
    assert "timescale" in got.warnings[0].message


def test_pictures_reordered_around_the_cut_are_shown_when_they_fall_inside() -> None:
    """Decode order I P B B I P B B; the segment ends with the B pictures that follow the second I."""
    composition = [(1, 100), (1, 300), (2, 0), (1, 100), (1, 300), (2, 0)]
    movie = Movie(sizes=[9] * 8, stss=[1, 5], ctts=composition, edits=[(500, 100, ONE)])
    got = parse(movie.file())
    assert got.table.frame_pts.tolist() == [0, 100, 200, 300, 400]


def test_an_edit_list_that_repeats_without_end_is_cut_off_and_noted() -> None:
    movie = Movie(sizes=[9] * 2000, edits=[(200_000, 0, ONE)] * 30_000)
    got = parse(movie.file())
    assert len(got.table) <= 1 << 20
    assert "cut off" in got.warnings[0].message
