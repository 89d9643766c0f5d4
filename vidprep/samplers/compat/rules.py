"""Which peer's formula stands for which policy, and how our parameters become theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers.compat import libraries, models, recognition
from vidprep.samplers.draws import Draw
from vidprep.samplers.timeline import Clock, clock_of
from vidprep.timebase import IntArray, to_seconds

if TYPE_CHECKING:
    from vidprep.records import Timeline

__all__ = ["PEERS", "RULES", "Ask", "check_pair", "count", "places"]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a rule may look at: our policy's parameters, and frames low .. high−1 of a video as the peers see a video."""

    policy: Any
    timeline: Timeline
    low: int
    high: int
    draw: Draw = field(default_factory=lambda: Draw(0))
    clip: int = 0

    def strides_from(self, start: int) -> IntArray:
        """start, start + stride, ..., one for each frame."""
        return int(start) + np.arange(int(self.policy.frames), dtype=np.int64) * int(self.policy.stride)

    @property
    def n(self) -> int:
        """Number of frames, counted from 0 as all that a rule returns."""
        return self.high - self.low

    @property
    def clock(self) -> Clock:
        """Their times."""
        return clock_of(self.timeline, self.low, self.high)._replace(low=0)

    @property
    def fps(self) -> float:
        """(n − 1)/(last − first time); of one frame 1/duration."""
        clock = self.clock
        span = clock.last - clock.first
        return float((self.n - 1) / (span * clock.time_base) if span else self.n / (clock.duration * clock.time_base))


#: int64[F] frames from the range's first; what lies outside is filled as policy.pad says.
Rule = Callable[[Ask], IntArray]


def _torchcodec_end(pad: str) -> str:
    return {"wrap": "wrap", "error": "error"}.get(pad, "repeat_last")


def _torchcodec_dense(ask: Ask) -> IntArray:
    start = libraries.torchcodec_regular_starts(ask.n, ask.policy.clips or 1, ask.policy.frames, ask.policy.stride)[
        ask.clip
    ]
    return libraries.torchcodec_clip(
        ask.n, int(start), ask.policy.frames, ask.policy.stride, _torchcodec_end(ask.policy.pad)
    )


def _torchcodec_random(ask: Ask) -> IntArray:
    start = libraries.torchcodec_random_start(ask.n, ask.policy.frames, ask.policy.stride, ask.draw)
    return libraries.torchcodec_clip(
        ask.n, start, ask.policy.frames, ask.policy.stride, _torchcodec_end(ask.policy.pad)
    )


def _torchcodec_rate(ask: Ask) -> IntArray:
    """`get_frames_played_in_range(fps=)`: round((b − a)·fps) times, the frame on screen at each."""
    clock = ask.clock
    times = max(round(clock.duration * clock.time_base * ask.policy.fps), 1)
    return clock.places(clock.grid(Fraction(ask.policy.fps), times).moved(clock.first), "shown")[0]


def _torchvision_dense(ask: Ask) -> IntArray:
    policy = ask.policy
    starts = libraries.torchvision_window_starts(ask.n, policy.frames, policy.step or 1, policy.stride)
    return ask.strides_from(starts[ask.clip])


def _mmaction2_out_of_bound(pad: str) -> str:
    return "repeat_last" if pad == "edge" else "loop"


def _mmaction2_segments(ask: Ask) -> IntArray:
    args = (ask.n, ask.policy.frames, ask.policy.length, ask.policy.stride)
    random = ask.policy.mode == "random"
    starts = recognition.mmaction2_train_starts(*args, ask.draw) if random else recognition.mmaction2_test_starts(*args)
    return recognition.mmaction2_clips(
        ask.n, starts, ask.policy.length, ask.policy.stride, _mmaction2_out_of_bound(ask.policy.pad)
    )


def _mmaction2_random(ask: Ask) -> IntArray:
    starts = recognition.mmaction2_train_starts(
        ask.n, ask.policy.clips, ask.policy.frames, ask.policy.stride, ask.draw
    )[ask.clip : ask.clip + 1]
    return recognition.mmaction2_clips(
        ask.n, starts, ask.policy.frames, ask.policy.stride, _mmaction2_out_of_bound(ask.policy.pad)
    )


def _mmaction2_dense(ask: Ask) -> IntArray:
    starts = recognition.mmaction2_test_starts(ask.n, ask.policy.clips or 1, ask.policy.frames, ask.policy.stride)[
        ask.clip : ask.clip + 1
    ]
    return recognition.mmaction2_clips(
        ask.n, starts, ask.policy.frames, ask.policy.stride, _mmaction2_out_of_bound(ask.policy.pad)
    )


def _slowfast_random(ask: Ask) -> IntArray:
    start, end = recognition.slowfast_span(
        ask.n, ask.policy.frames * ask.policy.stride, ask.clip, ask.policy.clips, draw=ask.draw
    )
    return recognition.slowfast_clip(ask.n, start, end, ask.policy.frames)


