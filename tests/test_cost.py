"""Cost bounds of clips: never below what a decoder needs, and shared within a GOP."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.records import Timeline
from vidprep.samplers.cost import balanced, cost_bound


def timeline(n: int, keys: list[int]) -> Timeline:
    regular = Timeline.regular(n)
    return Timeline(
        pts=regular.pts, time_base=regular.time_base, last_duration_ticks=1, keyframes=np.array(keys, np.int64)
    )


@pytest.mark.parametrize(
    ("keys", "frames", "depth", "expected"),
    [
        ([0, 10, 20], [12], 0, 3),  # 10, 11, 12
        ([0, 10, 20], [12, 15], 0, 6),  # one GOP: 10..15
        ([0, 10, 20], [2, 12, 25], 0, 12),  # three GOPs: 0..2, 10..12, 20..25
        ([0, 10, 20], [12], 2, 5),  # two more may come before 12 in decode order
        ([0, 10, 20], [9], 4, 14),  # shown before key 10, perhaps decoded after it (open GOP)
        ([0], [29], None, 30),  # never more than the video has
        (list(range(30)), [5, 6, 20], None, 3),  # all key frames
        ([], [7], 0, 8),  # no key frames known
        ([5], [2], 0, 3),  # before the first key frame
        ([0], [], 0, 0),
    ],
)
def test_cost_bounds(keys: list[int], frames: list[int], depth: int | None, expected: int) -> None:
    assert cost_bound(timeline(30, keys), np.array(frames, np.int64), depth) == expected


@given(
    keys=st.sets(st.integers(1, 59), max_size=12), frames=st.sets(st.integers(0, 59), min_size=1, max_size=8),
    depth=st.integers(0, 3),
)  # fmt: skip
def test_the_bound_is_never_below_a_decoder_that_starts_at_key_frames(
    keys: set[int], frames: set[int], depth: int
) -> None:
    starts = sorted({0} | keys)
    needed: set[int] = set()
    for frame in frames:
        needed |= set(range(max(k for k in starts if k <= frame), frame + 1))
    bound = cost_bound(timeline(60, starts), np.array(sorted(frames)), depth)
    assert len(needed) <= bound <= len(needed) + depth * len(frames)


@given(costs=st.lists(st.integers(0, 1000), min_size=1, max_size=60), size=st.integers(1, 7))
def test_balancing_is_a_permutation(costs: list[int], size: int) -> None:
    assert sorted(balanced(np.array(costs), size).tolist()) == list(range(len(costs)))


def test_balancing_deals_costly_clips_to_different_batches() -> None:
    order = balanced(np.array([100, 100, 100, 1, 1, 1]), 2)
    assert sorted(np.array([100, 100, 100, 1, 1, 1])[order].reshape(3, 2).sum(axis=1)) == [101, 101, 101]
