"""Times to frames, against a search through all frames with fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidprep.errors import SamplingError
from vidprep.records import Timeline
from vidprep.samplers import AtRate, Delta, FrameList, Segments
from vidprep.samplers.timeline import FAR, clock_of, frames_between

TIME_BASES = st.sampled_from([Fraction(1, 1000), Fraction(1, 90000), Fraction(1001, 30000), Fraction(1, 10**9)])


@st.composite
def timelines(draw):
    """Uneven, with gaps and repeats, starting anywhere."""
    deltas = draw(st.lists(st.sampled_from([0, 1, 2, 3, 40, 41, 5000]), max_size=25))
    first = draw(st.integers(-5000, 10**7))
    return Timeline(
        pts=np.cumsum([first, *deltas]),
        time_base=draw(TIME_BASES),
        last_duration_ticks=draw(st.integers(0, 50)),
    )


def shown(times, end, t):
    """The frame on screen at t: None outside; of several with one time the last."""
    if not times[0] <= t < end:
        return None
    return max(i for i, time in enumerate(times) if time <= t)


def nearest(times, end, t):
    return min(range(len(times)), key=lambda i: (abs(times[i] - t), times[i], -i)) if times[0] <= t < end else None


def after(times, end, t):
    return next((i for i, time in enumerate(times) if time >= t), None)


@settings(max_examples=300, deadline=None)
@given(timelines(), st.fractions(Fraction(1, 50), 5000, max_denominator=1001), st.integers(1, 40), st.data())
def test_a_rate_takes_the_frame_that_a_search_finds(timeline, fps, count, data):
    low = data.draw(st.integers(0, timeline.num_frames - 1))
    high = data.draw(st.integers(low + 1, timeline.num_frames))
    clock = clock_of(timeline, low, high)
    times = [Fraction(int(t)) for t in timeline.pts[low:high]]
    for rule in (shown, nearest, after):
        policy = AtRate(fps, frames=count, mode=rule.__name__, pad="constant")
        chosen = policy.choose(timeline, within=(low, high)).frame_index.tolist()
        wanted = [rule(times, clock.end, times[0] + k / policy.fps / timeline.time_base) for k in range(count)]
        for frame, want in zip(chosen, wanted, strict=True):
            if rule is nearest and want is not None:  # of several frames at the nearest time any is as good
                assert times[frame - low] == times[want]
            else:
                assert frame == (-1 if want is None else low + want)


@settings(max_examples=200, deadline=None)
@given(timelines(), st.data())
def test_the_pts_of_a_frame_finds_it_as_fraction_float64_and_float32(timeline, data):
    i = data.draw(st.integers(0, timeline.num_frames - 1))
    exact = int(timeline.pts[i]) * timeline.time_base
    last_of_its_time = int(np.searchsorted(timeline.pts, timeline.pts[i], side="right")) - 1
    forms = [exact, float(exact), float(timeline.pts_seconds[i])]
    single = np.float32(float(exact))
    if (timeline.pts_seconds.astype(np.float32) == single).sum() == (timeline.pts == timeline.pts[i]).sum():
        forms += [single, float(single)]  # float32 still tells the frames apart
    for form in forms:
        assert FrameList(seconds=(form,)).choose(timeline).frame_index.tolist() == [last_of_its_time], repr(form)


@settings(max_examples=200, deadline=None)
@given(timelines(), st.integers(-6000, 200_000), st.integers(0, 200_000))
def test_ranges_hold_the_frames_from_start_up_to_but_not_at_end(timeline, offset, length):
    start = (int(timeline.pts[0]) + offset) * timeline.time_base
    end = start + length * timeline.time_base
    low, high = frames_between(timeline, start, end)
    times = [int(t) * timeline.time_base for t in timeline.pts]
    assert list(range(low, high)) == [i for i, t in enumerate(times) if start <= t < end]


def test_a_random_clip_at_a_rate_starts_at_every_frame_from_which_it_fits_and_no_other():
    timeline = Timeline(
        pts=np.array([0, 4, 5, 9, 20, 21, 22]) * 100, time_base=Fraction(1, 1000), last_duration_ticks=100
    )
    for mode, legal in (("shown", {0, 1, 2, 3, 4}), ("after", {0, 1, 2, 3, 4})):
        policy = AtRate(10, frames=3, place="random", mode=mode, pad="error")
        starts = {int(policy.choose(timeline, (1, 2, p)).frame_index[0]) for p in range(500)}
        assert starts == legal, mode
    longer = AtRate(10, frames=4, place="random", mode="after", pad="error")
    assert {int(longer.choose(timeline, (0, 0, p)).frame_index[0]) for p in range(300)} == {0, 1, 2, 3}


def test_times_that_fall_or_lie_absurdly_far_are_refused():
    falling = Timeline(pts=np.array([0, 10, 5]), time_base=Fraction(1, 10))
    with pytest.raises(SamplingError, match="frame 2 is shown before frame 1"):
        AtRate(1).choose(falling)
    far = Timeline(pts=np.array([0, 2 * FAR]), time_base=Fraction(1, 10))
    with pytest.raises(SamplingError, match="expected times within"):
        AtRate(1, frames=2).choose(far)


def test_rates_that_leave_int64_are_exact_all_the_same():
    timeline = Timeline(pts=np.array([FAR - 2, FAR - 1]), time_base=Fraction(1, 10**9), last_duration_ticks=1)
    spec = AtRate("1/1001", frames=3, pad="edge").choose(timeline)
    assert spec.frame_index.tolist() == [0, 1, 1]
    assert spec.is_padding.tolist() == [False, True, True]


@pytest.mark.parametrize("text", ["1e99999999", "1e-99999999", "9" * 5000, "1/" + "9" * 5000])
def test_numbers_of_a_million_digits_are_refused_at_once(text):
    with pytest.raises(SamplingError, match="expected frames per second"):
        AtRate(text)


def test_requests_beyond_memory_are_refused_before_anything_is_allocated():
    timeline = Timeline.regular(100, 25)
    with pytest.raises(SamplingError, match="at most 16777216"):
        AtRate(10**6, seconds=10**6).choose(timeline)
    with pytest.raises(SamplingError, match="at most 16777216"):
        AtRate(25, frames=4, place="dense", step_seconds="1/1000000000").num_clips(timeline)
    with pytest.raises(SamplingError, match="at most 16777216"):
        Segments(1 << 24, length=2)


def test_delta_refuses_what_is_further_away_than_the_tolerance():
    timeline = Timeline(pts=np.array([0, 100, 200, 900]), time_base=Fraction(1, 1000), last_duration_ticks=100)
    policy = Delta(seconds=(0, 0.1), at=0, tolerance_seconds=0.001)
    assert policy.choose(timeline).frame_index.tolist() == [0, 1]
    with pytest.raises(SamplingError, match="tolerance_seconds"):
        Delta(seconds=(0, 0.1), at=2, tolerance_seconds=0.001).choose(timeline)
