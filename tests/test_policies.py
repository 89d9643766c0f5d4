"""Laws of all policies, and golden values of each: cases from public bug reports, DALI's pads, plain arithmetic."""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidprep.errors import SamplingError
from vidprep.records import Timeline
from vidprep.samplers import (
    AtRate,
    Delta,
    Dense,
    First,
    FrameList,
    Keyframes,
    Last,
    RandomClip,
    Segments,
    Strided,
    Uniform,
    Windows,
    parse_policy,
)
from vidprep.samplers.padding import PAD_MODES
from vidprep.samplers.policies import POLICIES
from vidprep.samplers.timeline import frames_between

#: Every policy, in the shapes that take different roads through the code.
TEXTS = [
    "first:frames=4,stride=2", "last:frames=4,stride=3", "strided:stride=3", "strided:stride=2,start=-5",
    "strided:stride=2,start=1,end=9", "strided:stride=2,frames=5,jitter=1", "random:frames=4,stride=2",
    "random:frames=3,clips=3,jitter=2", "uniform:frames=5", "uniform:frames=5,mode=trunc", "uniform:frames=5,mode=center",
    "uniform:frames=5,mode=torch", "uniform:frames=1", "list:frames=0/2/2/-1", "list:seconds=0/0.1", "dense:frames=4",
    "dense:frames=4,step=3", "dense:frames=4,clips=3", "segments:frames=4", "segments:frames=3,mode=center",
    "segments:frames=3,length=2,clips=2", "windows:frames=6,overlap=2", "keyframes", "keyframes:frames=3,mode=first",
    "keyframes:frames=2,mode=random", "delta:offsets=-2/0/2", "delta:offsets=-1/0/1,at=-1", "rate:fps=10",
    "rate:fps=5,frames=4", "rate:fps=10,frames=3,place=random", "rate:fps=10,seconds=0.5,place=dense",
    "rate:fps=8,frames=3,place=even,clips=2", "rate:fps=30,min_frames=3,max_frames=9,divisor=4,remainder=1",
]  # fmt: skip


