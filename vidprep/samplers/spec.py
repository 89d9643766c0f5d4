"""`DecodeSpec`: the frames of one clip, which is all that a decoder needs to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vidprep.samplers.many import SharedTimes
from vidprep.timebase import to_seconds

if TYPE_CHECKING:
    from vidprep.records import Timeline
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


class DecodeSpec:
    """The frames of one clip, in the order in which they are wanted; F places. Its attributes cannot be set.

    Times, mask and range are worked out when first asked for: most of a spec's cost, and what a decoder has no use for.

    Args:
        frame_index: as the attribute.
        times: the video's timeline, or the times of a number of clips, of which this is the `clip`-th.
        is_padding: as the attribute; None = no place is padding.
        stride: distance of neighbours, where they are a range that lies inside the video.
        fill_value, span, rate_fps: as the attributes.
        pts_seconds: as the attribute, for a spec without `times`.
    """

    __slots__ = (
        "_clip", "_fill_value", "_frames", "_is_padding", "_rate_fps", "_seconds", "_span", "_stride", "_times",
    )  # fmt: skip

    def __init__(
        self, frame_index: IntArray, times: Timeline | SharedTimes | None = None, is_padding: BoolArray | None = None,
        clip: int = 0, *, stride: int | None = None, fill_value: FillValue = 0, span: FrameRange | None = None,
        rate_fps: float | None = None, pts_seconds: FloatArray | None = None,
    ) -> None:  # fmt: skip
        self._frames = frame_index
        self._times = times
        self._is_padding = is_padding
        self._clip = clip
        self._stride = stride
        self._fill_value = fill_value
        self._span = span
        self._rate_fps = rate_fps
        self._seconds = pts_seconds

    @property
    def frame_index(self) -> IntArray:
        """int64[F]: frame index of each place, -1 = constant padding."""
        return self._frames

    @property
    def pts_seconds(self) -> FloatArray:
        """float64[F]: presentation time of each place's frame, nan where constant padding."""
        if self._seconds is None:
            self._seconds = self._look_up()
        return self._seconds

    def _look_up(self) -> FloatArray:
        if self._times is None:
            raise ValueError("pts_seconds: expected them, or a timeline that tells them")
        if isinstance(self._times, SharedTimes):
            return self._times.of(self._clip)
        seconds = to_seconds(self._times.pts[self._frames], self._times.time_base)
        if self._is_padding is not None:
            seconds[self._frames < 0] = np.nan
        return seconds

    @property
    def is_padding(self) -> BoolArray:
        """bool[F]: the place lay outside the clip's range and was filled according to the policy's pad."""
        if self._is_padding is None:
            self._is_padding = np.zeros(len(self._frames), np.bool_)
        return self._is_padding

    @property
    def fill_value(self) -> FillValue:
        """Value of the pixels of constant padding."""
        return self._fill_value

    @property
    def span(self) -> FrameRange | None:
        """The same frames as a range, where they are one."""
        if self._stride is None:
            return self._span
        return FrameRange(int(self._frames[0]), len(self._frames), self._stride, "none")

    @property
    def rate_fps(self) -> float | None:
        """Rate of the grid of times on which a time policy looked, frames per second."""
        return self._rate_fps

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        return (
            f"DecodeSpec(frame_index={self.frame_index!r}, pts_seconds={self.pts_seconds!r}, "
            f"is_padding={self.is_padding!r}, fill_value={self.fill_value!r}, span={self.span!r}, rate_fps={self.rate_fps!r})"
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Goes to another process with its own frames and times, not the video's."""
        facts = (self.frame_index, self.pts_seconds, self.is_padding, self.fill_value, self.span, self.rate_fps)
        return _spec_of, facts

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


def _spec_of(
    frame_index: IntArray, pts_seconds: FloatArray, is_padding: BoolArray,
    fill_value: FillValue, span: FrameRange | None, rate_fps: float | None,
) -> DecodeSpec:  # fmt: skip
    """What `DecodeSpec.__reduce__` says."""
    return DecodeSpec(
        frame_index, is_padding=is_padding, pts_seconds=pts_seconds, fill_value=fill_value, span=span, rate_fps=rate_fps
    )
