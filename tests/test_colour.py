"""The colour tables against swscale itself, and the torch and Triton conversions against both where torch is."""

from __future__ import annotations

import importlib.util

import av
import numpy as np
import pytest
from av.video.reformatter import Interpolation, VideoReformatter

from vidprep.errors import DecodeError
from vidprep.loaders.colour import HORIZONTAL_LIMIT, conversion, upsample_taps
from vidprep.records import StreamInfo

FLAGS = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
SIZES = [(64, 64), (36, 50), (145, 161), (33, 47), (108, 192)]
MATRICES = {"bt601": "ITU601", "bt709": "ITU709", "smpte240m": "SMPTE240M"}


def planes(height, width, ten_bit=False, seed=0):
    """Noise within what RGB can show."""
    rng, unit = np.random.default_rng(seed), 4 if ten_bit else 1
    dtype = np.uint16 if ten_bit else np.uint8
    chroma = ((height + 1) // 2, (width + 1) // 2)
    return [
        rng.integers(low * unit, high * unit, shape).astype(dtype)
        for low, high, shape in ((16, 235, (height, width)), (64, 192, chroma), (64, 192, chroma))
    ]


def swscale(parts, matrix, colour_range, pix_fmt="yuv420p"):
    frame = av.VideoFrame(parts[0].shape[1], parts[0].shape[0], pix_fmt)
    for plane, part in zip(frame.planes, parts, strict=True):
        buffer = np.zeros((plane.height, plane.line_size // part.itemsize), part.dtype)
        buffer[:, : part.shape[1]] = part
        plane.update(buffer)
    return VideoReformatter().reformat(
        frame, format="rgb24", interpolation=FLAGS, src_colorspace=matrix, dst_colorspace=matrix,
        src_color_range="JPEG" if colour_range == "full" else "MPEG", dst_color_range="JPEG",
    ).to_ndarray().astype(int)  # fmt: skip


def by_tables(parts, matrix, colour_range, scale=1.0):
    height, width = parts[0].shape

    def up(plane):
        (x, across), (y, down) = upsample_taps(plane.shape[1], width), upsample_taps(plane.shape[0], height)
        lines = np.minimum((plane.astype(float)[:, x] * scale * across).sum(-1), HORIZONTAL_LIMIT)
        return (lines[y] * down[:, :, None]).sum(1)

    table = conversion(matrix, colour_range)
    ycc = np.stack([parts[0] * scale, up(parts[1]), up(parts[2])], -1) - table.offset
    return np.clip(np.rint(ycc @ table.matrix.T.astype(float)), 0, 255).astype(int)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("colour_range", ["limited", "full"])
@pytest.mark.parametrize("matrix", MATRICES)
def test_tables_are_within_two_levels_of_swscale(size, colour_range, matrix):
    parts = planes(*size)
    error = np.abs(swscale(parts, MATRICES[matrix], colour_range) - by_tables(parts, matrix, colour_range))
    assert error.max() <= 2
    assert error.mean() < 0.1


def test_ten_bit_too():
    parts = planes(48, 80, ten_bit=True)
    error = np.abs(swscale(parts, "ITU709", "limited", "yuv420p10le") - by_tables(parts, "bt709", "limited", 0.25))
    assert error.max() <= 2


def test_untagged_is_bt601_limited():
    assert conversion(None, None) is not None
    assert np.array_equal(conversion(None, None).matrix, conversion("bt601", "limited").matrix)


@pytest.mark.parametrize("matrix", ["ycgco", "rgb", "ictcp"])
def test_other_matrices_are_refused_by_name(matrix):
    with pytest.raises(DecodeError, match=matrix):
        conversion(matrix, "limited")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("ten_bit", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_torch_conversion_is_within_two_levels_of_swscale(size, ten_bit):
    import torch

    from vidprep.loaders.engines.rgb import surface_to_rgb

    (height, width), parts = size, planes(*size, ten_bit=ten_bit)
    surface = np.zeros((1, height + (height + 1) // 2, width + width % 2), parts[0].dtype)
    surface[0, :height, :width] = parts[0]
    surface[0, height:, 0::2], surface[0, height:, 1::2] = parts[1:]
    if ten_bit:
        surface = (surface << 6).view(np.int16)
    info = StreamInfo(
        container="mp4", codec="vp9", width=width, height=height, colour_matrix="bt709", colour_range="limited"
    )
    want = swscale(parts, "ITU709", "limited", "yuv420p10le" if ten_bit else "yuv420p")
    assert np.abs(surface_to_rgb(torch.from_numpy(surface), info)[0].numpy() - want).max() <= 2
