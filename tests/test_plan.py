"""The plan: an epoch is a permutation, ranks part it exactly, resuming gives the rest, whatever the number of ranks."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidprep.errors import SamplingError
from vidprep.records import Timeline
from vidprep.samplers import parse_policy
from vidprep.samplers.plan import Plan, PlannedClip
from vidprep.samplers.ranks import num_batches, rank_batches

if TYPE_CHECKING:
    from pathlib import Path

EDGE = parse_policy("random:frames=4,stride=2,pad=edge")
DENSE = parse_policy("dense:frames=4,stride=2")


class Collection:
    """Videos of given lengths with an index's columns."""

    def __init__(self, lengths: list[int], *, uris: list[str] | None = None, **columns: Any) -> None:
        self.timelines = [Timeline.regular(n, 25) for n in lengths]
        uris = uris or [f"/videos/{i:03}.mp4" for i in range(len(lengths))]
        self.columns = {"num_frames": np.array(lengths), "uri": np.array(uris, dtype=object)} | columns
        self.fingerprint = "test"

    def __len__(self) -> int:
        return len(self.timelines)

    def __getitem__(self, i: int) -> Any:
        return FakeVideo(self.columns["uri"][i], self.timelines[i])

    def column(self, name: str) -> Any:
        return np.asarray(self.columns[name])


class FakeVideo:
    """The part of a VideoLike that samplers look at."""

    class info:  # noqa: N801 - stands for an instance
        reorder_depth = None

    def __init__(self, uri: str, timeline: Timeline) -> None:
        self.uri, self.timeline = uri, timeline


def timelines(*lengths: int) -> list[Timeline]:
    return [Timeline.regular(n, 25) for n in lengths]


def units(plan: Plan, epoch: int) -> list[tuple[int, int]]:
    return [plan.unit(epoch, position) for position in range(len(plan))]


def positions(plan: Plan, size: int, world: int, *, drop_last: bool, start: int = 0) -> list[list[int]]:
    """Places of each rank that are not repeats."""
    return [
        [p for b in plan.batches(size, rank, world, drop_last=drop_last, start=start)
         for p, again in zip(b.positions.tolist(), b.is_repeat.tolist(), strict=True) if not again]
        for rank in range(world)
    ]  # fmt: skip


# --- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [EDGE, DENSE])
@pytest.mark.parametrize("clips_per_video", [1, 3])
def test_an_epoch_visits_every_clip_of_every_video(policy: Any, clips_per_video: int) -> None:
    videos = timelines(10, 50, 7, 100, 31)
    plan = Plan(videos, policy, seed=7, clips_per_video=clips_per_video)
    expected = Counter((v, c) for v, t in enumerate(videos) for c in range(policy.num_clips(t)))
    for epoch in (0, 1, 5):
        assert Counter(units(plan, epoch)) == dict.fromkeys(expected, clips_per_video)


def test_without_shuffle_clips_come_in_order_in_every_epoch() -> None:
    plan = Plan(timelines(20, 30), DENSE, seed=7, shuffle=False)
    assert units(plan, 0) == units(plan, 3) == sorted(units(plan, 0))


def test_seed_and_epoch_each_change_the_order_and_the_draws() -> None:
    keys = [(0, 0), (0, 1), (1, 0), (1, 1), (7, 3)]
    plans = {seed: Plan(timelines(*[200] * 50), EDGE, seed=seed) for seed, _ in keys}
    orders = [tuple(units(plans[seed], epoch)) for seed, epoch in keys]
    starts = [tuple(int(c.spec.frame_index[0]) for c in plans[s].clips(e, range(50))) for s, e in keys]
    assert len(set(orders)) == len(set(starts)) == len(keys)


def test_a_clip_is_what_the_policy_chooses_for_seed_epoch_position() -> None:
    videos = timelines(40, 50, 60)
    plan = Plan(videos, EDGE, seed=11)
    for position in range(3):
        clip = plan.clip(4, position)
        assert clip.spec == EDGE.choose(videos[clip.video], key=(11, 4, position))
        assert (clip.position, clip.clip) == (position, plan.unit(4, position)[1])


