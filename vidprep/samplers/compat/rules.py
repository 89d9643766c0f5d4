"""Which peer's formula stands for which policy, and how our parameters become theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from vidprep.errors import SamplingError
from vidprep.records import Timeline
from vidprep.samplers.compat import libraries, models, recognition
from vidprep.samplers.draws import Draw
from vidprep.samplers.timeline import Clock, clock_of
from vidprep.timebase import IntArray, to_seconds

__all__ = ["PEERS", "RULES", "Video", "check_pair", "count", "places"]


@dataclass(frozen=True, slots=True)
class Video:
    """A range of frames as the peers see a video; frames count from its first one."""

    timeline: Timeline
    low: int
    high: int

    @property
    def n(self) -> int:
        """Number of frames."""
        return self.high - self.low

    @property
    def clock(self) -> Clock:
        """Its times, frame 0 being its first."""
        clock = clock_of(self.timeline, self.low, self.high)
        return Clock(clock.pts, 0, clock.end, clock.time_base)

    @property
    def fps(self) -> float:
        """(n − 1)/(last − first time); of one frame 1/duration."""
        clock = self.clock
        span = int(clock.pts[-1]) - clock.first
        return float((self.n - 1) / (span * clock.time_base) if span else self.n / (clock.duration * clock.time_base))


#: rule(policy, video, draw, clip) -> int64[F] frames from the video's first; what lies outside is filled as policy.pad says.
Rule = Callable[[Any, Video, Draw, int], IntArray]


def _torchcodec_end(pad: str) -> str:
    return {"wrap": "wrap", "error": "error"}.get(pad, "repeat_last")


def _torchcodec_dense(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    start = libraries.torchcodec_regular_starts(v.n, p.clips or 1, p.frames, p.stride)[clip]
    return libraries.torchcodec_clip(v.n, int(start), p.frames, p.stride, _torchcodec_end(p.pad))


def _torchcodec_random(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    start = libraries.torchcodec_random_start(v.n, p.frames, p.stride, d)
    return libraries.torchcodec_clip(v.n, start, p.frames, p.stride, _torchcodec_end(p.pad))


def _torchcodec_rate(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    """`get_frames_played_in_range(fps=)`: round((b − a)·fps) times, the frame on screen at each."""
    clock = v.clock
    times = max(round(clock.duration * clock.time_base * p.fps), 1)
    return clock.places(clock.grid(clock.first, 1 / Fraction(p.fps), times), "shown")


def _torchvision_dense(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    start = libraries.torchvision_window_starts(v.n, p.frames, p.step or 1, p.stride)[clip]
    return start + np.arange(p.frames, dtype=np.int64) * p.stride


def _mmaction2_out_of_bound(pad: str) -> str:
    return "repeat_last" if pad == "edge" else "loop"


def _mmaction2_segments(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    args = (v.n, p.frames, p.length, p.stride)
    random = p.mode == "random"
    starts = recognition.mmaction2_train_starts(*args, d) if random else recognition.mmaction2_test_starts(*args)
    return recognition.mmaction2_clips(v.n, starts, p.length, p.stride, _mmaction2_out_of_bound(p.pad))


def _mmaction2_random(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    starts = recognition.mmaction2_train_starts(v.n, p.clips, p.frames, p.stride, d)[clip : clip + 1]
    return recognition.mmaction2_clips(v.n, starts, p.frames, p.stride, _mmaction2_out_of_bound(p.pad))


def _mmaction2_dense(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    starts = recognition.mmaction2_test_starts(v.n, p.clips or 1, p.frames, p.stride)[clip : clip + 1]
    return recognition.mmaction2_clips(v.n, starts, p.frames, p.stride, _mmaction2_out_of_bound(p.pad))


def _slowfast_random(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    start, end = recognition.slowfast_span(v.n, p.frames * p.stride, clip, p.clips, draw=d)
    return recognition.slowfast_clip(v.n, start, end, p.frames)


def _slowfast_dense(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    start, end = recognition.slowfast_span(v.n, p.frames * p.stride, clip, p.clips or 1)
    return recognition.slowfast_clip(v.n, start, end, p.frames)


def _slowfast_segments(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    random = p.mode == "random"
    return recognition.slowfast_ssv2_train(v.n, p.frames, d) if random else recognition.slowfast_ssv2_test(v.n, p.frames)


def _videomae(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    draw = d if p.name == "random" else None
    return recognition.videomae_clip(v.n, p.frames, p.stride, clip, p.clips or 1, draw)


def _qwen_uniform(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    return models.qwen_frames(v.n, models.qwen_count(v.n, v.fps, nframes=p.frames))


def _qwen_rate(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    bounds = {"min_frames": p.min_frames or 4, "max_frames": p.max_frames or 768}
    return models.qwen_frames(v.n, models.qwen_count(v.n, v.fps, fps=float(p.fps), **bounds))


def _internvideo_segments(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    random = p.mode == "random"
    return models.internvideo_rand(v.n, p.frames, d) if random else models.internvideo_middle(v.n, p.frames)


def _internvideo_rate(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    return models.internvideo_fps(v.n, v.fps, float(p.fps), p.max_frames or -1)


def _opensoraplan(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    most, least = p.frames or p.max_frames or v.n, p.min_frames or 29
    return models.opensoraplan_frames(v.n, v.fps, most, d, train_fps=float(p.fps), least=least)


def _dali_dense(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    start = _dali_starts(p, v)[clip]
    return start + np.arange(p.frames, dtype=np.int64) * p.stride


def _dali_starts(p: Any, v: Video) -> IntArray:
    return libraries.dali_dense_starts(v.n, p.frames, p.stride, p.step, padded=p.pad not in ("none", "drop"))


def _dali_range(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    """`fn.decoders.video`: a negative start lies before the video, it does not count from its end."""
    if p.frames is not None:
        return p.start + np.arange(p.frames, dtype=np.int64) * p.stride
    return np.arange(p.start, v.n if p.end is None else p.end, p.stride, dtype=np.int64)


def _lerobot(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    anchor = clip if p.at is None and p.mode == "every" else d.below(v.n) if p.at is None else p.at + v.n * (p.at < 0)
    if p.offsets:
        return anchor + np.array(p.offsets, dtype=np.int64)
    return libraries.lerobot_delta(anchor, [float(delta) for delta in p.seconds], v.fps)


def _cosmos_rate(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    """`sample_closest`: the nearest frame (the earlier of a tie) of each time of the grid."""
    clock = v.clock
    last = int(clock.pts[-1]) * clock.time_base
    fps = Fraction(p.fps)
    times = libraries.cosmos_grid_count(clock.first * clock.time_base, last, fps)
    return np.minimum(clock.places(clock.grid(clock.first, 1 / fps, times), "nearest"), v.n - 1)


def _cosmos_windows(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    first, end = libraries.cosmos_windows(v.n, p.frames, max(p.frames // 2, 1))[clip]
    return np.arange(first, end, dtype=np.int64)


def _wan(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    clock = v.clock
    edges = to_seconds(np.append(clock.pts, clock.end) - clock.first, clock.time_base)
    wanted = p.frames or (int(float(clock.duration * clock.time_base) * p.fps) - 1) // 4 * 4 + 1
    return models.wan_vace_frames(edges[:-1], edges[1:], float(p.start_seconds), max(wanted, 1), float(p.fps))


def _daft(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    clock = v.clock
    return libraries.daft_interval(to_seconds(clock.pts - clock.first, clock.time_base), 1 / float(p.fps))


def _energon(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    """`get_clips_uniform` on an mp4: seconds times the average rate."""
    starts = libraries.energon_uniform_starts(v.n / v.fps, p.frames * p.stride / v.fps, p.clips or 1)
    return max(int(starts[clip] * v.fps + 1e-6), 0) + np.arange(p.frames, dtype=np.int64) * p.stride


def _video2dataset_random(p: Any, v: Video, d: Draw, clip: int) -> IntArray:
    start = libraries.video2dataset_start(v.n, p.frames, p.stride, d)
    return start + np.arange(p.frames, dtype=np.int64) * p.stride


RULES: dict[tuple[str, str], Rule] = {
    ("dense", "torchcodec"): _torchcodec_dense,
    ("random", "torchcodec"): _torchcodec_random,
    ("rate", "torchcodec"): _torchcodec_rate,
    ("dense", "torchvision"): _torchvision_dense,
    ("rate", "torchvision"): lambda p, v, d, c: libraries.torchvision_resample(v.n, v.fps, float(p.fps)),
    ("segments", "mmaction2"): _mmaction2_segments,
    ("random", "mmaction2"): _mmaction2_random,
    ("dense", "mmaction2"): _mmaction2_dense,
    ("uniform", "mmaction2"): lambda p, v, d, c: recognition.mmaction2_uniform_test(v.n, p.frames),
    ("random", "slowfast"): _slowfast_random,
    ("dense", "slowfast"): _slowfast_dense,
    ("uniform", "slowfast"): lambda p, v, d, c: recognition.slowfast_ssv2_test(v.n, p.frames),
    ("segments", "slowfast"): _slowfast_segments,
    ("uniform", "pytorchvideo"): lambda p, v, d, c: libraries.pytorchvideo_subsample(v.n, p.frames),
    ("uniform", "qwen"): _qwen_uniform,
    ("rate", "qwen"): _qwen_rate,
    ("random", "videomae"): _videomae,
    ("dense", "videomae"): _videomae,
    ("random", "vjepa2"): _videomae,
    ("dense", "vjepa2"): _videomae,
    ("segments", "internvideo"): _internvideo_segments,
    ("rate", "internvideo"): _internvideo_rate,
    ("random", "opensora"): lambda p, v, d, c: models.opensora_crop(v.n, p.frames, p.stride, d),
    ("rate", "opensoraplan"): _opensoraplan,
    ("list", "decord"): lambda p, v, d, c: np.array([f + v.n * (f < 0) for f in p.frames], dtype=np.int64),
    ("uniform", "dali"): lambda p, v, d, c: libraries.dali_uniform(v.n, p.frames),
    ("dense", "dali"): _dali_dense,
    ("strided", "dali"): _dali_range,
    ("list", "dali"): lambda p, v, d, c: np.array(p.frames, dtype=np.int64),
    ("delta", "lerobot"): _lerobot,
    ("rate", "cosmos"): _cosmos_rate,
    ("windows", "cosmos"): _cosmos_windows,
    ("rate", "llava"): lambda p, v, d, c: models.llava_frames(v.n, v.fps, float(p.fps), p.max_frames or 0),
    ("rate", "diffsynth"): lambda p, v, d, c: models.diffsynth_frames(
        v.n, v.fps, target_fps=float(p.fps), max_frames=p.max_frames or 81
    ),
    ("uniform", "finetrainers"): lambda p, v, d, c: models.finetrainers_frames(v.n, [p.frames]),
    ("rate", "wan"): _wan,
    ("dense", "energon"): _energon,
    ("random", "video2dataset"): _video2dataset_random,
    ("uniform", "video2dataset"): lambda p, v, d, c: libraries.video2dataset_uniform(v.n, p.frames),
    ("rate", "daft"): _daft,
}
PEERS = tuple(sorted({peer for _, peer in RULES}))

#: Peers that give a number of clips of their own.
_COUNTS: dict[tuple[str, str], Callable[[Any, Video], int]] = {
    ("dense", "torchvision"): lambda p, v: len(
        libraries.torchvision_window_starts(v.n, p.frames, p.step or 1, p.stride)
    ),
    ("dense", "dali"): lambda p, v: len(_dali_starts(p, v)),
    ("windows", "cosmos"): lambda p, v: len(libraries.cosmos_windows(v.n, p.frames, max(p.frames // 2, 1))),
}
#: Peers whose dense clips are K of one video; without `clips` they give one.
_SPREAD = frozenset({"torchcodec", "mmaction2", "slowfast", "videomae", "vjepa2", "energon"})


def check_pair(name: str, peer: str) -> None:
    """Refuse a peer that has no rule for this kind of policy."""
    if (name, peer) not in RULES:
        peers = ", ".join(sorted(other for kind, other in RULES if kind == name)) or "none"
        raise SamplingError(f"{name}: compat={peer!r}: expected one of: {peers}")


def count(policy: Any, timeline: Timeline, low: int, high: int) -> int | None:
    """The peer's number of clips; None = our own rule."""
    own = _COUNTS.get((policy.name, policy.compat))
    if own is not None:
        return own(policy, Video(timeline, low, high))
    return (policy.clips or 1) if policy.name == "dense" and policy.compat in _SPREAD else None


def places(policy: Any, timeline: Timeline, low: int, high: int, draw: Draw, clip: int) -> IntArray:
    """int64[F]: the peer's frames, as frame indices of the video."""
    if getattr(policy, "on_vfr", "time") == "raise" and timeline.timing.is_vfr:
        raise SamplingError(f"{policy.name}: on_vfr='raise': the video's frame rate is variable")
    frames = RULES[policy.name, policy.compat](policy, Video(timeline, low, high), draw, clip)
    return low + np.asarray(frames, dtype=np.int64)
