"""Batches as arrays of other libraries: torch and JAX take them without a copy, and keep them."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from clip_videos import copied_videos, small_plan

from vidprep.loaders import ClipLoader
from vidprep.samplers import First
from vidprep.samplers.plan import Plan

pytestmark = [pytest.mark.dali, pytest.mark.timeout(120)]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return small_plan(tmp_path_factory.mktemp("videos"))


def batches_of(plan, output, **options):
    """All batches of an epoch, looked at after the loader is gone."""
    with ClipLoader(plan, batch_size=5, size=(32, 40), output=output, **options) as loader:
        return list(loader)


@needs_torch
def test_a_gpu_that_is_not_there_is_named(plan):
    import torch

    from vidprep.errors import ArgumentError
    from vidprep.loaders.dali_source import DaliSource

    count = torch.cuda.device_count()
    told = rf"device='cuda:{count}': expected c"
    for make in (ClipLoader, DaliSource):
        with pytest.raises(ArgumentError, match=told):
            make(plan, batch_size=1, device=f"cuda:{count}", engine="cpu")


@needs_torch
def test_torch_has_sixteen_bits(plan):
    import torch

    with ClipLoader(plan, batch_size=5, size=(32, 40), dtype="uint16") as loader:
        theirs = [batch.frames for batch in loader]
    for got, want in zip(theirs, batches_of(plan, "numpy", dtype="uint16"), strict=True):
        assert got.dtype == torch.uint16
        assert np.array_equal(got.numpy(), want.frames)
        assert np.array_equal(got.float().div(65535).numpy(), (want.frames.astype(np.float32) / 65535))


@needs_jax
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32"])
def test_jax_sees_what_numpy_sees(plan, dtype):
    import jax

    with ClipLoader(plan, batch_size=5, size=(32, 40), output="dlpack", dtype=dtype) as loader:
        theirs = [jax.dlpack.from_dlpack(batch.frames) for batch in loader]
    mine = batches_of(plan, "numpy", dtype=dtype)
    for got, want in zip(theirs, mine, strict=True):
        assert isinstance(got, jax.Array)
        assert np.array_equal(np.asarray(got), want.frames)
    total = jax.jit(lambda frames: frames.astype("float32").sum())(theirs[0])
    assert float(total) == pytest.approx(mine[0].frames.astype(np.float64).sum(), rel=1e-5)


@needs_torch
@pytest.mark.parametrize("size", [(32, 40), None])
def test_torch_sees_what_numpy_sees(tmp_path, size):
    import torch

    plan = Plan(copied_videos(tmp_path, ("clip_window.mp4", "odd_size.webm")), First(frames=3), seed=1)
    with ClipLoader(plan, batch_size=5, size=size) as loader, ClipLoader(
        plan, batch_size=5, size=size, output="numpy"
    ) as other:  # fmt: skip
        for got, want in zip(loader, other, strict=True):
            moved = got.to("cpu", non_blocking=True)
            assert isinstance(moved.frames, torch.Tensor if size else list)
            for mine, theirs in zip(moved.frames, want.frames, strict=True):
                assert np.array_equal(mine.numpy(), theirs)
            assert moved.clip.tolist() == want.clip.tolist()


@needs_torch
def test_torch_frames_are_not_copied(plan):
    (first, *_) = batches_of(plan, "torch")
    array = np.from_dlpack(first.frames)
    assert array.ctypes.data == first.frames.data_ptr()


@needs_torch
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_padding_and_repeats_are_the_same_in_torch_and_numpy(dtype):
    import torch

    from vidprep.loaders.batches import spread
    from vidprep.records import Timeline
    from vidprep.samplers import FrameList

    timeline = Timeline.regular(10, 25)
    have = np.array([1, 3])
    pictures = np.random.default_rng(1).integers(0, np.iinfo(dtype).max, (2, 4, 6, 3)).astype(dtype)
    for frames, fill in (((3, 12, 1, 3), (255, 0, 7)), ((11, 12), 9), ((1, 3), 0)):
        spec = FrameList(frames=frames, pad="constant", fill_value=fill).choose(timeline, (0, 0, 0))
        known = have if min(frames) < 10 else have[:0]
        mine = spread(pictures[: len(known)], known, spec)
        theirs = spread(torch.from_numpy(pictures[: len(known)]), known, spec)
        assert theirs.dtype == getattr(torch, dtype)
        assert np.array_equal(theirs.numpy(), mine)
        levels = np.atleast_1d(fill).astype(int) * (257 if dtype == "uint16" else 1)
        assert (mine[np.array(frames) >= 10] == levels).all()
