"""The values that vidprep's packages pass to each other. Frozen, typed, no I/O.

Words: a *row* is one coded sample of the container in decode order (a packet); a *frame* is what a viewer sees,
counted from 0 in presentation order after the edit list. `SampleTable` holds rows and knows how frames map to them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntFlag
from fractions import Fraction
from operator import itemgetter
from typing import Any, Generic, Protocol, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from vidprep.timebase import (
    FloatArray,
    IntArray,
    TimingFacts,
    even_step,
    presentation_order,
    timing_facts,
    to_seconds,
    unchecked,
)

__all__ = [
    "Finding",
    "Identity",
    "ParsedVideo",
    "ReadAt",
    "SampleFlag",
    "SampleTable",
    "StreamInfo",
    "Timeline",
    "Video",
    "VideoCollection",
    "VideoLike",
]

#: read_at(offset, size) -> at most `size` bytes, fewer only at the end of the file.
ReadAt = Callable[[int, int], bytes]


class SampleFlag(IntFlag):
    """Bits of `SampleTable.flags`."""

    KEY = 1
    """decoding can start here (IDR, CRA, recovery point without delay); a claim unless `keys_verified`"""
    SHOWN = 2
    """gives a frame that a viewer sees; others are fed to the decoder and their picture is thrown away"""
    DISPOSABLE = 4
    """no other picture refers to it; not set = unknown or referred to"""
    RESTART = 8
    """a key row that the row before does not lead up to (another segment of an edit list, or samples were lost):
    a decoder is drained and starts afresh"""


_T = TypeVar("_T")


class cached_property(Generic[_T]):  # noqa: N801 - reads as the decorator that it stands for
    """`functools.cached_property` without its lock, which costs as much as the shorter of the computations."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object, owner: type) -> Self | _T:
        if instance is None:
            return self
        value = instance.__dict__[self._compute.__name__] = self._compute(instance)
        return value


