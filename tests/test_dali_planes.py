"""vidprep.loaders.engines.dali_planes: the samples that RGB was made from, or none."""

from __future__ import annotations

import numpy as np
import pytest

from vidprep.loaders.colour import conversion
from vidprep.loaders.engines.dali_planes import GPU_CONVERSIONS, planes_of

#: The worst there is: noise in every sample, as far as RGB of the full range can hold it.
LUMA, CHROMA = (100, 156), (96, 160)


def noise(height, width, seed):
    numbers = np.random.default_rng(seed)
    chroma = (height + 1) // 2, (width + 1) // 2
    return (
        numbers.integers(*LUMA, (height, width)),
        numbers.integers(*CHROMA, chroma),
        numbers.integers(*CHROMA, chroma),
    )


def spread(plane, height, width):
    """Bilinear, samples in the middle of their pixels."""
    for axis, num_out in enumerate((height, width)):
        num_in = plane.shape[axis]
        centre = np.clip((np.arange(num_out) + 0.5) * num_in / num_out - 0.5, 0, num_in - 1)
        low = np.minimum(centre.astype(int), max(num_in - 2, 0))
        share = (centre - low).reshape((-1, 1) if axis == 0 else (1, -1))
        high = np.minimum(low + 1, num_in - 1)
        plane = plane.take(low, axis) * (1 - share) + plane.take(high, axis) * share
    return plane


def rgb_of(planes, table):
    height, width = planes[0].shape
    ycc = np.stack([planes[0], *(spread(plane.astype(float), height, width) for plane in planes[1:])], -1)
    return np.clip(np.rint((ycc - table.offset) @ table.matrix.T), 0, 255).astype(np.uint8)


@pytest.mark.parametrize(("height", "width"), [(48, 80), (32, 16), (2, 2)])
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_the_samples_are_found_again_or_none_are(height, width, device):
    table = conversion("bt601", "full") if device == "cpu" else GPU_CONVERSIONS["full"]
    num_found = 0
    for seed in range(4):
        planes = noise(height, width, seed)
        rgb = rgb_of(planes, table)
        found = planes_of(rgb, "full", device=device)
        if found is not None:
            num_found += 1
            assert np.array_equal(rgb_of(found, table), rgb)
            assert height == 2 or all(map(np.array_equal, found, planes))
    assert num_found >= 3


def test_pictures_that_were_not_made_that_way_give_none():
    rgb = np.random.default_rng(1).integers(60, 200, (64, 64, 3)).astype(np.uint8)
    assert planes_of(rgb, "full", device="cpu") is None


@pytest.mark.parametrize("size", [(9, 8), (8, 9)])
def test_odd_sizes_give_none(size):
    assert planes_of(np.full((*size, 3), 100, np.uint8), "full", device="cpu") is None


@pytest.mark.parametrize("level", [0, 255])
def test_channels_that_were_cut_off_give_none(level):
    rgb = np.full((8, 8, 3), 100, np.uint8)
    assert planes_of(rgb, "full", device="cpu") is not None
    rgb[3, 3, 1] = level
    assert planes_of(rgb, "full", device="cpu") is None
