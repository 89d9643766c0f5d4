"""`iter_clips`: the clips of an epoch one by one as numpy arrays, over the cpu engine; no DALI, no GPU, no threads."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vidprep.loaders import arguments
from vidprep.loaders.clip_source import ClipSource
from vidprep.loaders.engines.choose import COLOUR_DEFAULTS
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.loaders.failures import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    import numpy.typing as npt

    from vidprep.loaders.batches import LoadedClip
    from vidprep.loaders.failures import Failure
    from vidprep.samplers.plan import Plan
    from vidprep.samplers.spec import DecodeSpec
    from vidprep.timebase import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Clip:
    """One clip: F places."""

    position: int
    """its place in the epoch"""
    video: int
    """number of the video in the plan's collection"""
    frames: npt.NDArray[np.uint8] | None
    """(F, H, W, 3) RGB; None where the clip could not be had and `on_error` is "skip" """
    spec: DecodeSpec | None
    """None where the policy refused to choose"""
    labels: Mapping[str, Any]
    failures: tuple[Failure, ...] = ()
    """clips that could not be had in this place before"""

    @property
    def is_valid(self) -> bool:
        """Whether there are frames."""
        return self.frames is not None

    @property
    def pts_seconds(self) -> FloatArray:
        """float64 (F,), nan where constant padding."""
        return self._chosen.pts_seconds

    @property
    def frame_index(self) -> IntArray:
        """int64 (F,), -1 where constant padding."""
        return self._chosen.frame_index

    @property
    def is_padding(self) -> npt.NDArray[np.bool_]:
        """Which places are padding, bool (F,)."""
        return self._chosen.is_padding

    @property
    def _chosen(self) -> DecodeSpec:
        if self.spec is None:
            raise ValueError(f"no frames were chosen at position {self.position}: {self.failures[-1].message}")
        return self.spec


def iter_clips(
    plan: Plan,
    epoch: int = 0,
    *,
    start: int = 0,
    on_error: str = "replace",
    size: tuple[int, int] | None = None,
    colour_default: str | None = None,
) -> Iterator[Clip]:
    """The clips of an epoch in order.

    Args:
        plan: the plan.
        epoch: which epoch.
        start: first position.
        on_error: what becomes of a clip that cannot be had: "replace" by the plan's replacement, "skip" (its place
            stays, without frames), or "raise".
        size: (height, width) to resize to; None = as coded.
        colour_default: matrix of untagged pictures: "bt601" (None too), "bt709", "bt2020".

    Raises:
        ArgumentError: an argument is none that is allowed.
        DecodeError, MediaError, SamplingError: a clip cannot be had, with `on_error="raise"`, or no replacement can.
    """
    arguments.plan_of_clips(plan)
    arguments.choice("on_error", on_error, POLICIES)
    epoch, start = arguments.integer("epoch", epoch, 0), arguments.integer("start", start, 0)
    size = arguments.size_of("size", size)
    if colour_default is not None:
        arguments.choice("colour_default", colour_default, COLOUR_DEFAULTS)
    return _clips(plan, epoch, start, on_error, size, colour_default)


def _clips(
    plan: Plan, epoch: int, start: int, on_error: str, size: tuple[int, int] | None, colour_default: str | None
) -> Iterator[Clip]:
    with closing(CpuEngine(size=size, colour_default=colour_default)) as engine:
        source = ClipSource(plan, engine, on_error)
        for position in range(start, plan.num_positions):
            yield _clip(source.load(epoch, position))


def _clip(loaded: LoadedClip) -> Clip:
    return Clip(
        position=loaded.position,
        video=loaded.video,
        frames=None if loaded.is_missing else loaded.frames,
        spec=loaded.spec,
        labels=loaded.labels,
        failures=loaded.failures,
    )