#: Ready arrays: numpy takes a detour for each IntFlag, and a shorter one for each number, that it meets.
_KEY, _SHOWN = np.array(SampleFlag.KEY, np.uint8), np.array(SampleFlag.SHOWN, np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong with a file and did not stop it from being read."""

    reason: str
    message: str
    offset: int | None = None


@dataclass(frozen=True, kw_only=True)
class SampleTable:
    """The coded samples of one video track, in the order in which a decoder is fed.

    Where an edit list shows a part of the track twice, its rows stand here twice. All arrays have length n.
    """

    offset: IntArray
    """first byte of the sample in the file"""
    size: IntArray
    """bytes"""
    pts: IntArray
    """ticks of time_base after the edit list; may be negative on rows that are not shown"""
    flags: npt.NDArray[np.uint8]
    """bits of SampleFlag"""
    order: IntArray | None = None
    """row of each frame where sorting by pts would be wrong (times that jump back); None = sort by pts, stable"""
    crc32: npt.NDArray[np.uint32] | None = None
    """CRC-32 of each sample's bytes, with `--checksums`"""

    def __post_init__(self) -> None:
        n = len(self.offset)
        if not len(self.size) == len(self.pts) == len(self.flags) == n:
            raise ValueError(
                f"columns differ in length: offset {n}, size {len(self.size)}, pts {len(self.pts)}, "
                f"flags {len(self.flags)}"
            )

    def __len__(self) -> int:
        return len(self.offset)

    @cached_property
    def frame_rows(self) -> IntArray:
        """int64[num_frames]: the row that gives each frame, in presentation order."""
        if self.order is not None:
            return self.order
        is_shown = self.flags & _SHOWN
        if np.count_nonzero(is_shown) == len(self.pts):
            return presentation_order(self.pts)
        shown = is_shown.nonzero()[0]
        return shown[presentation_order(self.pts[shown])]

    @property
    def num_frames(self) -> int:
        """How many frames a viewer sees."""
        return len(self.frame_rows)

    @cached_property
    def frame_pts(self) -> IntArray:
        """int64[num_frames]: presentation times in ticks."""
        return self.pts[self.frame_rows]

    @cached_property
    def key_rows(self) -> IntArray:
        """int64[k]: rows at which decoding can start, ascending."""
        return (self.flags & _KEY).nonzero()[0]

    @cached_property
    def keyframes(self) -> IntArray:
        """int64[k]: indices of frames at which decoding can start, ascending."""
        keys, rows = self.key_rows, self.frame_rows
        # Nearly always all that comes before a key row is shown before it: the key's frame has its row's number.
        if len(rows) == len(self.flags) and rows[keys].tobytes() == keys.tobytes():
            return keys
        return (self.flags[rows] & _KEY).nonzero()[0]


@dataclass(frozen=True, kw_only=True)
class StreamInfo:
    """Facts about a video stream that hold for all of it. None = the stream does not say."""

    container: str
    """short name: mp4, mov, 3gp, matroska, webm, avi, mpegts, mpegps, flv, ogg, asf, mxf, h264, hevc, ivf, ..."""
    codec: str
    """FFmpeg's name: h264, hevc, vp8, vp9, av1, mpeg4, mjpeg, ..."""
    codec_tag: str = ""
    """fourcc, or empty"""
    codec_config: bytes = b""
    """the decoder's set-up as FFmpeg calls extradata: avcC, hvcC, av1C, esds payload, sequence header"""
    later_configs: tuple[tuple[int, bytes], ...] = ()
    """(row, configuration): from that row on the samples need another set-up than before; ascending"""
    nal_length_size: int = 0
    """bytes of each NAL unit's length prefix (H.264, HEVC, VVC); 0 = start codes, or no NAL units"""
    stream_index: int = 0
    """place among the container's tracks, counted as FFmpeg counts"""
    track_id: int | None = None
    width: int = 0
    """after cropping, before rotation"""
    height: int = 0
    coded_width: int = 0
    coded_height: int = 0
    display_width: int = 0
    """as shown: sample aspect ratio and rotation applied"""
    display_height: int = 0
    sar: tuple[int, int] = (1, 1)
    rotation: int = 0
    """degrees clockwise to be applied for display: 0, 90, 180, 270"""
    profile: str | None = None
    level: str | None = None
    pix_fmt: str | None = None
    """FFmpeg's name"""
    bit_depth: int | None = None
    chroma: str | None = None
    """"4:2:0", "4:2:2", "4:4:4", "4:0:0", "rgb" """
    interlaced: bool | None = None
    colour_matrix: str | None = None
    """"bt709", "bt601" (also smpte170m, bt470bg), "bt2020", "rgb", ...; None = untagged"""
    colour_range: str | None = None
    """"limited" or "full"; None = untagged"""
    colour_primaries: str | None = None
    colour_transfer: str | None = None
    time_base: Fraction = Fraction(1, 1)
    """seconds per tick"""
    last_duration_ticks: int = 0
    """how long the last frame is shown"""
    header_num_frames: int | None = None
    """the header's own count, right or wrong"""
    header_fps: float | None = None
    """the header's own frame rate claim"""
    reorder_depth: int | None = None
    """pictures that decode order may run ahead of presentation order"""
    nvdec: str = "unknown"
    """NVDEC capability class: "yes", "some" (newer generations only), "no", "unknown" """
    has_audio: bool = False
    audio_duration_seconds: float | None = None
    other_streams: tuple[str, ...] = ()
    """other video tracks, one phrase each"""

    def at_row(self, row: int) -> StreamInfo:
        """The stream with the configuration that a row of its table needs as `codec_config`."""
        place = bisect_right(self.later_configs, row, key=itemgetter(0))
        return replace(self, codec_config=self.later_configs[place - 1][1]) if place else self


@dataclass(frozen=True, kw_only=True)
class ParsedVideo:
    """What a container parser returns: stream facts, sample table, and how they were had."""

    info: StreamInfo
    table: SampleTable
    method: str
    """"header" (sample tables), "scan" (fragments or blocks walked), "demux" (PyAV)"""
    access: str = "ranges"
    """"ranges": each row's bytes lie at offset..offset+size; "demux": they must be demuxed again from the file"""
    keys_verified: bool = False
    """KEY was checked against the heads of the samples"""
    doubts: tuple[str, ...] = ()
    """why sample heads were read although the tables looked whole"""
    warnings: tuple[Finding, ...] = ()

    @cached_property
    def timing(self) -> TimingFacts:
        """Timing facts of the frames."""
        return timing_facts(self.table.frame_pts, self.info.last_duration_ticks, self.info.time_base)

    @cached_property
    def timeline(self) -> Timeline:
        """The frames as samplers see them."""
        return unchecked(
            Timeline,
            pts=self.table.frame_pts,
            time_base=self.info.time_base,
            last_duration_ticks=self.info.last_duration_ticks,
            keyframes=self.table.keyframes,
        )


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """What a sampler may know of a video: when each frame is shown, and where decoding can start."""

    pts: IntArray
    """int64[num_frames] ticks, presentation order"""
    time_base: Fraction
    last_duration_ticks: int = 0
    keyframes: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """int64[k] frame indices, ascending"""

    @classmethod
    def regular(cls, num_frames: int, fps: Fraction | float | int | str = 30) -> Timeline:
        """Constant rate, from 0, one tick a frame; `fps` may be a Fraction, a number or "30000/1001"."""
        rate = Fraction(fps).limit_denominator(1_001_000)
        return cls(pts=np.arange(num_frames, dtype=np.int64), time_base=1 / rate, last_duration_ticks=1)

    @property
    def num_frames(self) -> int:
        """Number of frames."""
        return len(self.pts)

    @cached_property
    def pts_seconds(self) -> FloatArray:
        """float64[num_frames] presentation times."""
        return to_seconds(self.pts, self.time_base)

    @property
    def end_pts(self) -> int:
        """Ticks at which the last frame stops being shown."""
        return int(self.pts[-1]) + self.last_duration_ticks if len(self.pts) else 0

    @cached_property
    def step_ticks(self) -> int:
        """Ticks from each frame to the next where they are all alike and above 0, else 0."""
        return even_step(self.pts)

    @cached_property
    def is_rising(self) -> bool:
        """Whether no frame is shown before the one before it."""
        return self.step_ticks > 0 or not np.count_nonzero(self.pts[1:] < self.pts[:-1])

    @cached_property
    def timing(self) -> TimingFacts:
        """Timing facts of the frames."""
        return timing_facts(self.pts, self.last_duration_ticks, self.time_base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What makes an index row stale when it differs from the file."""

    size_bytes: int
    mtime_ns: int | None = None
    etag: str | None = None
    member_offset: int | None = None
    """where a tar member's data starts in its archive; None = not a member"""


class VideoLike(Protocol):
    """One video of a collection, as samplers and loaders see it (a row of an index, or a probed file)."""

    @property
    def uri(self) -> str:
        """Where it is."""

    @property
    def identity(self) -> Identity:
        """The content that the tables below describe."""

    @property
    def info(self) -> StreamInfo:
        """Stream facts."""

    @property
    def table(self) -> SampleTable:
        """Coded samples."""

    @property
    def timeline(self) -> Timeline:
        """When its frames are shown."""

    @property
    def access(self) -> str:
        """As ParsedVideo.access."""

    @property
    def keys_verified(self) -> bool:
        """As ParsedVideo.keys_verified."""


@dataclass(frozen=True, kw_only=True)
class Video:
    """A probed file: a VideoLike that stands for itself."""

    uri: str
    identity: Identity
    parsed: ParsedVideo

    @property
    def info(self) -> StreamInfo:
        """Stream facts."""
        return self.parsed.info

    @property
    def table(self) -> SampleTable:
        """Coded samples."""
        return self.parsed.table

    @property
    def timeline(self) -> Timeline:
        """When its frames are shown."""
        return self.parsed.timeline

    @property
    def access(self) -> str:
        """As ParsedVideo.access."""
        return self.parsed.access

    @property
    def keys_verified(self) -> bool:
        """As ParsedVideo.keys_verified."""
        return self.parsed.keys_verified


class VideoCollection(Protocol):
    """What a plan needs of an index; a list of videos in a test will do."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the order or the content of the videos does."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int) -> VideoLike: ...

    def column(self, name: str) -> npt.NDArray[Any]:
        """One value for each video, by the index's column name."""