def uneven(n: int, seed: int = 0) -> Timeline:
    """Variable rate with gaps and repeated times, from a start that is not zero; a key frame every fifth frame."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([0, 1, 2, 3, 40], size=n, p=[0.1, 0.4, 0.3, 0.15, 0.05])
    pts = 700 + np.cumsum(steps) - (steps[0] if n else 0)
    return Timeline(
        pts=pts.astype(np.int64), time_base=Fraction(1, 60), last_duration_ticks=2, keyframes=np.arange(0, n, 5)
    )


def with_pad(text: str, pad: str) -> str:
    return f"{text}{',' if ':' in text else ':'}pad={pad}"


@pytest.mark.parametrize("pad", PAD_MODES)
@pytest.mark.parametrize("text", TEXTS)
def test_any_video_gives_clips_of_its_own_frames_or_a_named_refusal(text: str, pad: str) -> None:
    policy = parse_policy(with_pad(text, pad))
    for n in (0, 1, 2, 3, 7, 40):
        timeline = uneven(n, seed=n)
        try:
            specs = policy.choose_all(timeline, (1, 2, 3))
        except SamplingError:
            continue
        assert n or not specs
        for spec in specs:
            inside = spec.frame_index >= 0
            assert (spec.frame_index < n).all()
            assert len(spec.frame_index) == len(spec.pts_seconds) == len(spec.is_padding)
            assert inside.all() if pad != "constant" else (spec.is_padding | inside).all()
            assert np.array_equal(np.isnan(spec.pts_seconds), ~inside)
            assert np.array_equal(spec.pts_seconds[inside], timeline.pts_seconds[spec.frame_index[inside]])
            if pad in ("none", "drop", "error"):
                assert not spec.is_padding.any()


@pytest.mark.parametrize("text", TEXTS)
def test_an_empty_video_is_refused_by_name(text: str) -> None:
    with pytest.raises(SamplingError, match="no frames"):
        parse_policy(text).choose(uneven(0))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("pad", ["edge", "constant", "reflect_101", "wrap", "shift"])
def test_many_at_once_are_each_as_one_by_one(text: str, pad: str) -> None:
    policy = parse_policy(with_pad(text, pad))
    timelines = [uneven(n, seed=n) for n in (40, 9, 25, 11, 9, 1)]
    keys = [(5, 0, position) for position in range(len(timelines))]
    within = [None, (2, 7), None, (0, 11), (8, 9), None]
    try:
        one_by_one = [policy.choose(t, k, w) for t, k, w in zip(timelines, keys, within, strict=True)]
    except SamplingError:
        with pytest.raises(SamplingError):
            policy.choose_many(timelines, keys, within)
        return
    assert policy.choose_many(timelines, keys, within) == one_by_one


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("pad", ["none", "edge", "constant", "shift"])
def test_many_whole_videos_at_once_are_each_as_one_by_one(text: str, pad: str) -> None:
    policy = parse_policy(with_pad(text, pad))
    slower = Timeline(pts=uneven(50).pts * 3 - 10**6, time_base=Fraction(1001, 90000), keyframes=np.array([0, 30]))
    videos = [uneven(40, seed=1), slower, uneven(9, seed=2), uneven(90, seed=3), uneven(1)]
    timelines = [videos[i % len(videos)] for i in range(30)]
    keys = [(5, 0, position) for position in range(len(timelines))]
    clips = [i // 5 % max(policy.num_clips(t), 1) for i, t in enumerate(timelines)]
    try:
        one_by_one = [policy.choose(t, k, None, c) for t, k, c in zip(timelines, keys, clips, strict=True)]
    except SamplingError as error:
        with pytest.raises(SamplingError, match=re.escape(str(error))):
            policy.choose_many(timelines, keys, None, clips)
        return
    assert policy.choose_many(timelines, keys, None, clips) == one_by_one


@pytest.mark.parametrize("text", TEXTS)
def test_a_choice_is_a_function_of_the_key(text: str) -> None:
    policy = parse_policy(with_pad(text, "edge"))
    timeline = uneven(60)
    assert policy.choose(timeline, (7, 1, 9)) == policy.choose(timeline, (7, 1, 9))


@pytest.mark.parametrize("text", ["random:frames=4", "segments:frames=4", "rate:fps=9,frames=3,place=random"])
def test_seed_epoch_and_position_each_matter_and_do_not_add_up(text: str) -> None:
    policy, timeline = parse_policy(text), Timeline.regular(5000)
    starts = {
        key: tuple(policy.choose(timeline, key).frame_index)
        for key in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1)]
    }
    assert len(set(starts.values())) == len(starts)


@pytest.mark.parametrize("text", TEXTS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_clip_and_its_padding_stay_inside_a_segment(text: str, data: st.DataObject) -> None:
    pad = data.draw(st.sampled_from(["edge", "reflect_101", "reflect_1001", "wrap", "shift"]))
    low = data.draw(st.integers(0, 59))
    high = data.draw(st.integers(low + 1, 60))
    try:
        spec = parse_policy(with_pad(text, pad)).choose(uneven(60), (0, 0, data.draw(st.integers(0, 99))), (low, high))
    except SamplingError:
        return
    assert (spec.frame_index >= low).all()
    assert (spec.frame_index < high).all()


def test_random_starts_are_equally_likely_the_last_legal_one_included(cases) -> None:
    """75 frames, 16 at stride 4 span 61: starts 0..14 (clip_window)."""
    expected = json.loads((cases / "expected" / "clip_window.json").read_text())
    policy, timeline = RandomClip(frames=16, stride=4), Timeline.regular(75)
    draws = 15_000
    starts = Counter(int(policy.choose(timeline, (0, 0, p)).frame_index[0]) for p in range(draws))
    assert set(starts) == set(range(expected["last_start_for_16_frames_stride_4"] + 1))
    share = draws / len(starts)  # chi-square with 14 degrees of freedom: 36.1 is passed once in a thousand
    assert sum((count - share) ** 2 / share for count in starts.values()) < 36.1


def test_half_open_time_windows_never_hold_a_frame_too_many(cases) -> None:
    expected = json.loads((cases / "expected" / "clip_window.json").read_text())
    timeline = Timeline(pts=np.arange(75) * 512, time_base=Fraction(1, 12800), last_duration_ticks=512)
    for window in expected["windows"]:
        low, high = frames_between(timeline, Fraction(window["start"]), Fraction(window["stop"]))
        assert ([low, high - 1], high - low) == (window["indices"], window["count"])


def test_uniform_and_strided_cases_from_public_reports(cases) -> None:
    tables = json.loads((cases / "expected" / "sampling_cases.json").read_text())
    modes = {"linspace_closed_half_up": "round", "segment_start": "start", "segment_centre": "center"}
    for row in tables["uniform"]:
        for key, mode in modes.items():
            if row["want"] == 1 and mode == "round":
                continue  # one frame: ours is the middle one by definition
            chosen = Uniform(frames=row["want"], mode=mode).choose(Timeline.regular(row["frames"]))
            assert chosen.frame_index.tolist() == row[key]
    for row in tables["stride"]:
        timeline = Timeline.regular(row["frames"])
        for pad, key in (("edge", "repeat_last"),):
            policy = Strided(row["stride"], start=row["start"], frames=row["want"], pad=pad)
            assert policy.choose(timeline).frame_index.tolist() == row[key]


def test_resampling_cases_show_the_frame_on_screen(cases) -> None:
    for row in json.loads((cases / "expected" / "sampling_cases.json").read_text())["resample"]:
        timeline = Timeline.regular(row["frames"], row["source_fps"])
        chosen = AtRate(row["target_fps"]).choose(timeline).frame_index.tolist()
        assert (chosen, len(chosen)) == (row["indices"], row["count"])


@pytest.mark.parametrize(
    ("frames", "pad", "expected"),
    [  # DALI 2.4, fn.decoders.video, a clip of 20 frames, observed
        ((18, 19, 20, 21, 25, 45), "constant", [18, 19, -1, -1, -1, -1]),
        ((18, 19, 20, 21, 25, 45), "repeat", [18, 19, 19, 19, 19, 19]),
        ((18, 19, 20, 21, 25, 45), "symmetric", [18, 19, 19, 18, 14, 5]),
        ((18, 19, 20, 21, 25, 45), "reflect", [18, 19, 18, 17, 13, 7]),
    ],
)
def test_lists_are_padded_as_dali_pads_them(frames: tuple[int, ...], pad: str, expected: list[int]) -> None:
    assert FrameList(frames, pad=pad).choose(Timeline.regular(20)).frame_index.tolist() == expected


@pytest.mark.parametrize(
    ("pad", "expected"),
    [
        ("none", [16, 17, 18, 19]),
        ("constant", [16, 17, 18, 19, -1, -1, -1, -1]),
        ("edge", [16, 17, 18, 19, 19, 19, 19, 19]),
        ("reflect_1001", [16, 17, 18, 19, 19, 18, 17, 16]),
        ("reflect_101", [16, 17, 18, 19, 18, 17, 16, 15]),
    ],
)
def test_ranges_are_padded_as_dali_pads_them(pad: str, expected: list[int]) -> None:
    for policy in (Strided(start=16, frames=8, pad=pad), Strided(start=16, end=24, pad=pad)):
        assert policy.choose(Timeline.regular(20)).frame_index.tolist() == expected


def test_reflection_stays_inside_the_segment_where_dali_leaks() -> None:
    """DALI 2.4 gives 10 11 10 9 8 7 6 5 for the range 10..11, frames 5..9 of which lie outside."""
    spec = First(8, pad="reflect_101").choose(Timeline.regular(20), within=(10, 12))
    assert spec.frame_index.tolist() == [10, 11, 10, 11, 10, 11, 10, 11]


@pytest.mark.parametrize(
    ("policy", "n", "expected"),
    [
        (First(3, stride=2), 10, [0, 2, 4]),
        (Last(3, stride=2), 10, [5, 7, 9]),
        (Strided(3), 10, [0, 3, 6, 9]),
        (Strided(3, start=-4), 10, [6, 9]),
        (Uniform(4), 15, [0, 5, 9, 14]),
        (Uniform(1), 15, [7]),
        (Uniform(5), 3, [0, 1, 1, 2, 2]),  # DALI's own example of uniform_sample
        (FrameList((9, 0, 4, 4, -2)), 15, [9, 0, 4, 4, 13]),
        (Segments(3, mode="center"), 15, [2, 7, 12]),
        (Delta((-2, 0, 2), at=5), 15, [3, 5, 7]),
    ],
)
def test_plain_arithmetic(policy, n: int, expected: list[int]) -> None:
    assert policy.choose(Timeline.regular(n)).frame_index.tolist() == expected


def test_windows_cover_a_long_video_and_the_last_one_moves_back() -> None:
    clips = [s.frame_index.tolist() for s in Windows(6, overlap=2).choose_all(Timeline.regular(15))]
    assert clips == [[0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 8, 9], [8, 9, 10, 11, 12, 13], [9, 10, 11, 12, 13, 14]]


def test_dense_windows_drop_or_pad_their_tail() -> None:
    starts = lambda policy: [int(s.frame_index[0]) for s in policy.choose_all(Timeline.regular(10))]  # noqa: E731
    assert starts(Dense(4, step=3)) == [0, 3, 6]
    assert starts(Dense(4)) == [0, 4]
    assert starts(Dense(4, pad="edge")) == [0, 4, 8]


def test_key_frames_are_what_the_timeline_says_and_snapping_goes_to_the_nearest() -> None:
    timeline = Timeline(pts=np.arange(15), time_base=Fraction(1, 25), keyframes=np.array([0, 4, 8, 12]))
    assert Keyframes().choose(timeline).frame_index.tolist() == [0, 4, 8, 12]
    assert Keyframes(2, mode="first").choose(timeline).frame_index.tolist() == [0, 4]
    assert Strided(start=5, frames=3, snap=1).choose(timeline).frame_index.tolist() == [4, 5, 6]
    assert Strided(start=6, frames=3, snap=1).choose(timeline).frame_index.tolist() == [6, 7, 8]


def test_times_are_compared_exactly_as_float64_and_as_float32() -> None:
    """Asking for a frame's own time gives that frame, one tick earlier gives the one before."""
    timeline = Timeline(pts=np.arange(300) * 1001, time_base=Fraction(1, 30000), last_duration_ticks=1001)
    for i in range(1, 300, 7):
        exact = Fraction(i * 1001, 30000)
        for asked in (exact, float(exact), float(np.float32(float(exact)))):
            assert FrameList(seconds=(asked,)).choose(timeline).frame_index.tolist() == [i]
        assert FrameList(seconds=(exact - Fraction(1, 30000),)).choose(timeline).frame_index.tolist() == [i - 1]


