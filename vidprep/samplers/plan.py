"""`Plan`: the order of every epoch as a pure function of (seed, epoch, position).

position → place of a bucket → (shuffle) clip → unit, a video or a row of a clips table → frames. Each step is
arithmetic or a search in a table of at most 16 bytes a unit, so that any place of any epoch is had at once, in any
process.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vidprep.errors import SamplingError
from vidprep.records import Timeline
from vidprep.samplers.buckets import Buckets, bucket_of_each
from vidprep.samplers.cost import balanced, cost_bound
from vidprep.samplers.counts import clips_of_each, timeline_of
from vidprep.samplers.draws import state_of, word
from vidprep.samplers.layout import laid_out
from vidprep.samplers.parse import parse_policy
from vidprep.samplers.permutation import Permutation
from vidprep.samplers.ranks import RankBatch, num_batches, rank_batches
from vidprep.samplers.segments import Units, UnknownClip, read_segments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from vidprep.records import VideoCollection, VideoLike
    from vidprep.samplers.policy import Key, Policy
    from vidprep.samplers.spec import DecodeSpec
    from vidprep.timebase import IntArray

__all__ = ["Plan", "PlannedClip"]

# Streams of random numbers that no clip's key (seed, epoch, position, clip) can share: keys of other lengths.
ORDER, BATCHES, WINDOW, SHIFT, REPLACEMENT = range(5)
MAX_CACHED_WINDOWS = 8

_permutation = lru_cache(maxsize=1024)(Permutation.keyed)


@lru_cache(maxsize=64)
def _shift_of(seed: int, epoch: int) -> float:
    return word(state_of((seed, epoch)), SHIFT) / 2**64


class Place(NamedTuple):
    """Where a position stands."""

    bucket: int
    i: int
    """number within the bucket, before shuffling"""
    draw: int
    """what the clip's randomness is keyed on; the position itself, unless buckets or balancing move clips about"""
    is_repeat: bool
    """fills the last batch of its bucket"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClip:
    """One place of an epoch."""

    position: int
    video: int
    """number of the video in the plan's collection"""
    uri: str
    spec: DecodeSpec
    clip: int = 0
    """which of the video's (or row's) clips"""
    row: int | None = None
    """row of the clips table"""
    labels: dict[str, Any] = field(default_factory=dict)
    """the row's other columns"""
    cost_bound: int = 0
    """most pictures that must be decoded for it"""
    bucket: int = 0
    media: VideoLike | Timeline | None = field(default=None, repr=False, compare=False)
    """the video itself, as the plan's collection gave it"""


