"""`Policy`, the base of all policies: from a video's timeline and a key to the frames of a clip."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vidprep.records import Timeline
from vidprep.samplers.spec import DecodeSpec, FillValue

__all__ = ["Key", "Policy", "Within"]

#: (seed, epoch, position); any tuple of ints serves.
Key = tuple[int, ...]
#: First frame and one past the last that a clip may use.
Within = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """A rule that says which frames of a video make a clip."""

    name: ClassVar[str]
    """its name in the text form"""

    pad: str = "none"
    """one of vidprep.samplers.padding.PAD_MODES"""
    fill_value: FillValue = 0
    """pixels of constant padding"""
    snap: int = 0
    """move the clip's first frame (of a list: every frame) to the nearest key frame at most this many frames away"""
    compat: str | None = None
    """a peer whose exact indices are wanted, its known bugs included"""

    @abstractmethod
    def num_clips(self, timeline: Timeline, within: Within | None = None) -> int:
        """How many clips the video gives; 0 where pad="drop" and none fits."""

    @abstractmethod
    def choose(
        self, timeline: Timeline, key: Key = (0, 0, 0), within: Within | None = None, clip: int = 0
    ) -> DecodeSpec:
        """Frames of clip number `clip` (0 <= clip < num_clips)."""

    def choose_all(self, timeline: Timeline, key: Key = (0, 0, 0), within: Within | None = None) -> list[DecodeSpec]:
        """All clips of the video."""
        return [self.choose(timeline, key, within, clip) for clip in range(self.num_clips(timeline, within))]

    def choose_many(
        self,
        timelines: Sequence[Timeline],
        keys: Sequence[Key],
        within: Sequence[Within | None] | None = None,
        clips: Sequence[int] | None = None,
    ) -> list[DecodeSpec]:
        """`choose` for many videos at once; the first error of any of them is raised."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """{"name": ..., field: value, ...}, only what differs from the default; parse_policy reads it back."""
        raise NotImplementedError

    def to_text(self) -> str:
        """NAME:key=value,...; parse_policy reads it back."""
        raise NotImplementedError
