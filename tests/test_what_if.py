"""Estimates for other GOP lengths."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.records import SampleFlag, SampleTable, Timeline
from vidprep.samplers.cost import cost_bound
from vidprep.samplers.what_if import bytes_with_gop, cost_with_gop


def table_of(sizes, gop):
    n = len(sizes)
    flags = np.full(n, SampleFlag.SHOWN, np.uint8)
    flags[::gop] |= np.uint8(SampleFlag.KEY)
    return SampleTable(
        offset=np.cumsum(sizes) - sizes, size=np.array(sizes, np.int64), pts=np.arange(n, dtype=np.int64), flags=flags
    )  # fmt: skip


@given(n=st.integers(1, 200), gop=st.integers(1, 60), data=st.data())
def test_the_gop_that_a_video_has_costs_what_it_costs(n, gop, data):
    timeline = dataclasses.replace(Timeline.regular(n), keyframes=np.arange(0, n, gop))
    frames = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=8))), np.int64)
    assert cost_with_gop(timeline, frames, gop, 0) == cost_bound(timeline, frames, 0)
    assert cost_with_gop(timeline, frames, 1, 0) == len(frames)


def test_size_follows_the_share_of_key_frames():
    sizes = np.where(np.arange(100) % 10 == 0, 1000, 100)
    table = table_of(sizes, 10)
    assert bytes_with_gop(table, 10) == pytest.approx(sizes.sum())
    assert bytes_with_gop(table, 1) == pytest.approx(100_000)
    assert bytes_with_gop(table, 50) == pytest.approx(2 * 1000 + 98 * 100)


def test_a_video_of_one_kind_of_sample_tells_nothing():
    assert bytes_with_gop(table_of(np.full(10, 5), 1), 4) is None
    empty = np.zeros(0, np.int64)
    none = SampleTable(offset=empty, size=empty, pts=empty, flags=np.zeros(0, np.uint8))
    assert bytes_with_gop(none, 4) is None
