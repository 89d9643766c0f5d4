"""Peers' indices: their own test values, values that their code gave, and 1,000 (n, k, s) of an independent version."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import peers_reference as reference
import pytest

from vidprep.errors import SamplingError
from vidprep.loaders.cut import start_rows
from vidprep.records import SampleFlag, SampleTable, Timeline
from vidprep.samplers import parse_policy
from vidprep.samplers.compat import PEERS, RULES, libraries, models, recognition
from vidprep.samplers.draws import Draw, state_of
from vidprep.samplers.ranks import rank_batches

ROWS = reference.triples()
FROZEN = json.loads(reference.TABLE.read_text())


def frames(n, spec, clips=None, ends_only=False):
    """Frames of all clips (or of the first `clips`), one after the other; REFUSED where the policy refuses."""
    policy, timeline = parse_policy(spec), Timeline.regular(n, 30)
    try:
        chosen = (
            policy.choose_all(timeline) if clips is None else [policy.choose(timeline, clip=c) for c in range(clips)]
        )
    except SamplingError:
        return reference.REFUSED
    if ends_only:
        return [f for clip in chosen for f in (int(clip.frame_index[0]), int(clip.frame_index[-1]))]
    return [f for clip in chosen for f in clip.frame_index.tolist()]


#: How vidprep is asked for what the reference of that name computes.
OURS = {
    "torchcodec": lambda n, k, s: frames(n, f"dense:frames={k},stride={s},clips=3,compat=torchcodec"),
    "torchcodec_rate": lambda n, k, s: frames(n, f"rate:fps={s},compat=torchcodec"),
    "torchvision": lambda n, k, s: frames(n, f"dense:frames={k},step={s},compat=torchvision", ends_only=True),
    "torchvision_resample": lambda n, k, s: libraries.torchvision_resample(n, 30.0, k).tolist(),
    "mmaction2": lambda n, k, s: frames(n, f"dense:frames={k},stride={s},clips=3,compat=mmaction2"),
    "mmaction2_tsn": lambda n, k, s: frames(n, f"segments:frames={k},mode=center,compat=mmaction2"),
    "mmaction2_uniform": lambda n, k, s: frames(n, f"uniform:frames={k},compat=mmaction2"),
    "mmaction2_target_fps": lambda n, k, s: recognition.mmaction2_target_fps(n, 3, k, s, 30.0, 20.0).tolist(),
    "mmaction2_ava": lambda n, k, s: recognition.mmaction2_ava(n, n // 3, k, s).tolist(),
    "mmaction2_untrimmed": lambda n, k, s: recognition.mmaction2_untrimmed(n, 16, k, s).tolist(),
    "charades": lambda n, k, s: [f for c in range(3) for f in recognition.slowfast_charades(n, k, s, c, 3).tolist()],
    "vjepa2_overlap": lambda n, k, s: frames(n, f"dense:frames={k},stride={s},clips=2,pad=shift,compat=vjepa2"),
    "videomae_ssv2": lambda n, k, s: recognition.videomae_ssv2_test(n, k).tolist(),
    "ssv2": lambda n, k, s: frames(n, f"uniform:frames={k},compat=slowfast"),
    "slowfast": lambda n, k, s: frames(n, f"dense:frames={k},stride={s},clips=3,compat=slowfast"),
    "pytorchvideo": lambda n, k, s: frames(n, f"uniform:frames={k},compat=pytorchvideo"),
    "qwen": lambda n, k, s: frames(n, f"uniform:frames={k},compat=qwen"),
    "qwen_fps": lambda n, k, s: frames(n, f"rate:fps={s},compat=qwen"),
    "videomae": lambda n, k, s: frames(n, f"dense:frames={k},stride={s},clips=2,compat=videomae"),
    "internvideo": lambda n, k, s: frames(n, f"segments:frames={k},mode=center,compat=internvideo"),
    "internvideo_fps": lambda n, k, s: frames(n, f"rate:fps={s},max_frames={k},compat=internvideo"),
    "opensoraplan": lambda n, k, s: frames(n, "rate:fps=18,compat=opensoraplan"),
    "decord": lambda n, k, s: frames(
        n, {"name": "list", "compat": "decord", "frames": [((i * s) % n) - (n if i % 2 else 0) for i in range(k)]}
    ),
    "dali": lambda n, k, s: frames(n, f"uniform:frames={k},compat=dali"),
    "dali_dense": lambda n, k, s: frames(n, f"dense:frames={k},stride={s},compat=dali", ends_only=True),
    "lerobot": lambda n, k, s: frames(
        n, {"name": "delta", "compat": "lerobot", "at": n // 2, "seconds": [f"{d}/20" for d in range(-k, k + 1, s)]}
    ),
    "cosmos": lambda n, k, s: frames(n, f"rate:fps={s},compat=cosmos"),
    "cosmos_windows": lambda n, k, s: [
        int(c.frame_index[-1]) + 1 for c in parse_policy(f"windows:frames={k},compat=cosmos").choose_all(Timeline.regular(n))
    ],
    "llava": lambda n, k, s: frames(n, f"rate:fps={s},max_frames={k},compat=llava"),
    "diffsynth": lambda n, k, s: frames(n, f"rate:fps=24,max_frames={4 * k + 3},compat=diffsynth"),
    "finetrainers": lambda n, k, s: frames(n, f"uniform:frames={k},compat=finetrainers"),
    "wan": lambda n, k, s: frames(n, f"rate:fps={s},frames={k},compat=wan"),
    "energon": lambda n, k, s: frames(n, f"dense:frames={k},clips=3,pad=edge,compat=energon"),
    "video2dataset": lambda n, k, s: frames(n, f"uniform:frames={k},compat=video2dataset"),
    "daft": lambda n, k, s: frames(n, f"rate:fps={s},compat=daft"),
}  # fmt: skip


@pytest.mark.parametrize("name", OURS)
def test_a_thousand_frozen_rows_of_each_peer_are_met(name):
    for row, expected in zip(ROWS, FROZEN[name], strict=True):
        ours = OURS[name](*row)
        if expected == reference.crc([]):  # a peer's empty list is our refusal
            ours = [] if ours == [-99] else ours
        assert reference.crc(ours) == expected, (row, ours, reference.REFERENCES[name](*row))


def test_every_reference_is_compared():
    assert set(OURS) == set(reference.REFERENCES) == set(FROZEN)


def test_opensora_draws_only_what_the_peer_can_draw():
    for n, k, s in ROWS[:300]:
        can = reference.opensora_any(n, k, s)
        ours = frames(n, f"random:frames={k},stride={s},compat=opensora")
        assert ours in can if can else ours == reference.REFUSED


def draws(n, spec, keys=4000):
    policy, timeline = parse_policy(spec), Timeline.regular(n, 30)
    return {int(policy.choose(timeline, (7, 0, p)).frame_index[0]) for p in range(keys)}


@pytest.mark.parametrize(
    ("spec", "starts"),
    [
        ("random:frames=4,stride=2,compat=torchcodec", range(24)),  # U{0 .. N − span}
        ("random:frames=4,stride=2,compat=opensora", range(22)),  # the last legal start is never drawn
        ("random:frames=4,stride=2,compat=video2dataset", range(22)),
        ("random:frames=4,stride=2,compat=mmaction2", range(23)),  # avg = N − L + 1 = 23
        ("random:frames=4,stride=2,compat=videomae", range(22)),  # end in 8 .. 29, upper bound exclusive
        ("random:frames=4,stride=2,compat=slowfast", range(22)),  # [0, 22) truncated
    ],
)
def test_random_starts_have_the_peers_range(spec, starts):
    assert draws(30, spec) == set(starts)


def test_every_rule_serves_videos_of_one_and_two_frames_or_refuses_by_name():
    arguments = {
        "uniform": "frames=4", "random": "frames=4,stride=2", "dense": "frames=4,stride=2,pad=edge", "rate": "fps=10",
        "segments": "frames=4", "list": "frames=0", "strided": "stride=2", "delta": "offsets=-1/0/1", "windows": "frames=4",
    }  # fmt: skip
    for name, peer in RULES:
        policy = parse_policy(f"{name}:{arguments[name]},compat={peer}")
        for n in (1, 2):
            try:
                specs = policy.choose_all(Timeline.regular(n, 30))
            except SamplingError:
                continue
            for spec in specs:
                assert ((spec.frame_index >= 0) & (spec.frame_index < n)).all(), (name, peer, n)


def test_a_pair_without_a_rule_is_refused_naming_those_that_have_one():
    with pytest.raises(SamplingError, match=r"expected one of: .*qwen"):
        parse_policy("uniform:frames=8,compat=decord")
    with pytest.raises(SamplingError, match="jitter=1: expected 0"):
        parse_policy("random:frames=8,jitter=1,compat=mmaction2")
    assert "cosmos" in PEERS


# --- values of the peers' own tests, and values that their code gave when it was run


def clips(n, starts, t, s, policy):
    return [libraries.torchcodec_clip(n, start, t, s, policy).tolist() for start in starts]


def test_torchcodec_clips():
    assert clips(5, [0, 1, 2], 5, 2, "repeat_last") == [[0, 2, 4, 4, 4], [1, 3, 3, 3, 3], [2, 4, 4, 4, 4]]
    assert clips(5, [0, 1, 2], 5, 2, "wrap") == [[0, 2, 4, 0, 2], [1, 3, 1, 3, 1], [2, 4, 2, 4, 2]]
    assert clips(5, [1, 2], 5, 1, "wrap") == [[1, 2, 3, 4, 1], [2, 3, 4, 2, 3]]
    with pytest.raises(SamplingError):
        libraries.torchcodec_clip(5, 1, 5, 1, "error")
    with pytest.raises(SamplingError, match="sampling range"):
        libraries.torchcodec_regular_starts(5, 3, 5, 1, start=5)


def test_torchcodec_times():
    times = libraries.torchcodec_regular_times(5, 1, 3, 1.5)
    assert times.tolist() == [[0, 1.5, 3], [1, 2.5, 4]]
    assert libraries.torchcodec_regular_times(5, 1, 1, 1.5).tolist() == [[0], [1], [2], [3], [4]]


def test_torchcodec_times_run_out():
    rows = [libraries.torchcodec_clip_times(5, start, 5, 1.5).tolist() for start in (0, 1, 2)]
    assert rows == [[0, 1.5, 3, 4.5, 4.5], [1, 2.5, 4, 4, 4], [2, 3.5, 3.5, 3.5, 3.5]]
    assert libraries.torchcodec_clip_times(5, 1, 5, 1.5, "wrap").tolist() == [1, 2.5, 4, 1, 2.5]
    with pytest.raises(SamplingError, match="needs 5 frames"):
        libraries.torchcodec_clip_times(5, 1, 5, 1.5, "error")


def test_torchcodec_random_times_lie_in_the_sampling_range():
    starts = [libraries.torchcodec_random_time(5, 3, 1.5, Draw(seed)) for seed in range(400)]
    assert 0 <= min(starts) < 0.05
    assert 1.95 < max(starts) < 2
    with pytest.raises(SamplingError, match="sampling range"):
        libraries.torchcodec_random_time(5, 5, 1.5, Draw(0))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [("frames=0", "frames=0"), ("frames=5,clips=0", "clips=0"), ("frames=5,stride=0", "stride=0")],
)
def test_what_torchcodec_refuses_is_refused(arguments, words):
    with pytest.raises(SamplingError, match=words):
        parse_policy(f"dense:{arguments},compat=torchcodec")
    for start, end in ((5, None), (3, 3), (3, 2)):
        with pytest.raises(SamplingError, match="sampling range"):
            libraries.torchcodec_regular_starts(5, 3, 1, 1, start=start, end=end)


def test_torchvision():
    assert libraries.torchvision_window_starts(7, 3, 2, 2).tolist() == [0, 2]
    assert [len(libraries.torchvision_window_starts(n, 6, 1)) for n in (5, 10, 15)] == [0, 5, 10]
    assert libraries.torchvision_uniform_clips([5, 5, 5], 3).tolist() == [0, 2, 4, 5, 7, 9, 10, 12, 14]
    assert libraries.torchvision_uniform_clips([2, 5, 5], 3).tolist() == [0, 0, 1, 2, 4, 6, 7, 9, 11]
    even = libraries.torchvision_uniform_clips([5, 5, 5], 3).tolist()
    assert libraries.torchvision_distributed(even, 1, 2, 3) == [5, 7, 9, 0, 2, 4]
    assert libraries.torchvision_distributed(even, 0, 2, 3) == [0, 2, 4, 10, 12, 14]


def test_mmaction2():
    assert (recognition.mmaction2_test_starts(6, 8, 1, 1) + 1).tolist() == [1, 2, 2, 3, 4, 5, 5, 6]
    assert (recognition.mmaction2_train_starts(6, 8, 1, 1, Draw(0)) + 1).tolist() == [1, 2, 3, 3, 4, 5, 5, 6]
    assert (recognition.mmaction2_clips(5, np.array([0]), 6, 1) + 1).tolist() == [1, 2, 3, 4, 5, 1]
    untrimmed = recognition.mmaction2_untrimmed(100, 16, 3, 4).tolist()
    assert (untrimmed[:6], untrimmed[-3:]) == ([4, 8, 12, 20, 24, 28], [84, 88, 92])
    assert recognition.mmaction2_test_starts(100, 3, 8, 4).tolist() == [0, 36, 71]
    assert frames(100, "dense:frames=8,stride=4,clips=1,compat=mmaction2") == [35, 39, 43, 47, 51, 55, 59, 63]
    assert frames(20, "dense:frames=8,stride=4,compat=mmaction2") == [0, 4, 8, 12, 16, 0, 4, 8]
    assert frames(20, "dense:frames=8,stride=4,pad=edge,compat=mmaction2") == [0, 4, 8, 12, 16, 16, 16, 16]
    assert recognition.mmaction2_test_starts(100, 8, 1, 1).tolist() == [6, 18, 31, 43, 56, 68, 81, 93]
    assert recognition.mmaction2_uniform_test(100, 8).tolist() == [6, 18, 31, 43, 56, 68, 80, 93]


def test_mmaction2_options():
    twice = recognition.mmaction2_test_starts(6, 3, 1, 1, twice=True)
    assert twice.tolist() == [1, 3, 5, 0, 2, 4]
    starts = {
        tuple(recognition.mmaction2_train_starts(10, 3, 1, 1, Draw(d), keep_tail=True).tolist()) for d in range(300)
    }
    firsts, seconds, thirds = (set(column) for column in zip(*starts, strict=True))
    assert (firsts, seconds, thirds) == (
        {0, 1, 2, 3},
        {3, 4, 5, 6},
        {6, 7, 8, 9},
    )  # parts of 10/3 frames, the tail kept
    assert recognition.mmaction2_train_starts(3, 2, 4, 1, Draw(0), keep_tail=True).tolist() == [0, 0]
    assert recognition.mmaction2_dense_starts(100, 4, 64).tolist() == [0, 16, 32, 48]
    assert recognition.mmaction2_dense_starts(100, 2, 64, positions=3).tolist() == [0, 32, 18, 50, 36, 68]
    assert recognition.mmaction2_dense_starts(40, 4, 64).tolist() == [0, 16, 32, 8]
    firsts = {int(recognition.mmaction2_dense_starts(70, 4, 64, Draw(d))[0]) for d in range(200)}
    assert firsts == set(range(6))  # the last of 7 places is never drawn


def test_mmaction2_uniform_frames_of_many_few_and_too_few_frames():
    drawn = np.array([recognition.mmaction2_uniform_frames(20, 4, Draw(d)) for d in range(300)])
    assert [set(column) for column in drawn.T.tolist()] == [set(range(i, i + 5)) for i in (0, 5, 10, 15)]
    subsets = {tuple(recognition.mmaction2_uniform_frames(6, 4, Draw(d)).tolist()) for d in range(300)}
    assert len(subsets) == 10  # 2 of the 5 gaps before, between and after 4 frames
    assert all(list(s) == sorted(set(s)) and s[-1] < 6 for s in subsets)
    short = {tuple(recognition.mmaction2_uniform_frames(3, 4, Draw(d)).tolist()) for d in range(50)}
    assert short == {(0, 1, 2, 0), (1, 2, 0, 1), (2, 0, 1, 2)}


def test_training_draws_of_slowfast_reach_both_ends_of_their_ranges():
    drawn = np.array([recognition.slowfast_ssv2_train(17, 4, Draw(d)) for d in range(400)])
    assert [set(column) for column in drawn.T.tolist()] == [set(range(i, i + 5)) for i in (0, 4, 8, 12)]
    starts = {int(recognition.slowfast_charades(12, 4, 2, 0, 1, Draw(d))[0]) for d in range(200)}
    assert starts == set(range(6))
    assert recognition.slowfast_charades(4, 3, 3, 0, 1).tolist() == [0, 3, 3]
    assert recognition.slowfast_sequence(20, 3, 4, 2).tolist() == [0, 1, 3, 5]


def test_slowfast():
    assert recognition.slowfast_ssv2_test(100, 8).tolist() == [6, 18, 31, 43, 56, 68, 80, 93]
    assert recognition.slowfast_span(300, 64, 1, 10) == pytest.approx((23.6, 86.6))
    assert recognition.slowfast_span(300, 64, 9, 10) == pytest.approx((212.4, 275.4))
    assert recognition.slowfast_span(300, 64, 9, 10, use_offset=True) == (234, 297)


def test_videomae_window_has_a_stride_of_its_own():
    assert recognition.videomae_clip(300, 16, 4)[:5].tolist() == [0, 4, 8, 12, 17]


def test_vjepa2_steps_follow_the_rate_rounded_up():
    assert recognition.vjepa2_step(29.97, 16, fps=4) == 7
    assert recognition.vjepa2_step(29.97, 16, duration=4.0) == 7
    with pytest.raises(SamplingError, match="frame step 0"):
        recognition.vjepa2_step(25, 16, duration=0.5)


def test_vjepa2_clips_may_overlap():
    """40 frames, 8 at step 4: parts of 20 are too short for 32, so the second clip starts 40 − 32 frames on."""
    first, second = ([int(f) for f in recognition.videomae_clip(40, 8, 4, c, 2, overlap=True)] for c in (0, 1))
    assert first == [0, 5, 10, 15, 20, 25, 30, 30]
    assert second == [f + 8 for f in first]


def test_pytorchvideo():
    assert libraries.pytorchvideo_subsample(100, 8).tolist() == [0, 14, 28, 42, 56, 70, 84, 99]
    assert libraries.pytorchvideo_subsample(4, 8).tolist() == [0, 0, 0, 1, 1, 2, 2, 3]

    def number(duration, window, stride, backpad_last):
        parts = (Fraction(value, 30) for value in (duration, window, stride))
        return len(libraries.pytorchvideo_uniform_clips(*parts, backpad_last=backpad_last))

    assert [number(33, 32, 16, True), number(33, 32, 16, False)] == [2, 1]
    assert [number(109, 32, 16, True), number(109, 32, 16, False)] == [6, 5]
    assert number(1759, 1, 5, True) == 353


def test_pytorchvideo_clips_of_constant_number_and_at_random():
    starts = libraries.pytorchvideo_constant_clips(Fraction(10), Fraction(2), 5)
    assert starts == [0, 2, 4, 6, 8]
    assert libraries.pytorchvideo_constant_clips(Fraction(1), Fraction(2), 3) == [0, 0, 0]
    drawn = [libraries.pytorchvideo_random_clip(Fraction(10), Fraction(2), Draw(d)) for d in range(300)]
    assert 0 <= min(drawn) < 0.1
    assert 7.9 < max(drawn) < 8
    assert libraries.pytorchvideo_random_clip(Fraction(1), Fraction(2), Draw(3)) == 0


def test_qwen():
    assert models.qwen_count(380, 30) == 24
    assert frames(380, "rate:fps=2,compat=qwen")[:6] == [0, 16, 33, 49, 66, 82]
    assert frames(100, "uniform:frames=7,compat=qwen") == [0, 14, 28, 42, 57, 71, 85, 99]
    assert frames(30, "rate:fps=1,compat=qwen") == [0, 10, 19, 29]
    assert models.qwen_range(300, 30, 1.01, 5.99) == (31, 179)
    assert models.qwen_range(300, 30, None, 99) == (0, 299)
    assert models.qwen_frames(149, 4, start=31).tolist() == [31, 80, 130, 179]
    with pytest.raises(SamplingError, match="start before the end"):
        models.qwen_range(300, 30, 5, 5)


def test_opensora_target_fps():
    assert [models.opensora_target_fps(fps, 24) for fps in (60, 30, 25, 50)] == [(20, 3), (15, 2), (12, 2), (16, 3)]


def test_cosmos():
    pts = np.array([0, 33, 67, 100, 300, 333, 367, 400])
    timeline = Timeline(pts=pts, time_base=Fraction(1, 1000), last_duration_ticks=33)
    assert parse_policy("rate:fps=10,compat=cosmos").choose(timeline).frame_index.tolist() == [0, 3, 3, 4, 7]
    assert frames(10, "rate:fps=10,compat=cosmos") == [0, 3, 6, 9]
    fives = Timeline.regular(5, 1)
    times = "list:seconds=0.5/1.5/2.5/3.5/4.5,mode=nearest"  # cosmos' find_closest_indices: ties go left
    assert parse_policy(times).choose(fives).frame_index.tolist() == [0, 1, 2, 3, 4]


def test_dali():
    assert libraries.dali_uniform(3, 5).tolist() == [0, 1, 1, 2, 2]
    assert libraries.dali_uniform(100, 8).tolist() == [0, 14, 28, 42, 57, 71, 85, 99]
    assert libraries.dali_uniform(20, 5).tolist() == [0, 5, 10, 14, 19]
    assert frames(20, "strided:start=-2,frames=4,pad=edge,compat=dali") == [0, 0, 0, 1]
    assert frames(20, "list:frames=-1/-2/0,pad=reflect_101,compat=dali") == [1, 2, 0]


def test_torch_linspace_of_integers():
    from vidprep.samplers.compat.arithmetic import linspace_int

    values = linspace_int(0, 10, 20).tolist()
    assert (values[:4], values[-4:]) == ([0, 0, 1, 1], [8, 8, 9, 10])


def test_random_subset_of_internvideo_when_parts_are_single_frames():
    drawn = models.internvideo_rand(5, 4, Draw(state_of((1,))))
    assert sorted(set(drawn.tolist())) == drawn.tolist()
    assert len(drawn) == 4
    assert models.internvideo_rand(3, 5, Draw(3)).tolist() == [0, 1, 2, 2, 2]


def test_energon_single_frames_lie_half_a_frame_inside():
    assert libraries.energon_uniform_starts(10, 0, 3, frame=0.5).tolist() == [0.25, 5.0, 9.75]
    assert libraries.energon_uniform_starts(10, 2, 3).tolist() == [0, 4, 8]


def test_curator_clips_of_fixed_stride():
    assert libraries.curator_fixed_stride(25, 10, 10, 2) == [(0, 10), (10, 20), (20, 25)]
    assert libraries.curator_fixed_stride(21, 10, 10, 2) == [(0, 10), (10, 20)]
    assert libraries.curator_fixed_stride(10, 4, 3, 4) == [(0, 4), (3, 7), (6, 10)]


def test_ranks_get_what_spdl_gives_them():
    """11 samples on 4 ranks, the last uneven round left out."""
    taken = [
        [int(p) for batch in rank_batches(11, 1, rank, 4, drop_last=True) for p in batch.positions] for rank in range(4)
    ]
    assert taken == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_targets_are_decoded_from_the_key_frames_of_the_cosmos_plan():
    """make_decode_plan: keys 0, 100, ... 400, targets 50 and 350: one seek to 0 and one to 300."""
    n = 500
    flags = np.where(np.arange(n) % 100, SampleFlag.SHOWN, SampleFlag.SHOWN | SampleFlag.KEY).astype(np.uint8)
    table = SampleTable(offset=np.arange(n), size=np.ones(n, np.int64), pts=np.arange(n), flags=flags)
    assert start_rows(table, np.array([50, 350])).tolist() == [0, 300]
