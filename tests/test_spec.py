"""Specs work out late what was always true of them: times, mask, range."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest

from vidprep.records import Timeline
from vidprep.samplers import parse_policy
from vidprep.samplers.spec import DecodeSpec, FrameRange

TIMELINE = Timeline(pts=100 + 7 * np.arange(1000), time_base=Fraction(1, 210), last_duration_ticks=7)
KEYS = [(7, 0, position) for position in range(3)]


def specs(text: str) -> list[DecodeSpec]:
    """One alone, and three that share their times."""
    policy = parse_policy(text)
    return [policy.choose(TIMELINE, KEYS[0]), *policy.choose_many([TIMELINE] * 3, KEYS)]


@pytest.mark.parametrize("text", ["random:frames=5,stride=2", "first:frames=1003,pad=constant", "list:frames=3/-1"])
def test_a_spec_in_another_process_is_equal_and_carries_its_own_frames_only(text: str) -> None:
    for spec in specs(text):
        sent = pickle.dumps(spec)
        assert pickle.loads(sent) == spec == copy.deepcopy(spec)
        assert len(sent) < 600 + 30 * len(spec)


def test_times_and_mask_are_those_of_the_frames() -> None:
    for spec in specs("first:frames=1003,pad=constant"):
        assert spec.pts_seconds[[0, 999]].tolist() == [100 / 210, 7093 / 210]
        assert np.isnan(spec.pts_seconds[1000:]).all()
        assert np.flatnonzero(spec.is_padding).tolist() == [1000, 1001, 1002]
        assert spec.span == FrameRange(0, 1003, 1, "constant")


def test_a_range_inside_the_video_says_where_it_starts() -> None:
    for spec in specs("strided:stride=3,start=4,frames=5"):
        assert spec.span == FrameRange(4, 5, 3, "none")
        assert not spec.is_padding.any()


@pytest.mark.parametrize("name", ["frame_index", "pts_seconds", "is_padding", "fill_value", "span", "rate_fps"])
def test_attributes_cannot_be_set(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(specs("first")[0], name, None)


def test_a_spec_may_be_given_its_times() -> None:
    given = DecodeSpec(np.array([3]), pts_seconds=np.array([0.5]), is_padding=np.array([False]))
    assert given.pts_seconds.tolist() == [0.5]
    with pytest.raises(ValueError, match="timeline"):
        _ = DecodeSpec(np.array([3])).pts_seconds