def _slowfast_dense(ask: Ask) -> IntArray:
    start, end = recognition.slowfast_span(
        ask.n, ask.policy.frames * ask.policy.stride, ask.clip, ask.policy.clips or 1
    )
    return recognition.slowfast_clip(ask.n, start, end, ask.policy.frames)


def _slowfast_segments(ask: Ask) -> IntArray:
    random = ask.policy.mode == "random"
    return (
        recognition.slowfast_ssv2_train(ask.n, ask.policy.frames, ask.draw)
        if random
        else recognition.slowfast_ssv2_test(ask.n, ask.policy.frames)
    )


def _videomae(ask: Ask) -> IntArray:
    """With V-JEPA 2 pad="shift" stands for `allow_clip_overlap`."""
    policy, draw = ask.policy, ask.draw if ask.policy.name == "random" else None
    overlap = policy.compat == "vjepa2" and policy.pad == "shift"
    return recognition.videomae_clip(
        ask.n, policy.frames, policy.stride, ask.clip, policy.clips or 1, draw, overlap=overlap
    )


def _qwen_uniform(ask: Ask) -> IntArray:
    return models.qwen_frames(ask.n, models.qwen_count(ask.n, ask.fps, nframes=ask.policy.frames))


def _qwen_rate(ask: Ask) -> IntArray:
    bounds = {"min_frames": ask.policy.min_frames or 4, "max_frames": ask.policy.max_frames or 768}
    return models.qwen_frames(ask.n, models.qwen_count(ask.n, ask.fps, fps=float(ask.policy.fps), **bounds))


def _internvideo_segments(ask: Ask) -> IntArray:
    random = ask.policy.mode == "random"
    return (
        models.internvideo_rand(ask.n, ask.policy.frames, ask.draw)
        if random
        else models.internvideo_middle(ask.n, ask.policy.frames)
    )


def _internvideo_rate(ask: Ask) -> IntArray:
    return models.internvideo_fps(ask.n, ask.fps, float(ask.policy.fps), ask.policy.max_frames or -1)


def _opensoraplan(ask: Ask) -> IntArray:
    most, least = ask.policy.frames or ask.policy.max_frames or ask.n, ask.policy.min_frames or 29
    return models.opensoraplan_frames(ask.n, ask.fps, most, ask.draw, train_fps=float(ask.policy.fps), least=least)


def _dali_dense(ask: Ask) -> IntArray:
    return ask.strides_from(_dali_starts(ask)[ask.clip])


def _dali_starts(ask: Ask) -> IntArray:
    return libraries.dali_dense_starts(
        ask.n, ask.policy.frames, ask.policy.stride, ask.policy.step, padded=ask.policy.pad not in ("none", "drop")
    )


def _dali_range(ask: Ask) -> IntArray:
    """`fn.decoders.video`: a negative start lies before the video, it does not count from its end."""
    if ask.policy.frames is not None:
        return ask.strides_from(ask.policy.start)
    return np.arange(
        ask.policy.start, ask.n if ask.policy.end is None else ask.policy.end, ask.policy.stride, dtype=np.int64
    )


def _lerobot(ask: Ask) -> IntArray:
    anchor = (
        ask.clip
        if ask.policy.at is None and ask.policy.mode == "every"
        else ask.draw.below(ask.n)
        if ask.policy.at is None
        else ask.policy.at + ask.n * (ask.policy.at < 0)
    )
    if ask.policy.offsets:
        return anchor + np.array(ask.policy.offsets, dtype=np.int64)
    return libraries.lerobot_delta(anchor, [float(delta) for delta in ask.policy.seconds], ask.fps)


def _cosmos_rate(ask: Ask) -> IntArray:
    """`sample_closest`: the nearest frame (the earlier of a tie) of each time of the grid."""
    clock = ask.clock
    last = clock.last * clock.time_base
    fps = Fraction(ask.policy.fps)
    times = libraries.cosmos_grid_count(clock.first * clock.time_base, last, fps)
    return np.minimum(clock.places(clock.grid(fps, times).moved(clock.first), "nearest")[0], ask.n - 1)