@pytest.mark.parametrize("kwargs", [{}, {"weights": [1, 2, 3, 4]}, {"buckets": [0, 1, 0, 1], "batch_size": 3}])
def test_many_clips_equal_single_clips(kwargs: Any) -> None:
    plan = Plan(timelines(40, 50, 60, 70), DENSE, seed=1, **kwargs)
    many = plan.clips(2, range(len(plan)))
    single = [plan.clip(2, position) for position in range(len(plan))]
    assert [(c.video, c.clip, c.spec, c.cost_bound) for c in many] == [
        (c.video, c.clip, c.spec, c.cost_bound) for c in single
    ]


def test_a_plan_survives_pickling_and_gives_the_same() -> None:
    plan = Plan(timelines(40, 50, 60), DENSE, seed=1, buckets=[0, 1, 1], batch_size=2, balance=2)
    before = units(plan, 0)
    assert units(pickle.loads(pickle.dumps(plan)), 0) == before


def test_a_hundred_million_clips_are_reached_at_once() -> None:
    class Many(Collection):
        def __init__(self) -> None:
            self.timeline, self.fingerprint = Timeline.regular(1600, 25), ""

        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, i: int) -> Any:
            return FakeVideo("", self.timeline)

        def column(self, name: str) -> Any:
            return np.full(1_000_000, 1600)

    plan = Plan(Many(), parse_policy("dense:frames=16"), seed=5)
    assert len(plan) == 100_000_000
    seen = {plan.unit(0, position) for position in range(0, len(plan), 9_999_991)}
    assert len(seen) == 11
    assert all(0 <= video < 1_000_000 and 0 <= clip < 100 for video, clip in seen)


@pytest.mark.parametrize("position", [-1, 3])
def test_a_position_outside_the_epoch_is_an_index_error(position: int) -> None:
    with pytest.raises(IndexError, match=r"outside 0\.\.2"):
        Plan(timelines(40, 50, 60), EDGE, seed=11).clip(0, position)


# --- ranks and resuming -----------------------------------------------------------------------------------------------


def test_shard_cases(cases: Path) -> None:
    for case in json.loads((cases / "files" / "shard_cases.json").read_text())["cases"]:
        n, world, size = case["samples"], case["world"], case["batch"]
        for name, drop_last in (("pad", False), ("drop", True)):
            want = case[name]
            ranks = [list(rank_batches(n, size, rank, world, drop_last=drop_last)) for rank in range(world)]
            assert {len(rank) for rank in ranks} == {want["batches_per_rank"]}
            assert num_batches(n, size, world, drop_last=drop_last) == want["batches_per_rank"]
            places = [p for rank in ranks for b in rank for p in b.positions.tolist()]
            if drop_last:
                assert len(places) == len(set(places)) == n - want["dropped"]
            else:
                assert {sum(len(b.positions) for b in rank) for rank in ranks} == {want["per_rank"]}
                assert set(places) == set(range(n))
                assert (
                    len(places) - n == want["repeated"] == sum(int(b.is_repeat.sum()) for rank in ranks for b in rank)
                )


def test_resume_cases(cases: Path) -> None:
    rules = json.loads((cases / "files" / "resume_cases.json").read_text())
    videos = timelines(*[60] * 103)
    runs = {}
    for case in rules["grid"]:
        plan = Plan(videos, EDGE, seed=case["seed"])
        whole = list(plan.batches(4, 1, 3))
        done = len(whole) if case["stop_after"] == "last" else case["stop_after"] + 1
        again = Plan(videos, EDGE, seed=case["seed"])  # as in a new process
        rest = list(again.batches(4, 1, 3, start=whole[done - 1].end))
        assert [b.positions.tolist() for b in rest] == [b.positions.tolist() for b in whole[done:]]
        assert units(again, case["epoch"]) == units(plan, case["epoch"])
        runs[case["seed"], case["epoch"]] = tuple(units(plan, case["epoch"]))
    assert len(set(runs.values())) == len(runs)