class Plan:
    """Clips of videos in an order that depends on (seed, epoch) alone.

    Args:
        videos: an index, or a list of videos or timelines.
        policy: which frames of a video make a clip; a text or dict as `parse_policy` takes it will do.
        seed: any integer.
        clips: a table of segments (see `vidprep.samplers.segments.read_segments`): its rows are the units, a clip and
            its padding stay inside, other columns come out as labels. None = every video is a unit.
        shuffle: False = units in order, every epoch the same.
        clips_per_video: how often an epoch visits each clip of each unit; random policies draw anew each time.
        weights: float for each unit, or the name of a column: units come up in proportion.
        clips_per_epoch: length of a weighted epoch; None = as many as without weights.
        buckets: batches shall not mix; see `vidprep.samplers.buckets.bucket_of_each`. Needs batch_size.
        batch_size: clips of a batch on one rank, needed with buckets and balancing; loaders must use the same.
        drop_last_of_bucket: leave out clips that do not fill a batch of their bucket (another few each epoch), rather
            than repeat some of the bucket's clips.
        balance: batches in a window within which clips are dealt so that batches cost about the same (0 = off); a
            multiple of the world size, so that ranks wait little for each other.
        max_cost: refuse clips whose `cost_bound` is higher.

    Attributes:
        refused: units that give no clip at all (no frames, or pad="drop" and too short): no place asks for them.
            Others may still be refused when their place comes up, see `clip`.
        unknown_clips: rows of the clips table that cannot serve, and why.
        buckets: what each bucket stands for, or None.
        num_positions: places of an epoch, the same for every epoch.

    Raises:
        SamplingError: arguments that make no sense; a clips table without a usable row.
    """

    def __init__(
        self, videos: VideoCollection | Sequence[VideoLike] | Sequence[Timeline],
        policy: Policy | str | Mapping[str, Any], *,
        seed: int, clips: Any = None, shuffle: bool = True, clips_per_video: int = 1,
        weights: Sequence[float] | npt.NDArray[np.float64] | str | None = None, clips_per_epoch: int | None = None,
        buckets: Buckets | None = None, batch_size: int | None = None, drop_last_of_bucket: bool = False,
        balance: int = 0, max_cost: int | None = None,
    ) -> None:  # fmt: skip
        policy = _policy_of(policy)
        _check_videos(videos)
        if not hasattr(seed, "__index__"):
            raise SamplingError(f"seed={seed!r}: expected an integer")
        _check_integers(clips_per_video=clips_per_video, batch_size=batch_size, max_cost=max_cost)
        if (buckets is not None or balance) and batch_size is None:
            raise SamplingError("batch_size: needed with buckets and with balance")
        if weights is None and clips_per_epoch is not None:
            raise SamplingError("clips_per_epoch: only with weights; without them an epoch visits every clip once")
        self.videos: Any = videos
        self.policy, self.seed, self.shuffle = policy, seed, shuffle
        self.batch_size = batch_size if buckets is not None or balance else None
        self.max_cost, self.balance, self.clips_per_video = max_cost, balance, clips_per_video
        self.units, self.unknown_clips = _units_of(clips, videos)
        counts = clips_of_each(self.units, videos, policy)
        self.refused = np.flatnonzero(np.broadcast_to(counts == 0, self.units.count)).astype(np.int32)
        number, self.buckets = _bucketed(buckets, self)
        shares = _column(self, weights) if isinstance(weights, str) else weights
        self._layout = laid_out(self.units.count, counts * clips_per_video, number, shares, clips_per_epoch)
        per_bucket = self._layout.sizes if self.batch_size is None else -(-self._layout.sizes // self.batch_size)
        if drop_last_of_bucket and buckets is not None and batch_size is not None:
            per_bucket = self._layout.sizes // batch_size
        self._batches = np.cumsum(per_bucket)  # running total of batches, bucket by bucket
        self._windows: dict[tuple[int, int, int], IntArray] = {}
        self.num_positions = int(self._layout.sizes.sum())
        if batch_size is not None and self.is_bucketed:
            self.num_positions = int(self._batches[-1]) * batch_size if len(self._batches) else 0

    @property
    def is_bucketed(self) -> bool:
        """Whether batches must not be torn."""
        return self.buckets is not None

    def __len__(self) -> int:
        return self.num_positions

    @property
    def num_refused(self) -> int:
        """How many units give no clip."""
        return len(self.refused)

    @cached_property
    def fingerprint(self) -> int:
        """A number that changes with whatever changes an epoch: compare it before resuming."""
        layout, units = self._layout, self.units
        words = f"{getattr(self.videos, 'fingerprint', len(self.videos))} {self.policy.to_text()}"
        arrays = (layout.sizes, layout.ends, layout.order, units.video, units.within)
        sums = (0 if array is None else zlib.crc32(array.tobytes()) for array in arrays)
        numbers = (
            self.seed,
            self.shuffle,
            self.clips_per_video,
            self.balance,
            self.batch_size or 0,
            self.max_cost or 0,
        )
        return state_of((zlib.crc32(words.encode()), *sums, *numbers)) >> 1

    # --- places -------------------------------------------------------------------------------------------------------

    def place(self, epoch: int, position: int) -> Place:
        """Bucket and place in it; IndexError outside the epoch."""
        if not 0 <= position < self.num_positions:
            raise IndexError(f"position {position} is outside 0..{self.num_positions - 1}")
        if self.batch_size is None:
            return Place(0, position, position, is_repeat=False)
        number, offset = divmod(position, self.batch_size)
        if self.is_bucketed and self.shuffle:
            number = _permutation(self._batches.item(-1), (self.seed, epoch, BATCHES))(number)
        bucket = bisect_right(self._batches.data, number)
        first = self._batches.item(bucket - 1) if bucket else 0
        i = (number - first) * self.batch_size + offset
        if self.balance:
            i = self._rebalanced(epoch, bucket, i)
        size = self._layout.sizes.item(bucket)
        return Place(bucket, i % size, first * self.batch_size + i, is_repeat=i >= size)

    def unit(self, epoch: int, position: int) -> tuple[int, int]:
        """The unit that a position takes its clip from, and the number of the clip within it."""
        place = self.place(epoch, position)
        unit, clip, count = self._layout.owner(place.bucket, self._shuffled(epoch, place), self._shift(epoch))
        return unit, self._clip_number(clip, count)

    def _shuffled(self, epoch: int, place: Place) -> int:
        if not self.shuffle:
            return place.i
        return _permutation(self._layout.sizes.item(place.bucket), (self.seed, epoch, ORDER, place.bucket, 0))(place.i)

    def _shift(self, epoch: int) -> float:
        if not self._layout.is_weighted:
            return 0.0
        return _shift_of(self.seed, epoch) if self.shuffle else 0.5

    def _clip_number(self, clip: int, count: int) -> int:
        return clip if self.clips_per_video == 1 else clip % (count // self.clips_per_video)

    # --- clips --------------------------------------------------------------------------------------------------------

    def clip(self, epoch: int, position: int) -> PlannedClip:
        """The clip at a place of an epoch.

        Raises:
            IndexError: position outside 0..num_positions−1.
            SamplingError: the policy refuses this video, or the clip costs more than max_cost.
        """
        place = self.place(epoch, position)
        owner = self._layout.owner(place.bucket, self._shuffled(epoch, place), self._shift(epoch))
        number = self._clip_number(owner.clip, owner.num_clips)
        return self._planned(position, place.bucket, owner.unit, number, (self.seed, epoch, place.draw))

    def replacement(self, epoch: int, position: int, attempt: int) -> PlannedClip:
        """What stands in for a clip that failed: attempt 1, 2, ... draw uniformly from the same bucket.

        A function of (seed, epoch, position, attempt): every run replaces alike, on any number of ranks. The result may
        be refused too.

        Raises:
            SamplingError: as `clip`.
        """
        if attempt < 1:
            raise SamplingError(f"attempt={attempt}: expected >= 1")
        place = self.place(epoch, position)
        key = (self.seed, epoch, place.draw, attempt, REPLACEMENT)
        i = word(state_of(key), 0) % int(self._layout.sizes[place.bucket])
        owner = self._layout.owner(place.bucket, i, self._shift(epoch))
        return self._planned(position, place.bucket, owner.unit, self._clip_number(owner.clip, owner.num_clips), key)

    def clips(self, epoch: int, positions: Sequence[int] | IntArray) -> list[PlannedClip]:
        """`clip` for many places at once; the first error of any of them is raised."""
        places = [self.place(epoch, int(position)) for position in positions]
        numbers = np.array([self._shuffled(epoch, place) for place in places], dtype=np.int64)
        buckets = np.array([place.bucket for place in places], dtype=np.int64)
        owners = self._layout.owners(buckets, numbers, self._shift(epoch))
        units = owners.unit.tolist()
        clips = [self._clip_number(*pair) for pair in zip(owners.clip.tolist(), owners.num_clips.tolist(), strict=True)]
        videos = [self.videos[self.units.video_of(unit)] for unit in units]
        within = None if self.units.within is None else [self.units.within_of(unit) for unit in units]
        keys = [(self.seed, epoch, place.draw) for place in places]
        specs = self.policy.choose_many([timeline_of(v) for v in videos], keys, within, clips)
        return [
            self._described(int(position), place.bucket, unit, clip, video, spec)
            for position, place, unit, clip, video, spec in zip(
                positions, places, units, clips, videos, specs, strict=True
            )
        ]

    def _planned(self, position: int, bucket: int, unit: int, clip: int, key: Key) -> PlannedClip:
        video = self.videos[self.units.video_of(unit)]
        spec = self.policy.choose(timeline_of(video), key, self.units.within_of(unit), clip)
        return self._described(position, bucket, unit, clip, video, spec)

    def _described(
        self, position: int, bucket: int, unit: int, clip: int, video: VideoLike | Timeline, spec: DecodeSpec
    ) -> PlannedClip:
        cost = cost_bound(timeline_of(video), spec.unique_frames, _reorder_depth(video))
        if self.max_cost is not None and cost > self.max_cost:
            raise SamplingError(f"needs up to {cost} pictures decoded, max_cost={self.max_cost}")
        return PlannedClip(
            position=position,
            video=self.units.video_of(unit),
            uri="" if isinstance(video, Timeline) else video.uri,
            spec=spec,
            clip=clip,
            row=None if self.units.row is None else int(self.units.row[unit]),
            labels=self.units.labels_of(unit),
            cost_bound=cost,
            bucket=bucket,
            media=video,
        )

    # --- ranks --------------------------------------------------------------------------------------------------------

    def num_batches(self, batch_size: int, world_size: int = 1, *, drop_last: bool = True, start: int = 0) -> int:
        """How many batches each rank gets from place `start` of an epoch on."""
        self._check_batch(batch_size, start)
        return num_batches(self.num_positions, batch_size, world_size, drop_last=drop_last, start=start)

    def batches(
        self, batch_size: int, rank: int = 0, world_size: int = 1, *, drop_last: bool = True, start: int = 0
    ) -> Iterator[RankBatch]:
        """Places that a rank takes, batch by batch, the same number of batches on every rank (see `samplers.ranks`).

        Raises:
            SamplingError: arguments that make no sense, or the epoch has no batch at all: before the first batch rather
                than a loop that does nothing.
        """
        if not start and not self.num_batches(batch_size, world_size, drop_last=drop_last):
            why = "" if self.num_positions or not self.num_refused else f" ({self.num_refused} videos give no clip)"
            raise SamplingError(
                f"{self.num_positions} clips{why} give no batch of {batch_size} on each of {world_size} ranks"
                f" (drop_last={drop_last})"
            )
        self._check_batch(batch_size, start)
        return rank_batches(
            self.num_positions, batch_size, rank, world_size,
            drop_last=drop_last, start=start, whole_batches=self.is_bucketed,
        )  # fmt: skip

    def _check_batch(self, batch_size: int, start: int) -> None:
        if self.batch_size is None:
            return
        if batch_size != self.batch_size:
            raise SamplingError(f"batch_size={batch_size}: the plan's buckets are cut for {self.batch_size}")
        if start % self.batch_size and start != self.num_positions:
            raise SamplingError(f"position={start}: expected a multiple of the plan's batch_size={self.batch_size}")

    # --- balancing ----------------------------------------------------------------------------------------------------

    def _rebalanced(self, epoch: int, bucket: int, i: int) -> int:
        assert self.batch_size is not None  # noqa: S101 - the constructor sees to it
        window, offset = divmod(i, self.balance * self.batch_size)
        key = (epoch, bucket, window)
        order = self._windows.get(key)
        if order is None:
            order = self._balanced_window(epoch, bucket, window)
            while len(self._windows) >= MAX_CACHED_WINDOWS:
                self._windows.pop(next(iter(self._windows)), None)
            self._windows[key] = order
        return int(order[offset])

    def _balanced_window(self, epoch: int, bucket: int, window: int) -> IntArray:
        """Numbers within the bucket, reordered inside a window so that batches cost about the same."""
        assert self.batch_size is not None  # noqa: S101 - the constructor sees to it
        first = int(self._batches[bucket - 1]) if bucket else 0
        size = int(self._layout.sizes[bucket])
        end = (int(self._batches[bucket]) - first) * self.batch_size if self.is_bucketed else size
        begin = window * self.balance * self.batch_size
        inside = range(begin, min(begin + self.balance * self.batch_size, end))
        places = [Place(bucket, i % size, first * self.batch_size + i, is_repeat=i >= size) for i in inside]
        order = begin + balanced(np.array([self._cost(epoch, place) for place in places]), self.batch_size)
        whole = len(order) // self.batch_size
        shuffled = Permutation.keyed(whole, (self.seed, epoch, WINDOW, bucket, window, 0, 0)).many(np.arange(whole))
        batches = order[: whole * self.batch_size].reshape(whole, self.batch_size)[shuffled]
        return np.concatenate([batches.ravel(), order[whole * self.batch_size :]])

    def _cost(self, epoch: int, place: Place) -> int:
        """Cost bound of a place's clip; 0 for one that is refused."""
        owner = self._layout.owner(place.bucket, self._shuffled(epoch, place), self._shift(epoch))
        number = self._clip_number(owner.clip, owner.num_clips)
        try:
            return self._planned(0, place.bucket, owner.unit, number, (self.seed, epoch, place.draw)).cost_bound
        except SamplingError:
            return 0


def _reorder_depth(video: VideoLike | Timeline) -> int | None:
    return None if isinstance(video, Timeline) else video.info.reorder_depth


def _check_integers(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < 1):
            raise SamplingError(f"{name}={value!r}: expected an integer >= 1")


def _policy_of(policy: Any) -> Policy:
    """A policy, or what its text or dict says."""
    if isinstance(policy, str | Mapping):
        return parse_policy(policy)
    if not hasattr(policy, "choose") or isinstance(policy, type):
        raise SamplingError(
            f"policy={policy!r}: expected a policy, as RandomClip(16), or its text, as 'random:frames=16'"
        )
    chosen: Policy = policy
    return chosen


def _check_videos(videos: Any) -> None:
    if isinstance(videos, str | bytes) or not (hasattr(videos, "__len__") and hasattr(videos, "__getitem__")):
        raise SamplingError(f"videos={videos!r}: expected open_index(...), or a list of videos or timelines")


def _units_of(clips: Any, videos: Any) -> tuple[Units, tuple[UnknownClip, ...]]:
    if clips is None:
        return Units(count=len(videos)), ()
    segments = read_segments(clips, videos)
    return segments.units, segments.unknown


def _column(plan: Plan, name: str) -> npt.NDArray[Any]:
    """One value for each unit: the clips table's column, or the collection's."""
    if name in plan.units.columns:
        assert plan.units.row is not None  # noqa: S101 - columns come with rows
        return plan.units.columns[name][plan.units.row]
    if not hasattr(plan.videos, "column"):
        raise SamplingError(f"column {name!r}: neither in the clips table nor in a collection with columns")
    values = np.asarray(plan.videos.column(name))
    return values if plan.units.video is None else values[plan.units.video]


def _bucketed(buckets: Buckets | None, plan: Plan) -> tuple[IntArray | None, list[tuple[Any, ...]] | None]:
    if buckets is None:
        return None, None
    return bucket_of_each(buckets, plan.units.count, lambda name: _column(plan, name))
