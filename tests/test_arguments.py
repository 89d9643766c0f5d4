"""What a loader, a plan and an index may be asked for: every error is vidprep's own and names argument, value and range."""

from __future__ import annotations

import re

import numpy as np
import pytest
from clip_videos import CASES, small_plan

from vidprep.errors import ArgumentError, SamplingError, VidprepError
from vidprep.indexes import build_index, open_index
from vidprep.loaders import ClipLoader, arguments, iter_clips, read_frames
from vidprep.records import Timeline
from vidprep.samplers import Plan, RandomClip

ONE = CASES / "one_frame.mp4"


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return small_plan(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "index"
    build_index([CASES / "clip_window.mp4", CASES / "zero_bytes.mp4"], folder, workers=0)
    return open_index(folder)


@pytest.mark.parametrize(
    ("video", "frames", "options", "told"),
    [
        (b"a.mp4", [0], {}, "video=b'a.mp4': expected a path"),
        (None, [0], {}, "video=None: expected a path"),
        (["a.mp4"], [0], {}, "video=['a.mp4']: expected a path"),
        (ONE, "all", {}, "frames='all': expected integers"),
        (ONE, [True], {}, "frames=[True]: expected integers"),
        (ONE, np.array([True]), {}, "frames=array([ True]): expected integers"),
        (ONE, [0.0], {}, "frames=[0.0]: expected integers"),
        (ONE, None, {}, "frames=None: expected integers"),
        (ONE, slice(None), {}, "frames=slice(None, None, None): expected integers"),
        (ONE, range(10**12), {}, "frames=range(0, 1000000000000): expected at most 1048576 at once"),
        (ONE, [0] * 10**6, {"size": (32768, 32768)}, "1000000 frames of 32768x32768 are 3221225 GB"),
        (ONE, [0], {"size": 224}, "size=224: expected (height, width), each from 1 to 32768"),
        (ONE, [0], {"size": (224,)}, "size=(224,): expected"),
        (ONE, [0], {"size": (0, 224)}, "size=(0, 224): expected"),
        (ONE, [0], {"size": (224, 1 << 16)}, "size=(224, 65536): expected"),
        (ONE, [0], {"size": (224, 22.4)}, "size=(224, 22.4): expected"),
        (ONE, [0], {"size": "224x224"}, "size='224x224': expected"),
        (ONE, [0], {"engine": "gpu"}, "engine='gpu' is none of auto, cpu"),
        (ONE, [0], {"engine": None}, "engine=None is none of auto, cpu"),
        (ONE, [0], {"dtype": "float32"}, "dtype='float32' is none of uint8, uint16"),
        (ONE, [0], {"colour_default": "709"}, "colour_default='709' is none of bt601"),
    ],
    ids=lambda value: re.sub(r"\W+", "_", repr(value))[:24],
)
def test_read_frames_names_what_cannot_be(video, frames, options, told):
    with pytest.raises(ArgumentError, match=re.escape(told)):
        read_frames(video, frames, **options)


def test_frame_numbers_of_any_integer_kind_are_taken():
    for frames in (0, [0], (-1,), range(1), np.array([0], np.uint8), [np.int64(0)]):
        assert read_frames(ONE, frames, engine="cpu", size=(np.int64(8), 8)).shape == (1, 8, 8, 3)


@pytest.mark.dali
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"batch_size": 10**9}, "batch_size=1000000000: expected an integer from 1 to 65536"),
        ({"batch_size": 0}, "batch_size=0: expected an integer from 1"),
        ({"batch_size": 2.0}, "batch_size=2.0: expected an integer"),
        ({"batch_size": True}, "batch_size=True: expected an integer"),
        ({"threads": 10**6}, "threads=1000000: expected an integer from 1 to 1024"),
        ({"threads": 0}, "threads=0: expected an integer from 1 to 1024"),
        ({"prefetch": 10**9}, "prefetch=1000000000: expected an integer from 1 to 1024"),
        ({"max_failures": -1}, "max_failures=-1: expected an integer of 0 or more"),
        ({"size": 224}, "size=224: expected (height, width)"),
        ({"size": (10**9, 10**9)}, "size=(1000000000, 1000000000): expected (height, width), each from 1 to 32768"),
        ({"layout": ["FHWC"]}, "layout=['FHWC'] is none of FHWC"),
        ({"dtype": np.uint8}, "dtype=<class 'numpy.uint8'> is none of uint8, uint16"),
        ({"engine": 3}, "engine=3: expected one of auto"),
        ({"engine": "dali", "dtype": "uint16"}, "dtype='uint16': engine 'dali' gives uint8; take engine cpu, or nvdec"),
        ({"colour_default": "bt709x"}, "colour_default='bt709x' is none of"),
        ({"transform": 5}, "transform=5: expected a function"),
        ({"device": 0}, "device='0' is neither"),
        ({"rank": 3, "world_size": 2}, "rank=3: expected an integer from 0 to 1"),
        ({"rank": 0, "world_size": 0}, "world_size=0: expected an integer of 1 or more"),
        ({"rank": 0}, "rank and world_size go together"),
    ],
    ids=lambda value: re.sub(r"\W+", "_", str(value))[:30],
)
def test_a_loader_names_what_cannot_be_before_any_work(plan, options, told):
    with pytest.raises(ArgumentError, match=re.escape(told)):
        ClipLoader(plan, **{"batch_size": 2, "output": "numpy", **options})


