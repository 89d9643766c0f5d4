"""Cuts from torch's DataLoader workers, decoded by a DALI Proxy server."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from clip_videos import CASES, copied_videos
from clips_made import make_paired_vp9, make_video

from vidprep.errors import DecodeError
from vidprep.loaders.engines.superframes import SEVERAL_PICTURES
from vidprep.loaders.frames import as_video
from vidprep.loaders.proxy import INPUTS, ClipDataset, PlanBatches, clip_pipeline, import_proxy
from vidprep.samplers import FrameList, RandomClip
from vidprep.samplers.plan import Plan

pytestmark = [pytest.mark.dali, pytest.mark.timeout(120)]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

VP9 = {"cpu-used": "8", "deadline": "realtime"}


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vp9")
    names = [folder / f"{n}.webm" for n in range(4)]
    return [as_video(make_video(path, codec="libvpx-vp9", frames=30, options=VP9)) for path in names]


def inputs(**values):
    """Stands for a proxy: gives back what it was given."""
    return values


def run_by_hand(pipe, samples):
    pipe.build()
    for name in INPUTS:
        pipe.feed_input(name, [sample["frames"][name] for sample in samples])
    (out,) = pipe.run()
    return [np.asarray(out[i]) for i in range(len(out))]


def test_the_file_holds_the_frames_of_the_clip_repeats_and_all(videos):
    plan = Plan(videos, FrameList(frames=[9, 3, 3, 20]), seed=1, shuffle=False)
    samples = [ClipDataset(plan, inputs)[0, n] for n in range(4)]
    clips = run_by_hand(clip_pipeline(batch_size=4), samples)
    whole = Plan(videos, FrameList(frames=list(range(30))), seed=1, shuffle=False)
    every = run_by_hand(clip_pipeline(batch_size=4), [ClipDataset(whole, inputs)[0, n] for n in range(4)])
    for clip, frames, sample in zip(clips, every, samples, strict=True):
        assert sample["frame_index"].tolist() == [9, 3, 3, 20]
        assert np.array_equal(clip, frames[[9, 3, 3, 20]])


def test_a_stream_that_dali_would_get_wrong_is_refused_by_name(tmp_path):
    (video,) = copied_videos(tmp_path, ("color_fullrange_709.mp4",))
    plan = Plan([video], FrameList(frames=[0]), seed=1)
    with pytest.raises(DecodeError, match=r"BT\.601"):
        ClipDataset(plan, inputs, device="cuda:0", on_error="raise")[0, 0]
    assert ClipDataset(plan, inputs, device="cuda:0", on_error="raise", colours="dali")[0, 0]["clip"] == 0
    with pytest.raises(DecodeError, match="DALI on cpu decodes"):
        ClipDataset(plan, inputs, on_error="raise")[0, 0]


def test_vp9_samples_that_show_several_pictures_are_refused_by_name(tmp_path):
    single, paired = (Plan([as_video(path)], FrameList(frames=[3]), seed=1) for path in make_paired_vp9(tmp_path))
    assert ClipDataset(single, inputs, on_error="raise")[0, 0]["frame_index"].tolist() == [3]
    with pytest.raises(DecodeError, match=SEVERAL_PICTURES):
        ClipDataset(paired, inputs, on_error="raise")[0, 0]


def test_a_video_that_cannot_be_had_is_replaced_in_the_worker(videos):
    broken = as_video(CASES / "clip_window.mp4")  # H.264, which DALI does not decode on the CPU
    plan = Plan([broken, *videos], RandomClip(frames=4, pad="edge"), seed=1)
    taken = [ClipDataset(plan, inputs)[0, n]["video"] for n in range(5)]
    assert 0 not in taken


def test_batches_of_all_ranks_are_the_epoch(videos):
    plan = Plan(videos, RandomClip(frames=4), seed=1, clips_per_video=3)
    epochs = [list(PlanBatches(plan, batch_size=2, rank=r, world_size=3)) for r in range(3)]
    assert sorted(p for batches in epochs for b in batches for e, p in b if e == 0) == list(range(12))
    batches = PlanBatches(plan, batch_size=2)
    assert [len(list(batches)), len(batches)] == [6, 6]
    assert {e for b in batches for e, _ in b} == {1}


def batches_of(kind, dali, server, dataset, batches):
    if kind == "DALI's":
        yield from dali.DataLoader(server, dataset, batch_sampler=batches, num_workers=1)
        return
    from torch.utils.data import DataLoader

    for batch in DataLoader(dataset, batch_sampler=batches, num_workers=2 if kind == "torch's, processes" else 0):
        yield server.produce_data(batch)


@needs_torch
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("kind", ["DALI's", "torch's", "torch's, processes"])
def test_data_loaders_give_decoded_batches_in_the_order_of_the_plan(videos, kind):
    dali = import_proxy()
    plan = Plan(videos, RandomClip(frames=4, stride=2), seed=1, clips_per_video=2)
    with dali.DALIServer(clip_pipeline(batch_size=2, size=(32, 40))) as server:
        dataset = ClipDataset(plan, server.proxy)
        batches = list(batches_of(kind, dali, server, dataset, PlanBatches(plan, batch_size=2)))
    assert [p for b in batches for p in b["clip"].tolist()] == list(range(8))
    for batch in batches:
        assert tuple(batch["frames"].shape) == (2, 4, 32, 40, 3)
        assert batch["frame_index"].shape == (2, 4)
