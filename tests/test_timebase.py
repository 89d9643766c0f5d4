"""Ticks, seconds and timing facts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidprep.timebase import format_time_base, parse_time_base, presentation_order, timing_facts, to_seconds

TICKS = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=60)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_time_base_survives_its_text(num: int, den: int) -> None:
    assert parse_time_base(format_time_base(Fraction(num, den))) == Fraction(num, den)


@given(st.integers(-(2**50), 2**50), st.integers(1, 1001), st.integers(1, 90000))
def test_seconds_are_within_one_rounding_of_the_exact_quotient(ticks: int, num: int, den: int) -> None:
    exact = Fraction(ticks) * Fraction(num, den)
    assert to_seconds(ticks, Fraction(num, den)) == pytest.approx(float(exact), rel=4e-16, abs=0)


@pytest.mark.parametrize(
    ("pts", "is_vfr", "vfr_class"),
    [
        ([0], False, "cfr"),
        ([0, 40, 80, 120], False, "cfr"),
        ([0, 33, 67, 100], False, "quantised_cfr"),  # 30 fps in milliseconds: deltas 33 and 34
        ([0, 33, 66, 133], True, "vfr"),
    ],
)
def test_vfr_means_that_deltas_differ_by_more_than_one_tick(pts: list[int], is_vfr: bool, vfr_class: str) -> None:
    facts = timing_facts(np.array(pts), 33, Fraction(1, 1000))
    assert (facts.is_vfr, facts.vfr_class) == (is_vfr, vfr_class)


def test_duration_counts_the_last_frame_and_average_rate_counts_gaps() -> None:
    facts = timing_facts(np.array([100, 140, 180]), 40, Fraction(1, 1000))
    assert facts.duration_seconds == pytest.approx(0.12)
    assert facts.avg_fps == pytest.approx(25.0)


def test_gaps_duplicates_and_backward_steps_are_counted() -> None:
    facts = timing_facts(np.array([0, 40, 40, 80, 480, 440, 480]), 40, Fraction(1, 1000))
    assert (facts.num_gaps, facts.num_duplicates, facts.num_backward) == (1, 1, 1)


def test_equal_times_are_all_duplicates() -> None:
    assert timing_facts(np.array([5, 5, 5]), 0, Fraction(1)).num_duplicates == 2


def test_no_frames_have_no_facts_and_no_error() -> None:
    facts = timing_facts(np.zeros(0, np.int64), 0, Fraction(1, 25))
    assert (facts.duration_seconds, facts.avg_fps, facts.is_vfr) == (0.0, 0.0, False)


@given(TICKS, st.integers(0, 1000))
def test_any_times_give_finite_facts(ticks: list[int], last: int) -> None:
    facts = timing_facts(np.array(ticks), last, Fraction(1, 12800))
    assert np.isfinite([facts.duration_seconds, facts.avg_fps, facts.jitter_seconds]).all()
    assert facts.is_vfr == (facts.vfr_class == "vfr")


@st.composite
def long_times(draw: st.DrawFn) -> np.ndarray:
    """Thousands of times: a regular grid in a decoder's order, and perhaps a few that do not stand on it."""
    n, step = draw(st.integers(2040, 30_000)), draw(st.integers(0, 5000))
    pattern = draw(st.permutations(range(draw(st.integers(1, 6)))))
    place = np.arange(n) // len(pattern) * len(pattern) + np.resize(pattern, n)
    pts = draw(st.integers(-(10**9), 10**9)) + place * step
    for row in draw(st.lists(st.integers(0, n - 1), max_size=3)):
        pts[row] += draw(st.integers(-2 * step - 2, 2 * step + 2))
    return pts


@settings(deadline=None, max_examples=60)
@given(long_times())
def test_the_order_of_many_times_is_that_of_a_stable_sort(pts: np.ndarray) -> None:
    assert np.array_equal(presentation_order(pts), np.argsort(pts, kind="stable"))


@settings(deadline=None, max_examples=60)
@given(st.one_of(long_times(), TICKS.map(np.array)), st.booleans())
def test_facts_are_those_of_the_plain_formulas(pts: np.ndarray, in_order: bool) -> None:
    pts = np.sort(pts) if in_order else pts
    facts, deltas = timing_facts(pts, 1, Fraction(1, 1)), np.diff(pts)
    assert facts.num_duplicates == (deltas == 0).sum()
    assert facts.num_backward == (deltas < 0).sum()
    if len(deltas):
        assert facts.is_vfr == (deltas.max() - deltas.min() > 1)
        assert facts.num_gaps == (deltas > 3 * max(np.median(deltas), 1)).sum()
        assert facts.jitter_seconds == pytest.approx(deltas.std(), rel=1e-6, abs=1e-6)
