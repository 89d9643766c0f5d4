"""Exact indices of language-and-video and generation codebases.

Qwen-VL (qwen-vl-utils vision_process.py), LLaVA-NeXT (llava/utils.py), InternVideo (video_utils.py), Open-Sora
(video_transforms.py), Open-Sora-Plan (transform.py, t2v_datasets.py), DiffSynth-Studio, finetrainers, Wan VACE
(vace_processor.py). N = frames of the video, T = frames of a clip, s = stride. Random numbers are ours, in the peers' ranges.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers.compat.arithmetic import integers, linspace_f32, linspace_np, uniform_int
from vidprep.samplers.draws import Draw, word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.timebase import FloatArray, IntArray

__all__ = [
    "diffsynth_frames", "finetrainers_frames", "internvideo_fps", "internvideo_middle", "internvideo_rand",
    "llava_frames", "opensora_crop", "opensora_target_fps", "opensoraplan_frames", "qwen_count", "qwen_frames",
    "qwen_range",
    "wan_vace_frames",
]  # fmt: skip

FACTOR = 2


def qwen_count(
    n: int, video_fps: float, *, fps: float = 2.0, nframes: int | None = None,
    min_frames: int = 4, max_frames: int = 768,
) -> int:  # fmt: skip
    """`smart_nframes`: an even number of frames."""
    if nframes is not None:
        count = round(nframes / FACTOR) * FACTOR
    else:
        least = math.ceil(min_frames / FACTOR) * FACTOR
        most = math.floor(max_frames / FACTOR) * FACTOR
        wanted = min(max(n / video_fps * fps, least), most, n)
        count = math.floor(wanted / FACTOR) * FACTOR
    if not FACTOR <= count <= n:
        raise SamplingError(f"qwen: nframes={count}: expected {FACTOR} .. {n}, the number of frames")
    return count


def qwen_frames(n: int, count: int, start: int = 0) -> IntArray:
    """round(torch.linspace(start, start + n − 1, count)), half to even."""
    return integers(np.round(linspace_f32(start, start + n - 1, count)))


def qwen_range(n: int, fps: float, start_seconds: float | None, end_seconds: float | None) -> tuple[int, int]:
    """`calculate_video_frame_range`: first and last frame, both taken, of a part of the video; `qwen_frames` spreads over them."""
    first = 0 if start_seconds is None else math.ceil(max(start_seconds, 0.0) * fps)
    last = n - 1 if end_seconds is None else min(math.floor(min(max(end_seconds, 0.0), n / fps) * fps), n - 1)
    if first >= last:
        raise SamplingError(f"qwen: frames {first} to {last}: expected the start before the end")
    return first, last


def llava_frames(n: int, avg_fps: float, fps: float, upbound: int = 0) -> IntArray:
    """`process_video_with_decord`: every round(avg_fps/fps)-th frame; more than `upbound`: truncated np.linspace."""
    step = max(round(avg_fps / fps), 1)
    frames = np.arange(0, n, step, dtype=np.int64)
    return integers(linspace_np(0, n - 1, upbound)) if 0 < upbound < len(frames) else frames


def _internvideo_parts(n: int, t: int) -> tuple[IntArray, IntArray]:
    cuts = integers(linspace_np(0, n, min(t, n) + 1))
    return cuts[:-1], cuts[1:] - 1


def _filled(frames: IntArray, t: int) -> IntArray:
    return np.concatenate([frames, np.full(t - len(frames), frames[-1])]) if len(frames) < t else frames


def internvideo_middle(n: int, t: int) -> IntArray:
    """`get_frame_indices(sample="middle")`: (a + b)//2 of each part, the last repeated up to T."""
    first, last = _internvideo_parts(n, t)
    return _filled((first + last) // 2, t)


def internvideo_rand(n: int, t: int, draw: Draw) -> IntArray:
    """`sample="rand"`: one of each part but its last frame; a part of one frame turns all into a random subset (bugs)."""
    first, last = _internvideo_parts(n, t)
    if (last > first).all():
        return _filled(first + draw.below_each(last - first), t)
    order = sorted(range(n), key=lambda frame: word(draw.state, frame))
    return _filled(np.array(sorted(order[: min(t, n)]), dtype=np.int64), t)


def internvideo_fps(n: int, input_fps: float, fps: float, max_frames: int = -1) -> IntArray:
    """`sample="fpsX"`: around(times of the middles of 1/fps steps · input_fps), those in the video."""
    delta, duration = 1 / fps, n / input_fps
    frames = integers(np.around(np.arange(0 + delta / 2, duration + delta / 2, delta) * input_fps))
    frames = frames[frames < n]
    return frames[:max_frames] if 0 < max_frames < len(frames) else frames


def opensora_target_fps(fps: float, max_fps: float) -> tuple[int, int]:
    """`map_target_fps`: (rate after dropping, interval)."""
    if fps <= max_fps:
        return math.floor(fps), 1
    interval = math.ceil(fps / max_fps)
    return math.floor(fps / interval), interval


def opensora_crop(n: int, t: int, s: int, draw: Draw) -> IntArray:
    """`temporal_random_crop`: start in 0 .. max(0, N − T·s − 1): the last legal start is never drawn (a bug)."""
    size = t * s
    begin = uniform_int(draw, 0, max(0, n - size - 1))
    end = min(begin + size, n)
    if end - begin < t:
        raise SamplingError(f"opensora: {end - begin} frames: expected {t} at least")
    return integers(linspace_np(begin, end - 1, t))


def opensoraplan_frames(
    n: int, fps: float, t: int, draw: Draw, *, train_fps: float = 18.0, sp_size: int = 1, least: int = 29
) -> IntArray:
    """Resampled to `train_fps`, a random crop of at most T of those, cut to 4·m + 1 frames (m + 1 divisible by sp_size)."""
    frames = integers(np.arange(0, n, fps / train_fps))
    frames = frames[frames < n]
    if len(frames) > t:
        begin = uniform_int(draw, 0, max(0, len(frames) - t - 1))
        frames = frames[begin : begin + t]
    count = len(frames)
    while count > 0 and ((count - 1) % 4 or ((count - 1) // 4 + 1) % sp_size):
        count -= 1
    if count < least:
        raise SamplingError(f"opensoraplan: {count} frames: expected {least} at least")
    return frames[:count]


def diffsynth_frames(n: int, fps: float, *, target_fps: float = 24.0, max_frames: int = 81) -> IntArray:
    """`FrameSamplerByRateMixin`: min(round(i/24·fps), N − 1), 4·m + 1 frames."""
    count = min(max_frames, math.floor(n / fps * target_fps))
    while count > 1 and count % 4 != 1:
        count -= 1
    return np.array([min(round(i / target_fps * fps), n - 1) for i in range(max(count, 1))], dtype=np.int64)


def finetrainers_frames(n: int, buckets: Sequence[int]) -> IntArray:
    """Truncated torch.linspace(0, N − 1, T), T the largest bucket that N fills."""
    fitting = [bucket for bucket in buckets if bucket <= n]
    if not fitting:
        raise SamplingError(f"finetrainers: {n} frames: expected {min(buckets)} at least")
    return integers(linspace_f32(0, n - 1, max(fitting)))


def wan_vace_frames(starts: FloatArray, ends: FloatArray, begin: float, count: int, fps: float) -> IntArray:
    """`_get_frameid_bbox_*`: the frame with start <= t < end for t in linspace(begin, begin + T/fps, T); none: frame 0 (a bug)."""
    times = linspace_np(begin, begin + count / fps, count)
    inside = (starts <= times[:, None]) & (times[:, None] < ends)
    return np.asarray(inside.argmax(axis=1), dtype=np.int64)
