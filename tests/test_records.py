"""Sample tables: how frames map to rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.records import SampleFlag, SampleTable, Timeline

KEY, SHOWN = SampleFlag.KEY, SampleFlag.SHOWN


def table(pts: list[int], flags: list[int], order: list[int] | None = None) -> SampleTable:
    n = len(pts)
    return SampleTable(
        offset=np.arange(n, dtype=np.int64) * 10,
        size=np.full(n, 10),
        pts=np.array(pts, dtype=np.int64),
        flags=np.array(flags, dtype=np.uint8),
        order=None if order is None else np.array(order),
    )


def test_frames_stand_in_presentation_order() -> None:
    made = table([0, 30, 10, 20], [KEY | SHOWN, SHOWN, SHOWN, SHOWN])
    assert made.frame_rows.tolist() == [0, 2, 3, 1]
    assert made.frame_pts.tolist() == [0, 10, 20, 30]
    assert made.keyframes.tolist() == [0]


def test_hidden_rows_are_no_frames_but_decoding_can_start_at_them() -> None:
    made = table([-20, -10, 0, 10], [KEY, 0, SHOWN, SHOWN | KEY])
    assert made.num_frames == 2
    assert made.key_rows.tolist() == [0, 3]
    assert made.keyframes.tolist() == [1]


def test_equal_times_keep_decode_order() -> None:
    assert table([5, 5, 0], [SHOWN] * 3).frame_rows.tolist() == [2, 0, 1]


def test_an_explicit_order_beats_the_times() -> None:
    assert table([0, 10, -5], [SHOWN] * 3, order=[0, 1, 2]).frame_pts.tolist() == [0, 10, -5]


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        SampleTable(offset=np.zeros(2), size=np.zeros(1), pts=np.zeros(2), flags=np.zeros(2, np.uint8))


@given(st.lists(st.tuples(st.integers(-100, 100), st.integers(0, 7)), max_size=50))
def test_frames_are_the_shown_rows_each_once(rows: list[tuple[int, int]]) -> None:
    made = table([pts for pts, _ in rows], [flags for _, flags in rows])
    assert sorted(made.frame_rows.tolist()) == [i for i, (_, flags) in enumerate(rows) if flags & SHOWN]
    assert (np.diff(made.frame_pts) >= 0).all()
    keys = [frame for frame, row in enumerate(made.frame_rows.tolist()) if rows[row][1] & KEY]
    assert made.keyframes.tolist() == keys


@given(st.lists(st.integers(1, 5), max_size=6), st.booleans())
def test_key_frames_of_groups_that_are_reordered_within_or_across_them(groups: list[int], is_open: bool) -> None:
    """Each group begins with its key picture; those behind it are shown after it, or (open) all but the first group's before."""
    pts: list[int] = []
    for count in groups:
        first = len(pts)
        key = first + count - 1 if is_open and first else first
        pts += [key, *(place for place in range(first, first + count) if place != key)]
    starts = {sum(groups[:number]) for number in range(len(groups))}
    made = table(pts, [SHOWN | KEY if row in starts else SHOWN for row in range(len(pts))])
    assert made.keyframes.tolist() == sorted(pts[row] for row in starts)


@pytest.mark.parametrize(
    ("fps", "step"), [(25, Fraction(1, 25)), ("30000/1001", Fraction(1001, 30000)), (12.5, Fraction(2, 25))]
)
def test_a_regular_timeline_has_one_tick_a_frame(fps: float | str, step: Fraction) -> None:
    timeline = Timeline.regular(4, fps)
    assert timeline.time_base == step
    assert timeline.pts.tolist() == [0, 1, 2, 3]
    assert timeline.end_pts == 4


@pytest.mark.parametrize(
    ("pts", "step", "is_rising"),
    [
        ([], 0, True), ([5], 0, True), ([5, 8], 3, True), ([-9, -5, -1], 4, True), ([0, 1, 3], 0, True), ([2, 2], 0, True),
        ([0, 3, 3, 9], 0, True), ([3, 2, 1], 0, False), ([0, 4, 2, 6], 0, False), ([-(2**63), 0, 2**63 - 1], 0, True),
    ],
)  # fmt: skip
def test_a_timeline_knows_whether_its_frames_are_evenly_apart_and_in_order(
    pts: list[int], step: int, is_rising: bool
) -> None:
    timeline = Timeline(pts=np.array(pts, np.int64), time_base=Fraction(1, 30))
    assert (timeline.step_ticks, timeline.is_rising) == (step, is_rising)
