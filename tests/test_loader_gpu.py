"""The loader on a GPU: the same batches as on the CPU, torch tensors that are ready, memory that comes back."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from clip_videos import copied_videos

from vidprep.loaders import ClipLoader, read_frames
from vidprep.samplers import RandomClip
from vidprep.samplers.plan import Plan

pytestmark = [pytest.mark.gpu, pytest.mark.dali, pytest.mark.timeout(300)]

DEVICE = "cuda:0"
#: Memory that CUDA, DALI and PyNvVideoCodec load with their code at first use is not counted: each test warms up.
MAX_KEPT_MB = 64


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    names = ("clip_window.mp4", "open_gop.mp4", "ctts_v1_negative.mp4", "vp9_altref.webm", "vfr_steps.mp4")
    videos = copied_videos(tmp_path_factory.mktemp("videos"), names)
    return Plan(videos, RandomClip(frames=4, stride=2, pad="edge"), seed=7, clips_per_video=4)


def gpu_mb():
    import torch

    gc.collect()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 1e6


def test_batches_are_those_of_the_cpu(plan):
    with ClipLoader(plan, batch_size=5, device=DEVICE) as loader, ClipLoader(
        plan, batch_size=5, output="numpy"
    ) as other:  # fmt: skip
        for got, want in zip(loader, other, strict=True):
            assert str(got.frames.device) == DEVICE
            assert got.clip.tolist() == want.clip.tolist()
            assert np.array_equal(got.frame_index, want.frame_index)
            assert np.abs(got.frames.cpu().numpy().astype(int) - want.frames).max() <= 2


@pytest.mark.parametrize("size", [None, (36, 64)])
def test_uint16_batches_are_those_of_the_cpu(tmp_path, size):
    videos = copied_videos(tmp_path, ("h264_10bit.mp4", "clip_window.mp4"))
    policy = RandomClip(frames=4, stride=30, pad="constant", fill_value=(255, 0, 1))
    plan = Plan(videos, policy, seed=7, clips_per_video=3)
    options = {"batch_size": 1, "dtype": "uint16", "size": size}
    with ClipLoader(plan, device=DEVICE, **options) as loader, ClipLoader(plan, output="numpy", **options) as other:
        for got, want in zip(loader, other, strict=True):
            assert got.frames.is_cuda
            pixels = got.frames.cpu().numpy()
            assert pixels.dtype == want.frames.dtype == np.uint16
            assert np.abs(pixels.astype(int) - want.frames).max() <= 2 * 257
            assert (pixels[want.is_padding] == np.array([65535, 0, 257])).all() or size


def test_uint16_in_another_size_is_read_on_a_gpu(cases):
    path = cases / "files" / "h264_10bit.mp4"
    got, want = (read_frames(path, [0, 9], engine=engine, dtype="uint16", size=(36, 64)) for engine in ("nvdec", "cpu"))
    assert got.dtype == np.uint16
    assert np.abs(got.astype(int) - want).max() <= 2 * 257


def test_batches_keep_their_pixels_while_later_ones_are_made(plan):
    with ClipLoader(plan, batch_size=2, device=DEVICE, size=(64, 64), prefetch=3) as loader:
        kept = [(batch.frames, batch.frames.sum(dtype=int).item()) for batch in loader]
    assert all(frames.sum(dtype=int).item() == total for frames, total in kept)


def test_batches_are_the_same_whatever_the_threads(plan):
    runs = []
    for threads in (1, 27):
        with ClipLoader(plan, batch_size=4, device=DEVICE, size=(64, 64), threads=threads) as loader:
            runs.append([batch.frames.cpu().numpy().tobytes() for batch in loader])
    assert runs[0] == runs[1]


def test_closing_gives_the_memory_back_also_in_mid_epoch(plan):
    used = []
    for _ in range(4):
        with ClipLoader(plan, batch_size=4, device=DEVICE, size=(224, 224)) as loader:
            batches = iter(loader)
            next(batches)
        del batches, loader
        used.append(gpu_mb())
    assert used[-1] - used[0] <= MAX_KEPT_MB


def test_numpy_and_dlpack_batches_of_a_gpu(plan):
    import torch

    with ClipLoader(plan, batch_size=5, device=DEVICE, size=(32, 40), output="numpy") as loader, ClipLoader(
        plan, batch_size=5, device=DEVICE, size=(32, 40), output="dlpack"
    ) as other:  # fmt: skip
        for mine, theirs in zip(loader, other, strict=True):
            assert np.array_equal(mine.frames, torch.from_dlpack(theirs.frames).cpu().numpy())
