"""vidprep.loaders.clips: an epoch's clips one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from drawn import drawn_number

from vidprep.errors import DecodeError, MediaError
from vidprep.loaders import iter_clips, read_frames
from vidprep.loaders.frames import as_video
from vidprep.samplers import Plan, RandomClip, Uniform


@pytest.fixture(scope="module")
def videos():
    files = Path(__file__).parent / "cases" / "files"
    return [as_video(files / name) for name in ("open_gop.mp4", "vp9_altref.webm", "ts_wrap33.ts")]


def test_clips_hold_the_frames_that_the_plan_chose(videos):
    plan = Plan(videos, RandomClip(frames=4, stride=3, pad="edge"), seed=3)
    clips = list(iter_clips(plan, 2))
    assert [clip.position for clip in clips] == list(range(plan.num_positions))
    for clip in clips:
        spec = plan.clip(2, clip.position).spec
        assert clip.spec == spec
        assert [drawn_number(frame) for frame in clip.frames] == spec.frame_index.tolist()
        assert np.array_equal(clip.frames, read_frames(videos[clip.video], spec.frame_index, engine="cpu"))
        assert clip.pts_seconds.tolist() == spec.pts_seconds.tolist()


def test_constant_padding_has_the_fill_value_and_no_frame(videos):
    plan = Plan(videos[2:], RandomClip(frames=64, stride=1, pad="constant", fill_value=7), seed=3)
    clip = next(iter_clips(plan))
    assert clip.is_padding.sum() == 24
    assert (clip.frames[clip.is_padding] == 7).all()
    assert (clip.frame_index[clip.is_padding] == -1).all()


def test_an_epoch_may_be_entered_anywhere(videos):
    plan = Plan(videos, Uniform(frames=3), seed=3, clips_per_video=2)
    assert np.array_equal(next(iter_clips(plan, 1, start=4)).frames, list(iter_clips(plan, 1))[4].frames)


@pytest.fixture
def holed(videos, tmp_path):
    """A plan over one video that has vanished and one that has not."""
    gone = tmp_path / "gone.mp4"
    gone.write_bytes(Path(videos[0].uri).read_bytes())
    video = as_video(gone)
    gone.unlink()
    return Plan([video, videos[1]], Uniform(frames=2), seed=1)


def test_a_clip_that_cannot_be_had_is_replaced_skipped_or_raised(holed):
    replaced = list(iter_clips(holed))
    assert [clip.is_valid for clip in replaced] == [True, True]
    assert [clip.video for clip in replaced] == [1, 1]
    assert sorted(failure.reason for clip in replaced for failure in clip.failures)[-1:] == ["vanished"]
    skipped = list(iter_clips(holed, on_error="skip"))
    assert sorted((clip.video, clip.is_valid) for clip in skipped) == [(0, False), (1, True)]
    with pytest.raises((MediaError, DecodeError), match="vanished"):
        list(iter_clips(holed, on_error="raise"))


def test_an_unknown_policy_for_errors_is_refused(holed):
    with pytest.raises(ValueError, match="none of replace, skip, raise"):
        next(iter_clips(holed, on_error="ignore"))
