"""Exact indices of recognition and representation codebases.

mmaction2 (datasets/transforms/loading.py), SlowFast (datasets/decoder.py, utils.py, ssv2.py, charades.py), VideoMAE
(kinetics.py, ssv2.py), V-JEPA 2 (app/vjepa/.., video_dataset.py). N = frames of the video, T = frames of a clip, K = clips,
s = stride. Random numbers are ours, in the peers' ranges and order; the draws themselves cannot be theirs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vidprep.samplers.compat.arithmetic import integers, linspace_f32, linspace_np, uniform_int, uniform_real

if TYPE_CHECKING:
    from vidprep.samplers.draws import Draw
    from vidprep.timebase import FloatArray, IntArray

__all__ = [
    "mmaction2_clips", "mmaction2_dense_starts", "mmaction2_test_starts", "mmaction2_train_starts",
    "mmaction2_uniform_test", "mmaction2_untrimmed", "slowfast_clip", "slowfast_sequence", "slowfast_span",
    "slowfast_ssv2_test", "slowfast_ssv2_train", "videomae_clip", "videomae_ssv2_test",
]  # fmt: skip


def mmaction2_train_starts(n: int, k: int, t: int, s: int, draw: Draw) -> IntArray:
    """`SampleFrames._get_train_clips`: one start in each of K parts."""
    length = t * s
    part = (n - length + 1) // k
    i = np.arange(k)
    if part > 0:
        return i * part + draw.below_each(np.full(k, part))
    if n > max(k, length):
        return np.sort(draw.below_each(np.full(k, n - length + 1)))
    if part == 0:
        return integers(np.around(i * ((n - length + 1.0) / k)))
    return np.zeros(k, dtype=np.int64)


def mmaction2_test_starts(n: int, k: int, t: int, s: int) -> IntArray:
    """`SampleFrames._get_test_clips`: T > 1 spreads K clips over the video, T = 1 takes the middles of K parts."""
    i = np.arange(k)
    if t == 1:
        return integers(np.asarray(i * (n / k) + n / k / 2.0, dtype=np.float64))
    room = max(n - ((t - 1) * s + 1), 0)
    if k == 1:
        return np.array([room // 2], dtype=np.int64)
    return integers(np.around(i * (room / (k - 1))))


def mmaction2_clips(n: int, starts: IntArray, t: int, s: int, out_of_bound: str = "loop") -> IntArray:
    """int64[K·T]: clip after clip; "loop" = mod N, "repeat_last" = the clip's last frame inside the video."""
    frames = starts[:, None] + np.arange(t) * s
    if out_of_bound == "loop":
        return (frames % n).reshape(-1)
    last = np.where(frames < n, frames, 0).max(axis=1, keepdims=True)
    return np.where(frames < n, frames, last).reshape(-1)


def mmaction2_uniform_test(n: int, t: int, clip: int = 0, k: int = 1) -> IntArray:
    """`UniformSample`, test: a fixed place in each of T parts of (N − 1)/T frames."""
    part = (n - 1) / t
    return np.array([round(part * i) + int(part / (k + 1) * (clip + 1)) for i in range(t)], dtype=np.int64)


def mmaction2_dense_starts(n: int, k: int, sample_range: int, draw: Draw | None = None) -> IntArray:
    """`DenseSampleFrames`: K starts within `sample_range` frames from a random (test: the first) place, mod N."""
    room = max(1, 1 + n - sample_range)
    interval = sample_range // k
    start = 0 if draw is None or room == 1 else uniform_int(draw, 0, room - 2)
    return np.asarray((np.arange(k) * interval + start) % n, dtype=np.int64)


def mmaction2_untrimmed(n: int, interval: int, t: int, s: int) -> IntArray:
    """`UntrimmedSampleFrames`: T frames about centres interval/2, 3·interval/2, ..., clamped."""
    centres = np.arange(interval // 2, n, interval)
    frames = centres[:, None] + (np.arange(t) - t // 2) * s
    return np.asarray(np.clip(frames, 0, n - 1).reshape(-1), dtype=np.int64)


def slowfast_span(
    n: int, size: float, clip: int, k: int, *, use_offset: bool = False, draw: Draw | None = None
) -> tuple[float, float]:
    """`get_start_end_idx`: first and last place of a clip of `size` source frames; `draw` = training."""
    room = max(n - size, 0)
    if draw is not None:
        start = uniform_real(draw, 0, room)
    elif use_offset:
        start = math.floor(room / 2) if k == 1 else clip * math.floor(room / (k - 1))
    else:
        start = room * clip / k
    return start, start + size - 1


def slowfast_clip(n: int, start: float, end: float, t: int) -> IntArray:
    """`temporal_sampling`: truncated torch.linspace(start, end, T), clamped."""
    return integers(np.clip(linspace_f32(start, end, t), 0, n - 1))


def slowfast_sequence(n: int, centre: int, half: int, s: int) -> IntArray:
    """`get_sequence` (AVA): range(centre − half, centre + half, s), clamped."""
    return np.asarray(np.clip(np.arange(centre - half, centre + half, s), 0, n - 1), dtype=np.int64)


def _ssv2_bounds(n: int, t: int) -> list[tuple[int, int]]:
    part = (n - 1) / t
    return [(round(part * i), round(part * (i + 1))) for i in range(t)]


def slowfast_ssv2_test(n: int, t: int) -> IntArray:
    """`get_seq_frames`, test: the middle of each of T parts."""
    return np.array([(low + high) // 2 for low, high in _ssv2_bounds(n, t)], dtype=np.int64)


def slowfast_ssv2_train(n: int, t: int, draw: Draw) -> IntArray:
    """`get_seq_frames`, training: a random frame of each part, both ends included."""
    bounds = np.array(_ssv2_bounds(n, t), dtype=np.int64)
    return bounds[:, 0] + draw.below_each(bounds[:, 1] - bounds[:, 0] + 1)


def videomae_clip(n: int, t: int, s: int, clip: int = 0, k: int = 1, draw: Draw | None = None) -> IntArray:
    """`loadvideo_decord` of VideoMAE and V-JEPA 2: T places over T·s frames of the clip's part of the video.

    linspace over T·s frames with T points gives a stride of T·s/(T−1), not s (16 × 4: 0 4 8 12 17 ...): the peers' bug,
    which the published models were trained with. Without `draw` the part's first frames are taken.
    """
    length, part = t * s, n // k
    if part > length:
        end = length if draw is None else uniform_int(draw, length, part - 1)
        places: FloatArray = np.clip(linspace_np(end - length, end, t), end - length, end - 1)
    else:
        count = part // s
        places = np.concatenate([linspace_np(0, part, count), np.full(max(t - count, 0), float(part))])
        places = np.clip(places, 0, max(part - 1, 0))
    return integers(places) + clip * part


def videomae_ssv2_test(n: int, t: int) -> IntArray:
    """`SSVideoClsDataset`, test: both the starts and the middles of T parts, 2·T frames in order."""
    tick = n / t
    places = [int(tick / 2.0 + tick * i) for i in range(t)] + [int(tick * i) for i in range(t)]
    return np.array(sorted(places), dtype=np.int64)