def test_a_stream_that_starts_late_keeps_its_own_times() -> None:
    """nonzero_start: first pts 7.000 s at 24 fps; 7.5 s is index 12, before it there is nothing."""
    timeline = Timeline(pts=7000 + np.round(np.arange(48) * 1000 / 24).astype(np.int64), time_base=Fraction(1, 1000))
    assert FrameList(seconds=(7.5,)).choose(timeline).frame_index.tolist() == [12]
    assert frames_between(timeline, 0, 1) == (0, 0)
    with pytest.raises(SamplingError):
        FrameList(seconds=(0.5,)).choose(timeline)


def test_variable_rate_is_taken_by_time_by_index_or_refused() -> None:
    timeline = Timeline(pts=np.array([0, 1, 2, 3, 20, 21]), time_base=Fraction(1, 10), last_duration_ticks=1)
    by_time = AtRate(5, frames=4).choose(timeline).frame_index.tolist()
    by_index = AtRate(5, frames=4, on_vfr="index").choose(timeline).frame_index.tolist()
    assert by_time == [0, 2, 3, 3]
    assert by_index != by_time
    with pytest.raises(SamplingError, match="variable"):
        AtRate(5, frames=4, on_vfr="raise").choose(timeline)


def test_counts_for_video_vaes_are_solved_together_with_the_rate() -> None:
    """10 s at 2 fps are 20 frames; 4·m + 1 and at most 9 leaves 9, over the same time: 0.9 fps."""
    spec = AtRate(2, max_frames=9, divisor=4, remainder=1).choose(Timeline.regular(300, 30))
    assert (len(spec), spec.rate_fps) == (9, 0.9)


