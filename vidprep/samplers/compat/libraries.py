"""Exact indices of decoding and data libraries.

torchcodec (samplers/_index_based.py, _time_based.py, _common.py), torchvision (datasets/video_utils.py, samplers/
clip_sampler.py), pytorchvideo (data/clip_sampling.py, transforms/functional.py), DALI (reader and `uniform_sample`),
Energon (av_decoder.py), LeRobot (delta_timestamps), cosmos-curate (core/sensors/sampling), NeMo Curator (clipping),
Daft (read_video_frames), video2dataset. N = frames of the video, T = frames of a clip, K = clips, s = stride.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers.compat.arithmetic import (
    integers,
    linspace_f32,
    linspace_int,
    linspace_np,
    uniform_int,
    uniform_real,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.samplers.draws import Draw
    from vidprep.timebase import FloatArray, IntArray

__all__ = [
    "cosmos_grid_count", "cosmos_windows", "curator_fixed_stride", "daft_interval", "dali_dense_starts", "dali_uniform",
    "energon_uniform_starts", "lerobot_delta", "pytorchvideo_constant_clips", "pytorchvideo_random_clip",
    "pytorchvideo_subsample", "pytorchvideo_uniform_clips", "torchcodec_clip", "torchcodec_clip_times",
    "torchcodec_random_start", "torchcodec_random_time", "torchcodec_regular_starts", "torchcodec_regular_times",
    "torchvision_distributed", "torchvision_resample", "torchvision_uniform_clips", "torchvision_window_starts",
    "video2dataset_start", "video2dataset_uniform",
]  # fmt: skip


def _torchcodec_range(n: int, t: int, s: int, start: int, end: int | None) -> tuple[int, int]:
    start = start + n if start < 0 else start
    stop = max(n - (s * (t - 1) + 1) + 1, 1) if end is None else min(end + n if end < 0 else end, n)
    if not 0 <= start < n or start >= stop:
        raise SamplingError(f"torchcodec: sampling range [{start}, {stop}): expected 0 <= start < end, start < {n}")
    return start, stop


def torchcodec_regular_starts(n: int, k: int, t: int, s: int, start: int = 0, end: int | None = None) -> IntArray:
    """`clips_at_regular_indices`: first frames of K clips, torch.linspace over the sampling range."""
    first, stop = _torchcodec_range(n, t, s, start, end)
    return linspace_int(first, stop - 1, k)


def torchcodec_random_start(n: int, t: int, s: int, draw: Draw, start: int = 0, end: int | None = None) -> int:
    """`clips_at_random_indices`: uniform over the sampling range."""
    first, stop = _torchcodec_range(n, t, s, start, end)
    return uniform_int(draw, first, stop - 1)


def torchcodec_clip(n: int, start: int, t: int, s: int, policy: str = "repeat_last") -> IntArray:
    """Frames of one clip: those inside the video, then "repeat_last", "wrap" (within the clip) or "error"."""
    inside = np.arange(start, min(start + s * (t - 1) + 1, n), s, dtype=np.int64)
    if len(inside) < t and policy == "error":
        raise SamplingError(f"torchcodec: clip from {start} needs {t} frames, {len(inside)} are in the video")
    i = np.arange(t)
    return inside[i % len(inside)] if policy == "wrap" else inside[np.minimum(i, len(inside) - 1)]


def torchcodec_clip_times(
    end_seconds: float, start: float, t: int, between_frames: float, policy: str = "repeat_last"
) -> FloatArray:
    """Times of one clip of a stream that ends at `end_seconds`: those before the end, then as `torchcodec_clip`."""
    inside: FloatArray = np.asarray(start + np.arange(t) * between_frames, np.float64)
    inside = inside[inside < end_seconds]
    if len(inside) < t and policy == "error":
        raise SamplingError(
            f"torchcodec: clip from {start} s needs {t} frames, {len(inside)} come before {end_seconds} s"
        )
    i = np.arange(t)
    return inside[i % len(inside)] if policy == "wrap" else inside[np.minimum(i, len(inside) - 1)]


def torchcodec_regular_times(
    end_seconds: float, between_clips: float, t: int, between_frames: float, policy: str = "repeat_last"
) -> FloatArray:
    """`clips_at_regular_timestamps` of a stream that starts at 0: float64[K, T] times."""
    starts = np.arange(0.0, end_seconds - (t - 1) * between_frames, between_clips).tolist()
    rows = [torchcodec_clip_times(end_seconds, start, t, between_frames, policy) for start in starts]
    return np.array(rows).reshape(-1, t)


def torchcodec_random_time(end_seconds: float, t: int, between_frames: float, draw: Draw) -> float:
    """`clips_at_random_timestamps`: a start uniform in [0, end − (T − 1)·Δ) seconds."""
    last = end_seconds - (t - 1) * between_frames
    if last <= 0:
        raise SamplingError(f"torchcodec: sampling range [0, {last:g}) s: expected its end above 0")
    return uniform_real(draw, 0.0, last)


def torchvision_resample(n: int, fps: float, new_fps: float) -> IntArray:
    """`_resample_video_idx`: a slice where the ratio is whole, else floor of a float32 product."""
    count, ratio = math.floor(n * (float(new_fps) / fps)), float(fps) / new_fps
    if ratio.is_integer():
        return np.arange(0, n, int(ratio), dtype=np.int64)
    return integers(np.floor(np.arange(count, dtype=np.float32) * np.float32(ratio)).astype(np.float64))


def torchvision_window_starts(n: int, t: int, step: int, dilation: int = 1) -> IntArray:
    """`unfold`: windows that fit, step apart."""
    count = max((n - (dilation * (t - 1) + 1)) // step + 1, 0)
    return np.arange(count, dtype=np.int64) * step


def torchvision_uniform_clips(lengths: Sequence[int], k: int) -> IntArray:
    """`UniformClipSampler`: K clip numbers of each video, counted over all videos; videos without clips left out."""
    starts = np.cumsum([0, *lengths[:-1]])
    rows = [
        np.floor(linspace_f32(first, first + length - 1, k))
        for first, length in zip(starts, lengths, strict=True)
        if length
    ]
    return integers(np.concatenate(rows)) if rows else np.zeros(0, np.int64)


def torchvision_distributed(clips: Sequence[int], rank: int, world_size: int, group: int) -> list[int]:
    """`DistributedSampler(group_size)`: every world_size-th group of clips, the first ones again to fill up."""
    groups = [list(clips[start : start + group]) for start in range(0, len(clips), group)]
    most = -(-len(groups) // world_size) * world_size
    taken = (groups[number % len(groups)] for number in range(rank, most, world_size))
    return [clip for part in taken for clip in part]


def pytorchvideo_subsample(n: int, count: int) -> IntArray:
    """`uniform_temporal_subsample`: truncated torch.linspace; of few frames the first ones come most often (a bug)."""
    return integers(np.clip(linspace_f32(0, n - 1, count), 0, n - 1))


def pytorchvideo_uniform_clips(
    duration: Fraction, clip: Fraction, stride: Fraction, *, backpad_last: bool = False, eps: float = 1e-5
) -> list[tuple[Fraction, Fraction]]:
    """`UniformClipSampler`: (start, end) seconds of all clips."""

    def after(last_end: Fraction) -> tuple[Fraction, Fraction]:
        start = last_end + stride - clip
        if backpad_last:
            start = max(start - max(start + clip - duration, Fraction(0)), Fraction(0))
        return start, start + clip

    clips = [after(clip - stride)]
    while True:
        following = after(clips[-1][1])
        if backpad_last and abs(following[1] - clips[-1][1]) < eps:
            return clips
        if not backpad_last and following[1] - duration > eps:
            return clips
        clips.append(following)


def pytorchvideo_random_clip(duration: Fraction, clip: Fraction, draw: Draw) -> Fraction:
    """`RandomClipSampler`: a start uniform in [0, max(D − clip, 0)] seconds."""
    return Fraction(uniform_real(draw, 0.0, float(max(duration - clip, Fraction(0)))))


def pytorchvideo_constant_clips(duration: Fraction, clip: Fraction, k: int) -> list[Fraction]:
    """`ConstantClipsPerVideoSampler`: K starts from 0 to D − clip seconds, as far apart."""
    room = max(duration - clip, Fraction(0))
    return [i * room / max(k - 1, 1) for i in range(k)]


def dali_uniform(n: int, count: int) -> IntArray:
    """`uniform_sample` of the reader: floor(i/(L−1)·(n−1) + 0.5) in float64; L = 1 gives frame 0."""
    return integers(np.floor(linspace_np(0, n - 1, count) + 0.5))


def dali_dense_starts(n: int, t: int, s: int, step: int | None = None, *, padded: bool = False) -> IntArray:
    """Windows of the reader: while start + s·T <= N (a stride more than the clip spans), and one padded tail."""
    step = step or s * t
    count = max((n - s * t) // step + 1, 0)
    return np.arange(count + (padded and count * step < n), dtype=np.int64) * step


def energon_uniform_starts(duration: float, clip: float, k: int, frame: float = 0.0) -> FloatArray:
    """`get_clips_uniform`: linspace(0, D − clip, K) seconds; single frames (clip = 0) half a frame inside the ends."""
    return linspace_np(0.0, duration - clip, k) if clip else linspace_np(frame / 2, duration - frame / 2, k)


def lerobot_delta(anchor: int, deltas: Sequence[float], fps: float) -> IntArray:
    """`get_delta_indices`: anchor + round(δ·fps), round half to even; LeRobot clamps to the episode and marks (pad="edge")."""
    return np.array([anchor + round(delta * fps) for delta in deltas], dtype=np.int64)


def cosmos_grid_count(first_seconds: Fraction, last_seconds: Fraction, fps: Fraction) -> int:
    """Times of the grid arange(first, last + 1/(2·fps), 1/fps)."""
    return math.ceil((last_seconds - first_seconds) * fps + Fraction(1, 2))


def cosmos_windows(n: int, window: int = 128, least_remainder: int = 64) -> list[tuple[int, int]]:
    """`compute_windows`: [first, end) of windows; a remainder under the threshold is merged into the last one."""
    starts = list(range(0, n, window))
    if len(starts) > 1 and n - starts[-1] < least_remainder:
        starts.pop()
    return list(zip(starts, [*starts[1:], n], strict=True))


def curator_fixed_stride(duration: float, clip: float, stride: float, least: float) -> list[tuple[float, float]]:
    """`FixedStrideExtractorStage` of NeMo Curator: [j·stride, min(j·stride + clip, D)] of `least` seconds or more."""
    starts = [j * stride for j in range(math.ceil(duration / stride))]
    clips = [(start, min(start + clip, duration)) for start in starts]
    return [(start, end) for start, end in clips if end - start >= least]


def daft_interval(times: FloatArray, interval: float, eps: float = 1e-6) -> IntArray:
    """`sample_interval_seconds`: for each k the first frame with time + ε >= k·interval, while there is one."""
    grid = np.arange(int((times[-1] + eps) / interval) + 1) * interval
    return np.searchsorted(times + eps, grid, side="left").astype(np.int64)


def video2dataset_start(n: int, t: int, s: int, draw: Draw) -> int:
    """Random start in 0 .. N − T·s − 1: a stride short of the last start from which a clip fits."""
    return uniform_int(draw, 0, max(n - t * s - 1, 0))


def video2dataset_uniform(n: int, count: int) -> IntArray:
    """int(np.linspace(0, N − 1, T))."""
    return integers(linspace_np(0, n - 1, count))
