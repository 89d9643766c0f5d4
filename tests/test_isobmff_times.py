"""Times of any size, sign and timescale: never wrapped, never negative steps that are not in the file."""

from __future__ import annotations

from fractions import Fraction
from struct import pack
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isobmff_files import Movie, fragment, full, init_segment, read_from

from vidprep.containers import isobmff
from vidprep.errors import ContainerError

if TYPE_CHECKING:
    from vidprep.records import ParsedVideo

ONE = 0x10000


def parse(data: bytes) -> ParsedVideo:
    return isobmff.parse(read_from(data), len(data))


@given(st.integers(1, (1 << 32) - 1), st.lists(st.integers(0, (1 << 31) - 1), min_size=2, max_size=8))
def test_any_timescale_and_any_steps_give_their_sums(timescale: int, steps: list[int]) -> None:
    movie = Movie(sizes=[9] * len(steps), timescale=timescale, stts=[(1, step) for step in steps])
    got = parse(movie.file())
    assert got.info.time_base == Fraction(1, timescale)
    assert got.table.pts.tolist() == [sum(steps[:row]) for row in range(len(steps))]
    assert got.info.last_duration_ticks == steps[int(got.table.frame_rows[-1])]


@given(st.lists(st.integers(-(1 << 28), 1 << 28), min_size=3, max_size=8), st.sampled_from([0, 1]))
def test_composition_offsets_are_signed_in_either_version(offsets: list[int], version: int) -> None:
    data = Movie(sizes=[9] * len(offsets), ctts=[(1, offset) for offset in offsets]).file()
    at = data.index(b"ctts") + 4
    got = parse(data[:at] + bytes([version]) + data[at + 1 :])
    assert got.table.pts.tolist() == [100 * row + offset for row, offset in enumerate(offsets)]


@given(
    st.lists(
        st.tuples(st.integers(0, (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([0, ONE])),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, (1 << 32) - 1),
)
def test_edits_of_any_size_give_a_table_or_an_error(edits: list[tuple[int, int, int]], movie_timescale: int) -> None:
    movie = Movie(stss=[1, 3], edits=edits, edit_version=1, movie_timescale=movie_timescale)
    try:
        got = parse(movie.file())
    except ContainerError:
        return
    assert 0 < got.table.num_frames <= 6 * len(edits)
    assert got.table.frame_pts[0] >= 0
    assert got.timing.duration_seconds >= 0


@pytest.mark.parametrize("time", [0, (1 << 32) - 1, 1 << 40, (1 << 60) - 1000])
def test_fragments_keep_64_bit_decode_times(time: int) -> None:
    samples = [(100, 9, 0x02000000, 0), (100, 9, 0x01010000, -50)]
    got = parse(init_segment() + fragment(1, samples, time=time, version=1))
    assert got.table.pts.tolist() == [time, time + 50]


def test_decode_times_beyond_all_bounds_do_not_overflow() -> None:
    samples = [(0xFFFFFFFF, 9, 0x02000000, -(1 << 31)), (0xFFFFFFFF, 9, 0x02000000, (1 << 31) - 1)]
    data = init_segment() + fragment(1, samples, time=(1 << 64) - 1, version=1)
    pts = parse(data).table.pts
    assert (abs(pts) < 1 << 62).all()


def test_a_timescale_of_zero_is_the_movies() -> None:
    assert parse(Movie(timescale=0, movie_timescale=600).file()).info.time_base == Fraction(1, 600)
    assert parse(Movie(timescale=0, movie_timescale=0).file()).info.time_base == 1


def test_negative_offsets_of_runs_are_read_in_version_0_too() -> None:
    run = full(b"trun", pack(">Iii", 1, 0, -100), flags=0x801)
    assert run[8] == 0
    samples = [(100, 9, 0x02000000, -100)]
    data = fragment(1, samples, time=1000, version=1)
    at = data.index(b"trun") + 4
    assert parse(init_segment() + data[:at] + b"\0" + data[at + 1 :]).table.pts.tolist() == [900]
