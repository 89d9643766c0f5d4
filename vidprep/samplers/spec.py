"""`DecodeSpec`: the frames of one clip, which is all that a decoder needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from vidprep.timebase import FloatArray, IntArray

__all__ = ["BoolArray", "DecodeSpec", "FillValue", "FrameRange"]

BoolArray = npt.NDArray[np.bool_]
#: One value for all channels, or one per channel; 0..255.
FillValue = int | tuple[int, ...]


class FrameRange(NamedTuple):
    """Frames start, start + stride, ...: the form that `fn.decoders.video` takes as it is.

    A spec carries one only where it says the same as `frame_index`: `start` lies inside the video, and where places are
    padded, `pad` is a mode that DALI has and the clip may use the whole video (DALI reflects about its ends).
    """

    start: int
    length: int
    stride: int
    pad: str
    """"none" (every place lies inside the video), "constant", "edge", "reflect_101" or "reflect_1001" """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecodeSpec:
    """The frames of one clip, in the order in which they are wanted; F places."""

    frame_index: IntArray
    """int64[F]: frame index of each place, -1 = constant padding"""
    pts_seconds: FloatArray
    """float64[F]: presentation time of each place's frame, nan where constant padding"""
    is_padding: BoolArray
    """bool[F]: the place lay outside the clip's range and was filled according to the policy's pad"""
    fill_value: FillValue = 0
    """value of the pixels of constant padding"""
    span: FrameRange | None = None
    """the same frames as a range, where they are one"""
    rate_fps: float | None = None
    """rate of the grid of times on which a time policy looked, frames per second"""

    def __len__(self) -> int:
        return len(self.frame_index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DecodeSpec):
            return NotImplemented
        return (
            np.array_equal(self.frame_index, other.frame_index)
            and np.array_equal(self.pts_seconds, other.pts_seconds, equal_nan=True)
            and np.array_equal(self.is_padding, other.is_padding)
            and (self.fill_value, self.span, self.rate_fps) == (other.fill_value, other.span, other.rate_fps)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays; equal specs may not share a hash

    @property
    def effective_fps(self) -> float | None:
        """Frames per second of the clip: `rate_fps`, else gaps / (last − first time); None where that is undefined."""
        if self.rate_fps is not None:
            return self.rate_fps
        times = self.pts_seconds[~self.is_padding]
        span = float(times[-1] - times[0]) if len(times) > 1 else 0.0
        return (len(times) - 1) / span if span > 0 else None

    @property
    def unique_frames(self) -> IntArray:
        """int64[U]: the frames to decode, ascending, each once."""
        frames: IntArray = np.unique(self.frame_index)
        return frames[1:] if len(frames) and frames[0] < 0 else frames

    @property
    def gather(self) -> IntArray:
        """int64[F]: place of each frame in `unique_frames`, -1 = constant padding."""
        places = np.searchsorted(self.unique_frames, self.frame_index)
        return np.where(self.frame_index < 0, -1, places)

    def dali_kwargs(self) -> dict[str, Any]:
        """Arguments of DALI's `fn.decoders.video` for these frames; see `vidprep.samplers.dali`."""
        from vidprep.samplers.dali import decoder_kwargs

        return decoder_kwargs(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, as `vidprep sample --json` prints them; pts_seconds is None where constant padding."""
        return {
            "frame_index": self.frame_index.tolist(),
            "pts_seconds": [None if t != t else t for t in self.pts_seconds.tolist()],
            "is_padding": self.is_padding.tolist(),
        }
