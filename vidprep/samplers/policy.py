"""`Policy`, the base of all policies: from a video's timeline and a key to the frames of a clip.

A policy says where the frames of a clip should lie (its *places*, which may lie outside the range), the base does the
rest: snapping to key frames, padding, times. The three kinds differ in what the places depend on: the number of frames
alone (`IndexPolicy`), their times, or the key frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers import checks, compat
from vidprep.samplers.draws import FEW, Draw
from vidprep.samplers.padding import canonical_pad, resolve
from vidprep.samplers.spec import BoolArray, DecodeSpec, FillValue, FrameRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vidprep.records import Timeline
    from vidprep.timebase import IntArray

__all__ = ["DALI_PADS", "Key", "Places", "Policy", "Within"]

#: (seed, epoch, position); any tuple of ints serves.
Key = tuple[int, ...]
#: First frame and one past the last that a clip may use.
Within = tuple[int, int]
#: Padding that `fn.decoders.video` has, under the names that both of us know.
DALI_PADS = frozenset({"constant", "edge", "reflect_101", "reflect_1001"})


class Places(NamedTuple):
    """Where a policy wants the frames of a clip."""

    frames: IntArray
    """int64[F]: wanted frame indices of the video, inside the range or not"""
    stride: int | None = None
    """distance of neighbours, where it is one number above 0"""
    rate_fps: float | None = None
    """rate of the grid of times, where there is one"""
    inside: bool = False
    """all of them are known to lie inside the range"""


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """A rule that says which frames of a video make a clip.

    Every choice is a function of (timeline, key, within, clip) and nothing else. `within` restricts a clip and its padding
    to the frames [first, end) of the video, as `vidprep.samplers.timeline.frames_between` gives them for a segment.
    """

    name: ClassVar[str]
    """its name in the text form"""
    is_list: ClassVar[bool] = False
    """places were named one by one: with pad="none" one outside is an error; `snap` moves each by itself"""
    INTEGERS: ClassVar[Mapping[str, tuple[int, int]]] = {}
    """lowest and highest value of each integer parameter; None is let through where the parameter's default is None"""
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    pad: str = "none"
    """one of vidprep.samplers.padding.PAD_MODES, or an alias"""
    fill_value: FillValue = 0
    """pixels of constant padding, 0..255: one value, or one per channel"""
    snap: int = 0
    """move the clip's first frame (of a list: every frame) to the nearest key frame at most this many frames away"""
    compat: str | None = None
    """a peer whose exact indices are wanted, its known bugs included (vidprep.samplers.compat)"""

    def __post_init__(self) -> None:
        owner = type(self).__name__
        values: dict[str, object] = {"pad": canonical_pad(self.pad)}
        defaults = {f.name: f.default for f in fields(self)}
        for name, (low, high) in {"snap": (0, checks.LIMIT), **self.INTEGERS}.items():
            value = getattr(self, name)
            if value is not None or defaults[name] is not None:
                values[name] = checks.integer(owner, name, value, low, high)
        for name, allowed in self.CHOICES.items():
            values[name] = checks.choice(owner, name, getattr(self, name), allowed)
        channels = self.fill_value if isinstance(self.fill_value, tuple | list) else (self.fill_value,)
        checked = tuple(checks.integer(owner, "fill_value", value, 0, 255) for value in channels)
        values["fill_value"] = checked if isinstance(self.fill_value, tuple | list) else checked[0]
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.compat is not None:
            compat.check_pair(self.name, self.compat)
            if jitter := getattr(self, "jitter", 0):
                raise SamplingError(f"{owner}: jitter={jitter}: expected 0 with compat={self.compat!r}")
        self._check()

    def _check(self) -> None:  # noqa: B027 - most policies demand nothing more
        """What a policy demands of its parameters beyond INTEGERS and CHOICES."""

    @abstractmethod
    def _count(self, timeline: Timeline, low: int, high: int) -> int:
        """How many clips frames low .. high−1 give, before any is dropped; low < high."""

    @abstractmethod
    def _place(self, timeline: Timeline, low: int, high: int, draw: Draw, clip: int) -> Places:
        """Where the frames of a clip should lie; low < high, 0 <= clip < _count."""

    def _offered(self, timeline: Timeline, low: int, high: int) -> int:
        own = compat.count(self, timeline, low, high) if self.compat else None
        return self._count(timeline, low, high) if own is None else own

    def _wanted(self, timeline: Timeline, low: int, high: int, draw: Draw, clip: int) -> Places:
        if self.compat:
            return Places(compat.places(self, timeline, low, high, draw, clip))
        return self._place(timeline, low, high, draw, clip)

    def num_clips(self, timeline: Timeline, within: Within | None = None) -> int:
        """How many clips the video gives: with pad="drop" only those that lie inside, which may be none."""
        if not (len(timeline.pts) if within is None else within[1] - within[0]):
            return 0
        low, high = _window(timeline, within)
        count = self._offered(timeline, low, high)
        while self.pad == "drop" and count and not self._fits(timeline, low, high, count - 1):
            count -= 1  # where clips differ at all, only the last ones run out
        return count

    def _fits(self, timeline: Timeline, low: int, high: int, clip: int) -> bool:
        frames = self._wanted(timeline, low, high, Draw(0), clip).frames
        return bool(len(frames) and frames.min() >= low and frames.max() < high)

    def choose(
        self, timeline: Timeline, key: Key = (0, 0, 0), within: Within | None = None, clip: int = 0
    ) -> DecodeSpec:
        """Frames of one clip.

        Args:
            timeline: the video.
            key: (seed, epoch, position); equal keys give equal clips.
            within: first frame and one past the last that the clip and its padding may use; None = the whole video.
            clip: which of the video's clips, 0 <= clip < num_clips.

        Raises:
            SamplingError: the video or range has no frame, there is no such clip, or pad forbids what it needs.
        """
        low, high = _window(timeline, within)
        count = self._offered(timeline, low, high)
        if not 0 <= clip < count:
            raise SamplingError(f"{self.name}: clip={clip}: the {high - low} frames give {count} clips")
        places = self._wanted(timeline, low, high, Draw.of(key, clip), clip)
        if self.snap:
            places = self._snapped(places, timeline, low, high)
        return self._spec(timeline, places, low, high)

    def choose_all(self, timeline: Timeline, key: Key = (0, 0, 0), within: Within | None = None) -> list[DecodeSpec]:
        """All clips of the video, in order; empty where it gives none."""
        return [self.choose(timeline, key, within, clip) for clip in range(self.num_clips(timeline, within))]

    def choose_many(
        self,
        timelines: Sequence[Timeline],
        keys: Sequence[Key] | IntArray,
        within: Sequence[Within | None] | None = None,
        clips: Sequence[int] | None = None,
    ) -> list[DecodeSpec]:
        """`choose` for V videos at once, equal to it element by element.

        Args:
            timelines: V videos, repeats allowed.
            keys: V keys of equal length; an int64[V, K] array is quickest.
            within: V ranges.
            clips: V numbers of clips.

        Raises:
            SamplingError: the first that `choose` would raise.
        """
        return [
            self.choose(
                timeline,
                tuple(keys[place]),
                None if within is None else within[place],
                0 if clips is None else int(clips[place]),
            )
            for place, timeline in enumerate(timelines)
        ]

    def _snapped(self, places: Places, timeline: Timeline, low: int, high: int) -> Places:
        keys = timeline.keyframes[np.searchsorted(timeline.keyframes, low) : np.searchsorted(timeline.keyframes, high)]
        if self.is_list or places.stride is None:
            return Places(_nearest_key(places.frames, keys, self.snap), None, places.rate_fps)
        first = int(places.frames[0])
        fits = places.frames[-1] < high
        roof = high - (int(places.frames[-1]) - first) if fits else high  # a clip that fits shall fit afterwards
        moved = _nearest_key(places.frames[:1], keys[keys < roof], self.snap)
        return Places(places.frames + (int(moved[0]) - first), places.stride, places.rate_fps)

    def _spec(self, timeline: Timeline, places: Places, low: int, high: int) -> DecodeSpec:
        index, is_padding = self._filled(timeline, places, low, high)
        fill, rate = self.fill_value, places.rate_fps
        if is_padding is None:
            if not len(index):
                raise SamplingError(f"{self.name}: no frame of the clip lies inside [{low}, {high})")
            return DecodeSpec(index, timeline, stride=places.stride, fill_value=fill, rate_fps=rate)
        span = None if places.stride is None else self._padded_span(timeline, places, (low, high))
        return DecodeSpec(index, timeline, is_padding, fill_value=fill, span=span, rate_fps=rate)

    def _filled(self, timeline: Timeline, places: Places, low: int, high: int) -> tuple[IntArray, BoolArray | None]:
        """frame_index, and is_padding where that is set anywhere."""
        del timeline  # for policies that count something else than frames
        frames = places.frames
        if places.inside or _lie_inside(frames, places.stride, low, high):
            return frames, None
        index, is_padding = resolve(frames, low, high, self.pad, is_list=self.is_list)
        return index, is_padding if np.count_nonzero(is_padding) else None

    def _padded_span(self, timeline: Timeline, places: Places, window: Within) -> FrameRange | None:
        """The range as DALI can pad it: it knows no range but the whole video, and starts inside it."""
        first, n = int(places.frames[0]), len(timeline.pts)
        can_say = self.pad in DALI_PADS and window == (0, n) and 0 <= first < n and places.stride is not None
        return FrameRange(first, len(places.frames), places.stride or 1, self.pad) if can_say else None

    def dali_reader_kwargs(self) -> dict[str, Any]:
        """Arguments of DALI's `fn.experimental.readers.video`, to go with the list that `vidprep export` writes.

        Raises:
            SamplingError: the reader cannot say what this policy takes.
        """
        from vidprep.samplers.dali import reader_kwargs

        return reader_kwargs(self)

    def to_dict(self) -> dict[str, Any]:
        """{"name": ..., parameter: value, ...} as JSON holds it, what equals its default left out; `parse_policy` reads it back."""
        chosen = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"name": self.name} | {
            f.name: _plain(chosen[f.name]) for f in fields(self) if chosen[f.name] != f.default
        }

    def to_text(self) -> str:
        """NAME:key=value,...; `parse_policy` reads it back."""
        pairs = [f"{key}={_text_of(value)}" for key, value in self.to_dict().items() if key != "name"]
        return ":".join([self.name, ",".join(pairs)]) if pairs else self.name


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, Fraction) else value