@settings(max_examples=200)
@given(
    n=st.integers(0, 300),
    size=st.integers(1, 9),
    world=st.integers(1, 8),
    start=st.integers(0, 300),
    drop=st.booleans(),
)
def test_ranks_part_what_is_left_exactly(n: int, size: int, world: int, start: int, drop: bool) -> None:
    start = min(start, n)
    ranks = [list(rank_batches(n, size, rank, world, drop_last=drop, start=start)) for rank in range(world)]
    assert {len(batches) for batches in ranks} == {num_batches(n, size, world, drop_last=drop, start=start)}
    for together in zip(*ranks, strict=True):  # one global batch
        assert len({(len(b.positions), b.end) for b in together}) == 1
    new = [p for batches in ranks for b in batches for p in b.positions[~b.is_repeat].tolist()]
    left = (n - start) % (size * world) if drop else 0
    assert sorted(new) == list(range(start, n - left))
    repeats = sum(int(b.is_repeat.sum()) for batches in ranks for b in batches)
    assert repeats < world


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_global_batches_are_the_same_sets_on_any_number_of_ranks(world: int) -> None:
    plan = Plan(timelines(*[30] * 96), EDGE, seed=3)
    size = 24 // world
    steps = zip(*(plan.batches(size, rank, world) for rank in range(world)), strict=True)
    assert [sorted(p for b in step for p in b.positions.tolist()) for step in steps] == np.arange(96).reshape(
        4, 24
    ).tolist()


def test_an_epoch_left_by_8_ranks_goes_on_with_3() -> None:
    plan = Plan(timelines(*[30] * 500), EDGE, seed=3)
    first = [next(plan.batches(4, rank, 8)) for rank in range(8)]
    done = {p for b in first for p in b.positions.tolist()}
    rest = positions(plan, 4, 3, drop_last=False, start=first[0].end)
    assert done | {p for rank in rest for p in rank} == set(range(500))
    assert len(done) + sum(map(len, rest)) == 500


@pytest.mark.parametrize(
    ("kwargs", "names"),
    [
        ({"batch_size": 0}, "batch_size=0"), ({"batch_size": 2, "rank": 2, "world_size": 2}, "rank=2"),
        ({"batch_size": 2, "world_size": 0}, "world_size=0"), ({"batch_size": 2, "start": 11}, "position=11"),
    ],
)  # fmt: skip
def test_ranks_that_make_no_sense_are_refused(kwargs: Any, names: str) -> None:
    with pytest.raises(SamplingError, match=names):
        next(Plan(timelines(*[30] * 10), EDGE, seed=3).batches(**kwargs))


def test_an_epoch_without_a_batch_is_an_error_before_the_first_one() -> None:
    plan = Plan(timelines(*[30] * 7), EDGE, seed=3)
    with pytest.raises(SamplingError, match="7 clips give no batch of 1 on each of 8 ranks"):
        plan.batches(1, 0, 8)
    assert [len(rank) for rank in positions(plan, 1, 8, drop_last=False)] == [1] * 7 + [0]


# --- degenerate collections -------------------------------------------------------------------------------------------


def test_no_videos_give_an_empty_plan_without_batches() -> None:
    plan = Plan([], EDGE, seed=0)
    assert (len(plan), plan.num_refused) == (0, 0)
    with pytest.raises(SamplingError, match="0 clips give no batch"):
        plan.batches(2)


def test_videos_that_are_too_short_are_counted_and_never_asked_for() -> None:
    plan = Plan(timelines(3, 20, 0, 6, 7), parse_policy("random:frames=4,stride=2,pad=drop"), seed=0)
    assert plan.num_refused == 3
    assert {plan.clip(0, position).video for position in range(len(plan))} == {1, 4}


@pytest.mark.parametrize(
    "text", ["rate:fps=5,frames=3,place=dense", "rate:fps=5,frames=3,pad=drop", "keyframes:frames=2,pad=drop"]
)
def test_a_video_that_a_policy_of_times_cannot_read_costs_one_unit(text: str) -> None:
    good, falling = keyed(60, 10), Timeline(pts=np.array([0, 5, 2, 9]), time_base=Fraction(1, 25))
    plan = Plan([falling, good, Timeline.regular(0)], parse_policy(text), seed=0)
    assert {0, 2} <= set(plan.refused.tolist())
    assert {plan.clip(0, position).video for position in range(len(plan))} == {1}