@pytest.mark.dali
def test_a_batch_of_more_frames_than_memory_holds_is_refused_before_it_is_made(plan):
    long = Plan(plan.videos, RandomClip(frames=1 << 22, pad="edge"), seed=1)
    with pytest.raises(ArgumentError, match=r"4194304 frames of 4096x4096 are \d+ GB, and this machine has"):
        ClipLoader(long, batch_size=8, size=(4096, 4096), output="numpy")


@pytest.mark.dali
def test_what_is_no_plan_is_named(index):
    for call in (lambda: ClipLoader(index, batch_size=1), lambda: iter_clips(index)):
        with pytest.raises(ArgumentError, match=r"plan=Index.*: expected a vidprep.samplers.Plan"):
            call()


def test_iter_clips_checks_before_the_first_clip(plan):
    for options, told in (({"epoch": -1}, "epoch=-1"), ({"start": "x"}, "start='x'"), ({"size": 8}, "size=8")):
        with pytest.raises(ArgumentError, match=told):
            iter_clips(plan, **options)


def test_a_policy_may_be_its_text_or_dict():
    videos = [Timeline.regular(50, 25)]
    plans = [
        Plan(videos, policy, seed=3) for policy in (RandomClip(4), "random:frames=4", {"name": "random", "frames": 4})
    ]
    assert len({plan.fingerprint for plan in plans}) == 1
    assert plans[1].policy == RandomClip(4)


@pytest.mark.parametrize(
    ("videos", "policy", "options", "told"),
    [
        ([Timeline.regular(5, 5)], "nothing:frames=4", {}, "policy 'nothing': expected one of"),
        ([Timeline.regular(5, 5)], 4, {}, "policy=4: expected a policy"),
        ([Timeline.regular(5, 5)], RandomClip, {}, "expected a policy, as RandomClip(16)"),
        ("index/", "first", {}, "videos='index/': expected open_index(...)"),
        (5, "first", {}, "videos=5: expected"),
        ([Timeline.regular(5, 5)], "first", {"seed": "7"}, "seed='7': expected an integer"),
        ([Timeline.regular(5, 5)], "first", {"clips_per_video": "2"}, "clips_per_video='2': expected an integer"),
    ],
    ids=lambda value: re.sub(r"\W+", "_", str(value))[:20],
)
def test_a_plan_names_what_cannot_be(videos, policy, options, told):
    with pytest.raises(SamplingError, match=re.escape(told)):
        Plan(videos, policy, **{"seed": 0, **options})


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ({"min_frames": "x"}, "min_frames='x': expected a number"),
        ({"max_duration": True}, "max_duration=True: expected a number"),
        ({"min_frames": None}, "min_frames=None: expected a number"),
        ({"num_frames": 1.5}, "num_frames=1.5: expected an integer"),
        ({"num_frames": 1 << 70}, "expected an integer of 64 bits"),
        ({"codec": 5}, "codec=5: expected text"),
        ({"codec": ["h264", 5]}, "codec=5: expected text"),
        ({"is_vfr": "no"}, "is_vfr='no': expected True or False"),
        ({"min_is_vfr": 1}, "min_is_vfr=1: expected True or False"),
        ({"warnings": "x"}, "column 'warnings' holds lists"),
        ({"coded": 1}, "no column 'coded'"),
    ],
)  # fmt: skip
def test_where_names_what_does_not_compare(index, conditions, told):
    with pytest.raises(ArgumentError, match=re.escape(told)):
        index.where(**conditions)


def test_where_takes_numbers_of_any_kind(index):
    n = index[0]["num_frames"]
    for conditions in (
        {"min_frames": n - 0.5}, {"num_frames": np.int32(n)}, {"num_frames": [n, 1 << 60]}, {"max_fps": np.float32(1000)},
    ):  # fmt: skip
        assert len(index.where(status="ok", **conditions)) == 1
    assert len(index.where(num_frames=1 << 62)) == 0
    assert len(index.where(uri="not utf-8: \udcff")) == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"workers": "x"}, "workers='x'"), ({"workers": 10**6}, "workers=1000000: expected an integer from 0 to 4096"),
        ({"timeout_seconds": "1"}, "timeout_seconds='1'"), ({"memory_bytes": 1.5}, "memory_bytes=1.5"),
        ({"shard": (3, 2)}, "shard='3/2': expected I/N"), ({"shard": "a"}, "shard='a'"),
    ],
)  # fmt: skip
def test_build_index_names_what_cannot_be(tmp_path, options, told):
    with pytest.raises(ArgumentError, match=re.escape(told)):
        build_index([CASES], tmp_path / "index", **options)


def test_an_argument_error_is_what_python_calls_it():
    assert issubclass(ArgumentError, VidprepError)
    assert issubclass(ArgumentError, ValueError)
    assert issubclass(ArgumentError, TypeError)
    long = arguments.wrong("video", b"\0" * 10**7, "a path")
    assert len(str(long)) < 100