def _text_of(value: object) -> str:
    """Entries of a list are parted by "/", so that a fraction among them is written num:den."""
    return "/".join(str(entry).replace("/", ":") for entry in value) if isinstance(value, list) else str(value)


def _window(timeline: Timeline, within: Within | None) -> Within:
    n = len(timeline.pts)
    if n == 0:
        raise SamplingError("the video has no frames")
    if within is None:
        return 0, n
    low, high = within
    if not 0 <= low < high <= n:
        raise SamplingError(f"within=({low}, {high}): expected 0 <= first < end <= {n}, the number of frames")
    return low, high


def _lie_inside(frames: IntArray, stride: int | None, low: int, high: int) -> bool:
    """Whether all of [low, high) that is asked for is there; few numbers are compared one by one."""
    count = len(frames)
    if stride is not None and count:
        return bool(frames.item(0) >= low and frames.item(-1) < high)
    if 0 < count <= FEW:
        numbers = frames.tolist()
        return bool(min(numbers) >= low and max(numbers) < high)
    return False


def _nearest_key(frames: IntArray, keys: IntArray, tolerance: int) -> IntArray:
    """Each frame's nearest key frame (the earlier of two) if it is near enough, else the frame."""
    if not len(keys):
        return frames
    after = np.searchsorted(keys, frames)
    earlier, later = keys[np.maximum(after - 1, 0)], keys[np.minimum(after, len(keys) - 1)]
    nearest = np.where(np.abs(frames - earlier) <= np.abs(later - frames), earlier, later)
    return np.where(np.abs(nearest - frames) <= tolerance, nearest, frames)