TIMED = [
    "rate:fps=5,frames=3,place=dense", "rate:fps=7,seconds=0.5,place=dense,pad=edge,start_seconds=0.2",
    "rate:fps=5,frames=3,pad=drop", "rate:fps=9,frames=4,place=random,pad=drop,on_vfr=raise", "keyframes:frames=2,pad=drop",
    "delta:seconds=-0.2/0/0.3,pad=drop", "list:seconds=28.1/28.2,pad=drop", "list:seconds=0/0.2,pad=drop",
]  # fmt: skip


def of_all_kinds() -> list[Timeline]:
    even = [
        Timeline(pts=first + step * np.arange(n), time_base=base, last_duration_ticks=lasts, keyframes=np.arange(0, n, 7))
        for n, first, step, base, lasts in [
            (60, 0, 512, Fraction(1, 12800), 512), (60, 700, 1, Fraction(1, 25), 0), (1, 3, 1, Fraction(1, 25), 40),
            (2, -5, 9, Fraction(1, 25), 1), (33, 2**60, 3, Fraction(1, 90), 3), (20, 0, 0, Fraction(1, 30), 1),
            (9, 90, -10, Fraction(1, 30), 1),
        ]
    ]  # fmt: skip
    uneven = [np.array([0, 1, 2, 9, 11]), np.array([0, 5, 2, 9]), np.array([700, 701, 701, 703, 704])]
    others = [Timeline(pts=pts, time_base=Fraction(1, 25), last_duration_ticks=1) for pts in uneven]
    return [*even, *others, Timeline.regular(0)]


class Indexed:
    """Timelines with the columns that an index has; remembers which of them were read."""

    def __init__(self, timelines: list[Timeline]) -> None:
        self.timelines, self.read = timelines, set[int]()
        ends = [(float("nan"),) * 2 if not t.num_frames else (t.pts[0], t.pts[-1]) for t in timelines]
        self.columns: dict[str, list[Any]] = {
            "num_frames": [t.num_frames for t in timelines],
            "num_keyframes": [len(t.keyframes) for t in timelines],
            "first_pts": [first for first, _ in ends],
            "last_pts": [last for _, last in ends],
            "last_duration_ticks": [t.last_duration_ticks or None for t in timelines],
            "time_base": [f"{t.time_base.numerator}/{t.time_base.denominator}" for t in timelines],
            "vfr_class": [t.timing.vfr_class for t in timelines],
        }

    def __len__(self) -> int:
        return len(self.timelines)

    def __getitem__(self, i: int) -> Timeline:
        self.read.add(i)
        return self.timelines[i]

    def column(self, name: str) -> Any:
        values = self.columns[name]
        return np.array(values, None if name in ("time_base", "vfr_class", "num_frames") else np.float64)


@pytest.mark.parametrize("text", TIMED)
def test_columns_tell_the_clips_of_videos_of_constant_rate_which_are_not_read(text: str) -> None:
    videos, policy = of_all_kinds(), parse_policy(text)
    indexed = Indexed(videos)
    by_columns, by_times = Plan(indexed, policy, seed=0), Plan(videos, policy, seed=0)
    assert [by_columns.unit(0, p) for p in range(len(by_columns))] == [
        by_times.unit(0, p) for p in range(len(by_times))
    ]
    assert by_columns.refused.tolist() == by_times.refused.tolist()
    assert indexed.read <= ({4, 7, 8, 9} if "keyframes" not in text else set())  # 4: past what float64 holds


def test_all_refused_says_so() -> None:
    plan = Plan(timelines(3, 4), parse_policy("random:frames=9,pad=drop"), seed=0)
    assert (len(plan), plan.num_refused) == (0, 2)
    with pytest.raises(SamplingError, match="2 videos give no clip"):
        plan.batches(1)


