"""Exact indices of recognition and representation codebases.

mmaction2 (datasets/transforms/loading.py), SlowFast (datasets/decoder.py, utils.py, ssv2.py, charades.py), VideoMAE
(kinetics.py, ssv2.py), V-JEPA 2 (app/vjepa/.., video_dataset.py). N = frames of the video, T = frames of a clip, K = clips,
s = stride. Random numbers are ours, in the peers' ranges and order; the draws themselves cannot be theirs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers.compat.arithmetic import integers, linspace_f32, linspace_np, uniform_int, uniform_real
from vidprep.samplers.draws import word

if TYPE_CHECKING:
    from vidprep.samplers.draws import Draw
    from vidprep.timebase import FloatArray, IntArray

__all__ = [
    "mmaction2_ava", "mmaction2_clips", "mmaction2_dense_starts", "mmaction2_target_fps", "mmaction2_test_starts",
    "mmaction2_train_starts", "mmaction2_uniform_frames", "mmaction2_uniform_test", "mmaction2_untrimmed",
    "slowfast_charades", "slowfast_clip", "slowfast_sequence", "slowfast_span", "slowfast_ssv2_test",
    "slowfast_ssv2_train", "videomae_clip", "videomae_ssv2_test", "vjepa2_step",
]  # fmt: skip


def mmaction2_train_starts(n: int, k: int, t: int, s: int, draw: Draw, *, keep_tail: bool = False) -> IntArray:
    """`SampleFrames._get_train_clips`: one start in each of K parts, whole ones or with `keep_tail_frames` fractional."""
    length = t * s
    i = np.arange(k)
    if keep_tail:
        size = max(n - length + 1, 0) / k
        return integers(i * size + np.array([uniform_real(draw, 0, size, lane + 1) for lane in range(k)]))
    part = (n - length + 1) // k
    if part > 0:
        return i * part + draw.below_each(np.full(k, part))
    if n > max(k, length):
        return np.sort(draw.below_each(np.full(k, n - length + 1)))
    if part == 0:
        return integers(np.around(i * ((n - length + 1.0) / k)))
    return np.zeros(k, dtype=np.int64)


def mmaction2_test_starts(n: int, k: int, t: int, s: int, *, twice: bool = False) -> IntArray:
    """`SampleFrames._get_test_clips`: T > 1 spreads K clips over the video, T = 1 takes the middles of K parts.

    With `twice_sample` their first frames as well, behind the middles.
    """
    i = np.arange(k)
    if t == 1:
        middles = i * (n / k) + n / k / 2.0
        return integers(np.concatenate([middles, i * (n / k)]) if twice else np.asarray(middles, dtype=np.float64))
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


def mmaction2_target_fps(n: int, k: int, t: int, s: int, fps: float, target_fps: float) -> IntArray:
    """int64[K·T]: `SampleFrames(target_fps=)`, test: T places over T·s frames at the target rate, mod N."""
    length = max(1.0, t * s * fps / target_fps)
    room = max(n - length, 0)
    starts = np.arange(k) * math.floor(room / (k - 1)) if k > 1 else np.array([room // 2])
    frames = integers(np.asarray(starts, np.float64))[:, None] + integers(linspace_np(0, length - 1, t))
    return np.asarray(frames % n, dtype=np.int64).reshape(-1)


def mmaction2_dense_starts(n: int, k: int, sample_range: int, draw: Draw | None = None, positions: int = 1) -> IntArray:
    """`DenseSampleFrames`: K starts within `sample_range` frames from a random place, mod N.

    Test (no draw): from each of so many places, the first for 1 of them.
    """
    room = max(1, 1 + n - sample_range)
    offsets = np.arange(k) * (sample_range // k)
    if draw is not None:
        starts = np.array([0 if room == 1 else uniform_int(draw, 0, room - 2)])
    else:
        starts = integers(linspace_np(0, room - 1, positions))
    return np.asarray((offsets + starts[:, None]) % n, dtype=np.int64).reshape(-1)


def mmaction2_uniform_frames(n: int, t: int, draw: Draw) -> IntArray:
    """`UniformSampleFrames` (PoseC3D), training: neighbours, or T of few frames, or one of each of T parts; mod N."""
    if n < t:
        return (uniform_int(draw, 0, n - 1) + np.arange(t)) % n
    if n < 2 * t:
        left_out = sorted(range(t + 1), key=lambda place: word(draw.state, place))[: n - t]
        skipped = np.isin(np.arange(t + 1), left_out).cumsum()
        return np.asarray(np.arange(t) + skipped[:-1], dtype=np.int64)
    begins = np.arange(t + 1) * n // t
    return begins[:-1] + draw.below_each(np.diff(begins))


def mmaction2_ava(n: int, centre: int, t: int, s: int) -> IntArray:
    """`SampleAVAFrames`: range(c − (T//2)·s, c + ((T + 1)//2)·s, s), clamped."""
    frames = np.arange(centre - t // 2 * s, centre + (t + 1) // 2 * s, s)
    return np.asarray(np.clip(frames, 0, n - 1), dtype=np.int64)


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


def slowfast_charades(n: int, t: int, s: int, clip: int, k: int, draw: Draw | None = None) -> IntArray:
    """`Charades.get_seq_frames`: T frames at stride s from one of K even starts, or (draw) a random one; clamped."""
    length = (t - 1) * s + 1
    if draw is not None:
        start = uniform_int(draw, min(n - length, 0), max(n - length, 0))
    else:
        room = max(n - length, 0)
        start = round(room / (k - 1) * clip) if k > 1 else room // 2
    return np.asarray(np.clip(start + np.arange(t) * s, 0, n - 1), dtype=np.int64)


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


def videomae_clip(
    n: int, t: int, s: int, clip: int = 0, k: int = 1, draw: Draw | None = None, *, overlap: bool = False
) -> IntArray:
    """`loadvideo_decord` of VideoMAE and V-JEPA 2: T places over T·s frames of the clip's part of the video.

    linspace over T·s frames with T points gives a stride of T·s/(T−1), not s (16 × 4: 0 4 8 12 17 ...): the peers' bug,
    which the published models were trained with. Without `draw` the part's first frames are taken. Where the parts are
    too short V-JEPA 2's `allow_clip_overlap` lets clips reach into the next part.
    """
    length, part = t * s, n // k
    if part > length:
        end = length if draw is None else uniform_int(draw, length, part - 1)
        places: FloatArray = np.clip(linspace_np(end - length, end, t), end - length, end - 1)
        return integers(places) + clip * part
    if not overlap:
        return _filled_up(part, t, s) + clip * part
    distance = (n - length) // (k - 1) if n > length and k > 1 else 0
    return _filled_up(min(length, n) - 1, t, s) + clip * distance


def _filled_up(size: int, t: int, s: int) -> IntArray:
    """So many as `size // s` places over `size` frames, the last one repeated."""
    count = size // s
    places = np.concatenate([linspace_np(0, size, count), np.full(max(t - count, 0), float(size))])
    return integers(np.clip(places, 0, max(size - 1, 0)))


def vjepa2_step(avg_fps: float, t: int, *, duration: float | None = None, fps: int | None = None) -> int:
    """V-JEPA 2's frame step for a clip of `duration` seconds, or for `fps`; of the rate rounded up."""
    video_fps = math.ceil(avg_fps)
    step = int(duration * video_fps / t) if duration is not None else video_fps // (fps or 1)
    if step < 1:
        raise SamplingError(
            f"vjepa2: frame step {step}: expected 1 at least; the video has {avg_fps:g} frames per second"
        )
    return step


def videomae_ssv2_test(n: int, t: int) -> IntArray:
    """`SSVideoClsDataset`, test: both the starts and the middles of T parts, 2·T frames in order."""
    tick = n / t
    places = [int(tick / 2.0 + tick * i) for i in range(t)] + [int(tick * i) for i in range(t)]
    return np.array(sorted(places), dtype=np.int64)