def _cosmos_windows(ask: Ask) -> IntArray:
    first, end = libraries.cosmos_windows(ask.n, ask.policy.frames, max(ask.policy.frames // 2, 1))[ask.clip]
    return np.arange(first, end, dtype=np.int64)


def _wan(ask: Ask) -> IntArray:
    clock = ask.clock
    edges = to_seconds(np.append(clock.pts, clock.end) - clock.first, clock.time_base)
    wanted = ask.policy.frames or (int(float(clock.duration * clock.time_base) * ask.policy.fps) - 1) // 4 * 4 + 1
    return models.wan_vace_frames(
        edges[:-1], edges[1:], float(ask.policy.start_seconds), max(wanted, 1), float(ask.policy.fps)
    )


def _daft(ask: Ask) -> IntArray:
    clock = ask.clock
    return libraries.daft_interval(to_seconds(clock.pts - clock.first, clock.time_base), 1 / float(ask.policy.fps))


def _energon(ask: Ask) -> IntArray:
    """`get_clips_uniform` on an mp4: seconds times the average rate."""
    starts = libraries.energon_uniform_starts(
        ask.n / ask.fps, ask.policy.frames * ask.policy.stride / ask.fps, ask.policy.clips or 1
    )
    return ask.strides_from(max(int(starts[ask.clip] * ask.fps + 1e-6), 0))


def _video2dataset_random(ask: Ask) -> IntArray:
    start = libraries.video2dataset_start(ask.n, ask.policy.frames, ask.policy.stride, ask.draw)
    return ask.strides_from(start)


RULES: dict[tuple[str, str], Rule] = {
    ("dense", "torchcodec"): _torchcodec_dense,
    ("random", "torchcodec"): _torchcodec_random,
    ("rate", "torchcodec"): _torchcodec_rate,
    ("dense", "torchvision"): _torchvision_dense,
    ("rate", "torchvision"): lambda ask: libraries.torchvision_resample(ask.n, ask.fps, float(ask.policy.fps)),
    ("segments", "mmaction2"): _mmaction2_segments,
    ("random", "mmaction2"): _mmaction2_random,
    ("dense", "mmaction2"): _mmaction2_dense,
    ("uniform", "mmaction2"): lambda ask: recognition.mmaction2_uniform_test(ask.n, ask.policy.frames),
    ("random", "slowfast"): _slowfast_random,
    ("dense", "slowfast"): _slowfast_dense,
    ("uniform", "slowfast"): lambda ask: recognition.slowfast_ssv2_test(ask.n, ask.policy.frames),
    ("segments", "slowfast"): _slowfast_segments,
    ("uniform", "pytorchvideo"): lambda ask: libraries.pytorchvideo_subsample(ask.n, ask.policy.frames),
    ("uniform", "qwen"): _qwen_uniform,
    ("rate", "qwen"): _qwen_rate,
    ("random", "videomae"): _videomae,
    ("dense", "videomae"): _videomae,
    ("random", "vjepa2"): _videomae,
    ("dense", "vjepa2"): _videomae,
    ("segments", "internvideo"): _internvideo_segments,
    ("rate", "internvideo"): _internvideo_rate,
    ("random", "opensora"): lambda ask: models.opensora_crop(ask.n, ask.policy.frames, ask.policy.stride, ask.draw),
    ("rate", "opensoraplan"): _opensoraplan,
    ("list", "decord"): lambda ask: np.array([f + ask.n * (f < 0) for f in ask.policy.frames], dtype=np.int64),
    ("uniform", "dali"): lambda ask: libraries.dali_uniform(ask.n, ask.policy.frames),
    ("dense", "dali"): _dali_dense,
    ("strided", "dali"): _dali_range,
    ("list", "dali"): lambda ask: np.array(ask.policy.frames, dtype=np.int64),
    ("delta", "lerobot"): _lerobot,
    ("rate", "cosmos"): _cosmos_rate,
    ("windows", "cosmos"): _cosmos_windows,
    ("rate", "llava"): lambda ask: models.llava_frames(
        ask.n, ask.fps, float(ask.policy.fps), ask.policy.max_frames or 0
    ),
    ("rate", "diffsynth"): lambda ask: models.diffsynth_frames(
        ask.n, ask.fps, target_fps=float(ask.policy.fps), max_frames=ask.policy.max_frames or 81
    ),
    ("uniform", "finetrainers"): lambda ask: models.finetrainers_frames(ask.n, [ask.policy.frames]),
    ("rate", "wan"): _wan,
    ("dense", "energon"): _energon,
    ("random", "video2dataset"): _video2dataset_random,
    ("uniform", "video2dataset"): lambda ask: libraries.video2dataset_uniform(ask.n, ask.policy.frames),
    ("rate", "daft"): _daft,
}
PEERS = tuple(sorted({peer for _, peer in RULES}))

#: Peers that give a number of clips of their own.
_COUNTS: dict[tuple[str, str], Callable[[Ask], int]] = {
    ("dense", "torchvision"): lambda ask: len(
        libraries.torchvision_window_starts(ask.n, ask.policy.frames, ask.policy.step or 1, ask.policy.stride)
    ),
    ("dense", "dali"): lambda ask: len(_dali_starts(ask)),
    ("windows", "cosmos"): lambda ask: len(
        libraries.cosmos_windows(ask.n, ask.policy.frames, max(ask.policy.frames // 2, 1))
    ),
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
        return own(Ask(policy, timeline, low, high))
    return (policy.clips or 1) if policy.name == "dense" and policy.compat in _SPREAD else None


def places(policy: Any, timeline: Timeline, low: int, high: int, draw: Draw, clip: int) -> IntArray:
    """int64[F]: the peer's frames, as frame indices of the video."""
    if getattr(policy, "on_vfr", "time") == "raise" and timeline.timing.is_vfr:
        raise SamplingError(f"{policy.name}: on_vfr='raise': the video's frame rate is variable")
    frames = RULES[policy.name, policy.compat](Ask(policy, timeline, low, high, draw, clip))
    return low + np.asarray(frames, dtype=np.int64)