def test_a_clip_that_the_policy_refuses_is_replaced_the_same_in_every_run() -> None:
    videos = timelines(3, 40, 40, 40, 40)
    plan = Plan(videos, parse_policy("random:frames=8,pad=error"), seed=0)
    bad = next(p for p in range(len(plan)) if plan.unit(0, p)[0] == 0)
    with pytest.raises(SamplingError):
        plan.clip(0, bad)

    def serve(plan: Plan) -> PlannedClip:
        for attempt in range(1, 20):
            try:
                return plan.replacement(0, bad, attempt)
            except SamplingError:
                continue
        raise AssertionError

    first, second = serve(plan), serve(Plan(videos, plan.policy, seed=0))
    assert (first.video, first.spec, first.position) == (second.video, second.spec, bad)
    chosen = Counter(plan.replacement(0, bad, a).video for a in range(1, 200) if plan_serves(plan, bad, a))
    assert set(chosen) == {1, 2, 3, 4}


def plan_serves(plan: Plan, position: int, attempt: int) -> bool:
    try:
        plan.replacement(0, position, attempt)
    except SamplingError:
        return False
    return True


# --- weights ----------------------------------------------------------------------------------------------------------


@given(
    weights=st.lists(st.floats(0, 100), min_size=1, max_size=20).filter(any),
    n=st.integers(1, 200),
    epoch=st.integers(0, 9),
)
def test_each_video_comes_up_in_proportion_to_its_weight(weights: list[float], n: int, epoch: int) -> None:
    plan = Plan(timelines(*[30] * len(weights)), EDGE, seed=3, weights=weights, clips_per_epoch=n)
    seen = Counter(unit for unit, _ in units(plan, epoch))
    assert sum(seen.values()) == n
    for unit, weight in enumerate(weights):
        assert abs(seen[unit] - n * weight / sum(weights)) < 1 + 1e-6


def test_equal_weights_visit_every_clip_once() -> None:
    plan = Plan(timelines(*[30] * 20), DENSE, seed=3, weights=[1.0] * 20)
    assert Counter(units(plan, 0)) == Counter(units(Plan(timelines(*[30] * 20), DENSE, seed=3), 0))


