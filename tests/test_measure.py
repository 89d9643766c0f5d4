"""Rates of the stages, over real files."""

from __future__ import annotations

from pathlib import Path

import pytest
from clip_videos import small_plan

from vidprep.errors import SamplingError
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.loaders.measure import measure_decoding, measure_engine, measure_reading

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def plan(tmp_path):
    return small_plan(tmp_path)


def test_each_stage_counts_what_it_does(plan):
    options = {"engine": "cpu", "device": "cpu", "seconds": 0.2, "threads": 2}
    for rate in (measure_reading(plan, seconds=0.2, threads=2), measure_engine(plan, **options),
                 measure_decoding(plan, **options)):  # fmt: skip
        assert rate.clips > 0
        assert rate.pictures >= rate.wanted_frames >= rate.clips
        assert rate.bytes_read > 0
        assert rate.seconds >= 0.2
        assert rate.failures == 0


def test_clips_that_cannot_be_read_are_counted_or_left_out(plan):
    Path(plan.videos[0].uri).unlink()
    rate = measure_reading(plan, seconds=0.3, threads=2)
    assert rate.failures > 0
    options = {"engine": "cpu", "device": "cpu", "seconds": 0.1, "threads": 2}
    assert measure_decoding(plan, **options).failures == 0
    for video in plan.videos[1:]:
        Path(video.uri).unlink()
    with pytest.raises(SamplingError, match="none of the first 24 clips can be read"):
        measure_decoding(plan, **options)


class Broken(CpuEngine):
    def decode(self, cut):
        raise ZeroDivisionError


@pytest.mark.parametrize("measure", [measure_engine, measure_decoding])
def test_a_bug_in_an_engine_ends_the_measurement(plan, measure):
    with pytest.raises(ZeroDivisionError):
        measure(plan, engine=Broken(), device="cpu", seconds=0.2, threads=2)
