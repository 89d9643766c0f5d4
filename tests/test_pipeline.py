"""The DALI graph on the CPU: sizes, layouts, dtypes, transforms, batches of any length."""

from __future__ import annotations

import numpy as np
import pytest

from vidprep.loaders.pipeline import LAYOUTS, ClipPipeline, GraphOptions, device_ordinal

pytestmark = pytest.mark.dali


def clips(count, shape=(3, 24, 32, 3), seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, shape, dtype=np.uint8) for _ in range(count)]


def run(batch, **options):
    pipeline = ClipPipeline(batch_size=8, device="cpu", options=GraphOptions(**options))
    return np.asarray(pipeline.run(batch).as_tensor())


def test_without_options_clips_come_out_as_they_went_in():
    batch = clips(3)
    assert np.array_equal(run(batch), np.stack(batch))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_moves_the_axes(layout):
    batch = clips(2)
    want = np.stack(batch).transpose(0, *(1 + "FHWC".index(axis) for axis in layout))
    assert np.array_equal(run(batch, layout=layout), want)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_dtype_keeps_the_levels(dtype):
    batch = clips(2)
    out = run(batch, dtype=dtype)
    assert out.dtype == np.dtype(dtype)
    assert np.array_equal(out, np.stack(batch))


def test_crop_keeps_the_aspect_ratio_and_the_middle():
    clip = np.zeros((2, 40, 80, 3), np.uint8)
    clip[:, :, 20:60] = 255  # the middle square
    assert (run([clip], size=(20, 20)) > 200).mean() > 0.9
    assert 0.4 < (run([clip], size=(20, 20), size_mode="stretch") > 127).mean() < 0.6


def test_clips_of_different_sizes_become_one_array_with_a_size():
    batch = [clips(1, shape)[0] for shape in ((3, 20, 30, 3), (3, 41, 33, 3))]
    assert run(batch, size=(16, 18)).shape == (2, 3, 16, 18, 3)


def test_clips_of_different_sizes_and_lengths_stay_apart_without_one():
    batch = [clips(1, shape)[0] for shape in ((3, 20, 30, 3), (5, 41, 33, 3))]
    out = ClipPipeline(batch_size=2, device="cpu", options=GraphOptions()).run(batch)
    assert not out.is_dense_tensor()
    assert all(np.array_equal(np.asarray(out[i]), clip) for i, clip in enumerate(batch))


def test_batches_may_differ_in_length_and_old_outputs_keep_their_pixels():
    pipeline = ClipPipeline(batch_size=4, device="cpu", options=GraphOptions(size=(8, 8)))
    outputs = [np.asarray(pipeline.run(clips(n, seed=n)).as_tensor()) for n in (4, 1, 3)]
    assert [len(out) for out in outputs] == [4, 1, 3]
    for n, out in zip((4, 1, 3), outputs, strict=True):
        assert np.array_equal(out, run(clips(n, seed=n), size=(8, 8)))


def test_a_transform_sees_the_resized_clips_and_its_result_is_cast():
    from nvidia.dali import fn

    def flip_and_scale(frames):
        return fn.flip(frames, horizontal=1) / 255.0

    batch = clips(2)
    out = run(batch, transform=flip_and_scale, dtype="float32", layout="FCHW")
    want = np.stack(batch)[:, :, :, ::-1].transpose(0, 1, 4, 2, 3) / 255
    assert np.allclose(out, want, atol=1e-6)


def test_random_transforms_are_the_same_for_all_frames_of_a_clip():
    from nvidia.dali import fn

    def maybe_flip(frames):
        return fn.flip(frames, horizontal=fn.random.coin_flip(probability=0.5, seed=1))

    frame = clips(1, (1, 8, 8, 3))[0]
    batch = [np.repeat(frame, 4, axis=0)] * 8
    out = run(batch, transform=maybe_flip)
    assert all((clip == clip[:1]).all() for clip in out)
    assert len({clip.tobytes() for clip in out}) == 2


@pytest.mark.parametrize(("device", "ordinal"), [("cpu", None), ("cuda", 0), ("cuda:3", 3)])
def test_device_names(device, ordinal):
    assert device_ordinal(device) == ordinal


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "", "mps:0"])
def test_other_device_names_are_refused(device):
    with pytest.raises(ValueError, match="neither"):
        device_ordinal(device)


@pytest.mark.parametrize(("layout", "shape"), [("FCHW", (4, 3, 20, 24)), ("CFHW", (3, 4, 20, 24))])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_a_training_augmentation_is_one_draw_a_clip_in_every_layout_and_dtype(layout, shape, dtype):
    from nvidia.dali import fn

    mean, std = ([123.7, 116.3, 103.5], [58.4, 57.1, 57.4]) if dtype != "uint8" else ([0, 0, 0], [1, 1, 1])

    def augment(frames):
        frames = fn.random_resized_crop(frames, size=(20, 24), seed=3)
        frames = fn.flip(frames, horizontal=fn.random.coin_flip(seed=4))
        frames = fn.color_twist(frames, brightness=fn.random.uniform(range=(0.8, 1.2), seed=5))
        return (frames - mean) / std

    frame = clips(1, (1, 40, 48, 3))[0]
    out = run([np.repeat(frame, 4, axis=0)] * 6, transform=augment, layout=layout, dtype=dtype)
    assert [clip.shape for clip in out] == [shape] * 6
    assert out[0].dtype == np.dtype(dtype)
    frames_first = [clip if layout == "FCHW" else clip.transpose(1, 0, 2, 3) for clip in out]
    assert all((clip == clip[:1]).all() for clip in frames_first)  # alike over a clip
    assert len({clip.tobytes() for clip in out}) == 6  # and drawn anew for each
    if dtype != "uint8":
        channel = frames_first[0][0, 2].astype(float) * std[2] + mean[2]
        assert 0 <= channel.min() < channel.max() <= 256