@pytest.mark.parametrize(
    ("weights", "names"),
    [
        ([1, 2], "2 for 3 units"),
        ([1, -1, 0], "-1"),
        ([0, 0, 0], "all are 0"),
        ([1, np.nan, 0], "nan"),
        ("weight", "weight"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights: Any, names: str) -> None:
    with pytest.raises(SamplingError, match=names):
        Plan(timelines(30, 30, 30), EDGE, seed=3, weights=weights)


# --- clips tables -----------------------------------------------------------------------------------------------------

TABLE = [
    {"video": "/videos/001.mp4", "start_seconds": 1.0, "end_seconds": 2.0, "caption": "a dog"},
    {"video": "002.mp4", "start_seconds": 0.0, "end_seconds": 0.2, "caption": None},
    {"video": "000", "start_seconds": None, "end_seconds": 1.0, "caption": "a cat"},
    {"video": 2, "start_seconds": 3.0, "end_seconds": 99.0, "caption": "till the end"},
    {"video": "nowhere.mp4", "start_seconds": 0.0, "end_seconds": 1.0, "caption": "lost"},
    {"video": "/videos/000.mp4", "start_seconds": 50.0, "end_seconds": 60.0, "caption": "late"},
    {"video": "/videos/000.mp4", "start_seconds": 2.0, "end_seconds": 1.0, "caption": "backwards"},
    {"video": "/videos/000.mp4", "start_seconds": "soon", "end_seconds": 1.0, "caption": "no number"},
]


def columns_form(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def arrow_form(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.table(dict(columns_form(rows[:1] + rows[4:5]).items()))


@pytest.mark.parametrize("form", [list, columns_form])
def test_rows_of_a_clips_table_are_the_units(form: Any) -> None:
    plan = Plan(Collection([100, 100, 100]), EDGE, seed=5, clips=form(TABLE))
    clips = {clip.row: clip for clip in plan.clips(0, range(len(plan)))}
    assert all(plan.clip(0, clip.position).spec == clip.spec for clip in clips.values())
    ranges = {0: (25, 50), 1: (0, 5), 2: (0, 25), 3: (75, 100)}
    assert {row: clip.video for row, clip in clips.items()} == {0: 1, 1: 2, 2: 0, 3: 2}
    for row, (low, high) in ranges.items():
        assert clips[row].labels == {"caption": TABLE[row]["caption"]}
        assert low <= clips[row].spec.frame_index.min() <= clips[row].spec.frame_index.max() < high
    assert clips[1].spec.is_padding.any()  # 5 frames for a clip of 7: padded inside the row


def test_rows_that_cannot_serve_are_reported() -> None:
    plan = Plan(Collection([100, 100, 100]), EDGE, seed=5, clips=TABLE)
    assert [u.row for u in plan.unknown_clips] == [4, 5, 6, 7]
    reasons = [u.reason for u in plan.unknown_clips]
    assert "not among the 3 videos" in reasons[0]
    assert "runs from 0 to 4 s" in reasons[1]
    assert "soon" in reasons[3]


def test_a_table_of_pyarrow_is_read_by_columns() -> None:
    plan = Plan(Collection([100, 100, 100]), EDGE, seed=5, clips=arrow_form(TABLE))
    assert plan.clip(0, 0).labels == {"caption": "a dog"}
    assert [u.video for u in plan.unknown_clips] == ["nowhere.mp4"]


def test_two_videos_of_one_name_are_not_guessed_between() -> None:
    videos = Collection([100, 100], uris=["/a/x.mp4", "/b/x.mp4"])
    rows = [{"video": "x.mp4"}, {"video": "/b/x.mp4"}]
    plan = Plan(videos, EDGE, seed=5, clips=rows)
    assert plan.clip(0, 0).video == 1
    assert plan.unknown_clips[0].reason == "2 videos have this name"


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (TABLE[4:], "none of the 4 rows"), ({"clip": [1]}, "expected a column 'video'"),
        ("clips.csv", "read the file first"), ({"video": [0, 1], "caption": ["x"]}, "differ in length"),
    ],
)  # fmt: skip
def test_tables_without_a_usable_row_are_an_error(table: Any, names: str) -> None:
    with pytest.raises(SamplingError, match=names):
        Plan(Collection([100, 100, 100]), EDGE, seed=5, clips=table)


def test_dense_windows_and_weights_work_inside_rows() -> None:
    rows = {"video": [0, 0, 1], "start_seconds": [0, 2, 1], "end_seconds": [1, 4, 3], "w": [1.0, 0.0, 3.0]}
    plan = Plan(Collection([100, 100]), parse_policy("dense:frames=5,stride=2"), seed=5, clips=rows)
    assert Counter(unit for unit, _ in units(plan, 0)) == {0: 2, 1: 5, 2: 5}
    heavy = Plan(Collection([100, 100]), EDGE, seed=5, clips=rows, weights="w", clips_per_epoch=8)
    assert Counter(unit for unit, _ in units(heavy, 0)) == {0: 2, 2: 6}


# --- buckets and cost -------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    buckets=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    size=st.integers(1, 5),
    drop=st.booleans(),
    balance=st.integers(0, 2),
)
def test_batches_hold_one_bucket_and_every_clip_comes(buckets: list[int], size: int, drop: bool, balance: int) -> None:
    plan = Plan(
        timelines(*[30] * len(buckets)),
        EDGE,
        seed=1,
        buckets=buckets,
        batch_size=size,
        drop_last_of_bucket=drop,
        balance=balance,
    )
    seen = units(plan, 2)
    assert len(seen) % size == 0
    for k in range(0, len(seen), size):
        assert len({buckets[unit] for unit, _ in seen[k : k + size]}) == 1
    sizes = Counter(buckets)
    if drop:
        assert len(seen) == len(set(seen)) == sum(n // size * size for n in sizes.values())
    else:
        assert {unit for unit, _ in seen} == set(range(len(buckets)))
        repeats = [p for p in range(len(plan)) if plan.place(2, p).is_repeat]
        assert len(repeats) == len(seen) - len(buckets)


def test_bucketed_batches_stay_whole_on_several_ranks() -> None:
    plan = Plan(timelines(*[30] * 37), EDGE, seed=1, buckets=[i % 3 for i in range(37)], batch_size=4)
    for drop_last in (True, False):
        for rank in range(3):
            for batch in plan.batches(4, rank, 3, drop_last=drop_last):
                assert len(batch.positions) == 4
                assert len({plan.clip(0, p).bucket for p in batch.positions.tolist()}) == 1


def test_buckets_by_columns_and_by_edges() -> None:
    columns = {"width": [64, 64, 128, 128], "height": [64, 64, 64, 64], "avg_fps": [24.0, 25.0, 30.0, 60.0]}
    videos = Collection([30, 300, 30, 300], **columns)
    by_size = Plan(videos, EDGE, seed=1, buckets=["resolution"], batch_size=1)
    assert by_size.buckets == [(64, 64), (128, 64)]
    by_edges = Plan(videos, EDGE, seed=1, buckets={"length": [100], "fps": [29]}, batch_size=1)
    assert by_edges.buckets == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_buckets_need_the_batch_size_that_loaders_use() -> None:
    with pytest.raises(SamplingError, match="batch_size: needed"):
        Plan(timelines(30, 30), EDGE, seed=1, buckets=[0, 1])
    plan = Plan(timelines(*[30] * 8), EDGE, seed=1, buckets=[0] * 8, batch_size=2)
    with pytest.raises(SamplingError, match="batch_size=4"):
        plan.batches(4)
    with pytest.raises(SamplingError, match="multiple"):
        plan.batches(2, start=3)


def keyed(n: int, gop: int) -> Timeline:
    regular = Timeline.regular(n, 25)
    return Timeline(pts=regular.pts, time_base=regular.time_base, last_duration_ticks=1, keyframes=np.arange(0, n, gop))


def test_balancing_evens_out_batches_and_keeps_every_clip() -> None:
    videos = [keyed(400, [1, 10, 50, 200][i % 4]) for i in range(160)]
    plain = Plan(videos, EDGE, seed=1)
    even = Plan(videos, EDGE, seed=1, balance=8, batch_size=4)
    assert sorted(units(even, 0)) == sorted(units(plain, 0))

    def spread(plan: Plan) -> float:
        costs = np.array([plan.clip(0, p).cost_bound for p in range(160)]).reshape(-1, 8, 4).sum(axis=2)
        return float((costs.max(axis=1) / costs.mean(axis=1)).mean())

    assert spread(even) < 1 + (spread(plain) - 1) / 2
    for window in range(0, 160, 32):  # nothing leaves its window, whose size no rank knows of
        inside = range(window, window + 32)
        assert {even.unit(0, p) for p in inside} == {plain.unit(0, p) for p in inside}


def test_balancing_changes_no_draw() -> None:
    videos = [keyed(400, 50) for _ in range(16)]
    draws = [
        {(c.video, *c.spec.frame_index.tolist()) for c in Plan(videos, EDGE, seed=1, **kwargs).clips(0, range(16))}
        for kwargs in ({}, {"balance": 4, "batch_size": 2})
    ]
    assert draws[0] == draws[1]


def test_a_clip_above_max_cost_is_refused() -> None:
    plan = Plan([keyed(400, 400)], parse_policy("last:frames=2"), seed=1, max_cost=100)
    with pytest.raises(SamplingError, match="400 pictures decoded, max_cost=100"):
        plan.clip(0, 0)


@pytest.mark.parametrize("kwargs", [{"clips_per_video": 0}, {"batch_size": 0}, {"max_cost": 0}, {"clips_per_epoch": 5}])
def test_arguments_that_make_no_sense_are_refused(kwargs: Any) -> None:
    with pytest.raises(SamplingError, match=next(iter(kwargs))):
        Plan(timelines(30), EDGE, seed=1, **kwargs)


def test_the_fingerprint_tells_plans_apart_and_is_a_plain_int() -> None:
    videos = Collection([30, 40])
    prints = {Plan(videos, policy, seed=seed).fingerprint for policy in (EDGE, DENSE) for seed in (0, 1)}
    assert len(prints) == 4
    others = [{"weights": [1, 2]}, {"clips": [{"video": 0}]}, {"buckets": [0, 1], "batch_size": 1}, {"shuffle": False}]
    prints |= {Plan(videos, EDGE, seed=0, **kwargs).fingerprint for kwargs in others}
    assert len(prints) == 8
    assert Plan(videos, EDGE, seed=0).fingerprint in prints
    assert all(type(p) is int and 0 <= p < 2**63 for p in prints)