@pytest.mark.parametrize("text", TEXTS)
def test_text_and_dict_forms_give_the_policy_back(text: str) -> None:
    policy = parse_policy(text)
    assert parse_policy(policy.to_text()) == policy
    assert parse_policy(json.loads(json.dumps(policy.to_dict()))) == policy


def test_every_policy_of_the_grammar_is_among_those_tested() -> None:
    assert {text.partition(":")[0] for text in TEXTS} == set(POLICIES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("blah", "expected one of"),
        ("uniform:frames=0", "frames=0"),
        ("uniform:frames=x", "frames"),
        ("random:frames=4,strid=2", "strid"),
        ("random:frames", "key=value"),
        ("uniform:frames=4,mode=worst", "mode"),
        ("first:pad=blah", "pad"),
        ("strided:stride=0", "stride=0"),
        ("windows:frames=4,overlap=4", "overlap=4"),
        ("strided:end=5,frames=2", "expected one of them"),
        ("rate:fps=0", "fps"),
        ("rate:fps=2,min_frames=6,max_frames=8,divisor=4,remainder=1", "min_frames=6"),
        ("uniform:frames=4,compat=blah", "compat"),
    ],
)
def test_errors_name_the_parameter_its_value_and_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(SamplingError, match=words):
        parse_policy(text)
