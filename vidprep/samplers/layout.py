"""The clips of an epoch laid out in a row, unit by unit and bucket by bucket, and who owns each of them.

A *unit* is a video or a row of a clips table. Where units differ in their number of clips a table of running totals
(8 bytes a unit) is searched, otherwise a division does. Weights are served by systematic sampling (Madow and Madow,
"On the theory of systematic sampling", 1944): of N evenly spaced points on the line of running weights, those that fall
into a unit's piece are its clips, so that a unit with share s comes up floor(s·N) or ceil(s·N) times an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nextafter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vidprep.errors import SamplingError

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.timebase import FloatArray, IntArray

__all__ = ["Layout", "Owner", "counted", "laid_out", "weighted"]


class Owner(NamedTuple):
    """Whose a clip is; ints, or int64 arrays of them."""

    unit: int
    clip: int
    """0 <= clip < num_clips"""
    num_clips: int
    """clips of that unit"""


class Owners(NamedTuple):
    """`Owner`, many at once."""

    unit: IntArray
    clip: IntArray
    num_clips: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """B buckets of clips; clip i of bucket b belongs to `owner(b, i, shift)`."""

    sizes: IntArray
    """int64[B]: clips of each bucket"""
    order: npt.NDArray[np.int32] | None
    """unit at each place of the row, bucket after bucket; None = 0, 1, 2, ..."""
    counts: int | npt.NDArray[np.int32]
    """clips of each unit, by unit (weighted only), or one number for all"""
    ends: IntArray | FloatArray | None
    """running totals along the row, of clips (int64) or of weights (float64); None = `counts` for every unit"""
    marks: FloatArray
    """float64[B + 1]: where each bucket starts and ends among the running totals"""
    is_weighted: bool = False

    def owner(self, bucket: int, i: int, shift: float) -> Owner:
        """Whose clip `i` of a bucket is; `shift` in [0, 1) moves the points of systematic sampling."""
        if self.is_weighted:
            return self._weighted_owner(bucket, i, shift)
        number = int(self.marks.item(bucket)) + i
        if self.ends is None:
            assert isinstance(self.counts, int)  # noqa: S101 - what `counted` builds
            place, clip = divmod(number, self.counts)
            return Owner(self._unit(place), clip, self.counts)
        place = int(self.ends.searchsorted(number, side="right"))
        begin = int(self.ends.item(place - 1)) if place else 0
        return Owner(self._unit(place), number - begin, int(self.ends.item(place)) - begin)

    def _weighted_owner(self, bucket: int, i: int, shift: float) -> Owner:
        assert self.ends is not None  # noqa: S101 - what `weighted` builds
        begin, end = self.marks.item(bucket), self.marks.item(bucket + 1)
        point = min(begin + (i + shift) * (end - begin) / self.sizes.item(bucket), nextafter(end, begin))
        place = int(self.ends.searchsorted(point, side="right"))
        unit, before = self._unit(place), float(self.ends.item(place - 1)) if place else 0.0
        count = self.counts if isinstance(self.counts, int) else self.counts.item(unit)
        share = (point - before) / (self.ends.item(place) - before)
        return Owner(unit, min(int(share * count), count - 1), count)

    def owners(self, buckets: IntArray, i: IntArray, shift: float) -> Owners:
        """`owner`, element by element."""
        if self.is_weighted:
            return self._at_points(self._point(buckets, i, shift))
        numbers = self.marks[buckets].astype(np.int64) + i
        if self.ends is None:
            place, clip = np.divmod(numbers, self.counts)
            return Owners(self._units(place), clip, np.full(len(numbers), self.counts))
        place = self.ends.searchsorted(numbers, side="right")
        begin = np.where(place > 0, self.ends[place - 1], 0).astype(np.int64)
        return Owners(self._units(place), numbers - begin, self.ends[place].astype(np.int64) - begin)

    def _point(self, bucket: int | IntArray, i: int | IntArray, shift: float) -> FloatArray:
        begin, end = self.marks[bucket], self.marks[np.asarray(bucket) + 1]
        point: FloatArray = begin + (i + shift) * (end - begin) / self.sizes[bucket]
        below: FloatArray = np.minimum(point, np.nextafter(end, begin))
        return below

    def _at_points(self, points: FloatArray) -> Owners:
        assert self.ends is not None  # noqa: S101 - what `weighted` builds
        place = self.ends.searchsorted(points, side="right")
        begin = np.where(place > 0, self.ends[place - 1], 0.0)
        units = self._units(place)
        count = np.full(len(units), self.counts) if isinstance(self.counts, int) else self.counts[units]
        share = (points - begin) / (self.ends[place] - begin)
        return Owners(units, np.minimum((share * count).astype(np.int64), count - 1), count.astype(np.int64))

    def _unit(self, place: int) -> int:
        return place if self.order is None else self.order.item(place)

    def _units(self, places: IntArray) -> IntArray:
        return places if self.order is None else self.order[places].astype(np.int64)


def counted(num_units: int, counts: int | IntArray, buckets: IntArray | None) -> Layout:
    """A layout in which every clip comes up once.

    Args:
        num_units: number of units.
        counts: clips of each unit (int64[num_units]), or one number for all.
        buckets: bucket of each unit (0..B−1), or None for one bucket.
    """
    order = None if buckets is None else np.argsort(buckets, kind="stable").astype(np.int32)
    firsts = _firsts(num_units, buckets)
    if isinstance(counts, int):
        ends, marks = None, firsts * counts
    else:
        ends = np.cumsum(counts if order is None else counts[order], dtype=np.int64)
        marks = np.concatenate([[0], ends])[firsts]
    return Layout(
        sizes=np.diff(marks), order=order, counts=counts if isinstance(counts, int) else 0, ends=ends,
        marks=marks.astype(np.float64),
    )  # fmt: skip


def weighted(weights: FloatArray, counts: int | IntArray, buckets: IntArray | None, num_clips: int) -> Layout:
    """A layout of `num_clips` clips in which a unit's share is its weight's.

    Args:
        weights: float64[num_units], finite, >= 0, not all 0.
        counts: as in `counted`; units without a clip get none.
        buckets: as in `counted`.
        num_clips: clips of an epoch.
    """
    weights = np.where(np.asarray(counts) > 0, weights, 0.0)
    order = None if buckets is None else np.argsort(buckets, kind="stable").astype(np.int32)
    ends = np.cumsum(weights if order is None else weights[order], dtype=np.float64)
    marks = np.concatenate([[0.0], ends])[_firsts(len(weights), buckets)]
    borders = np.rint(marks / marks[-1] * num_clips).astype(np.int64) if marks[-1] else np.zeros(len(marks), np.int64)
    small = counts if isinstance(counts, int) else counts.astype(np.int32)
    return Layout(sizes=np.diff(borders), order=order, counts=small, ends=ends, marks=marks, is_weighted=True)


def laid_out(
    num_units: int, counts: int | IntArray, buckets: IntArray | None, weights: Any, clips_per_epoch: int | None
) -> Layout:
    """`counted`, or with weights `weighted`, by default to as many clips.

    Raises:
        SamplingError: weights that are not one finite number >= 0 a unit, or are all 0.
    """
    if weights is None:
        return counted(num_units, counts, buckets)
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (num_units,):
        raise SamplingError(f"weights: {values.size} for {num_units} units")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise SamplingError(f"weights: {values[~(values >= 0) | ~np.isfinite(values)][0]}: expected finite, >= 0")
    if not values.any():
        raise SamplingError("weights: all are 0")
    total = int(np.broadcast_to(counts, values.shape).sum()) if clips_per_epoch is None else clips_per_epoch
    return weighted(values / values.max(), counts, buckets, total)  # tiny or huge ones keep their digits


def _firsts(num_units: int, buckets: IntArray | None) -> IntArray:
    """int64[B + 1]: place of the row at which each bucket starts, and the number of units."""
    sizes = np.array([num_units]) if buckets is None else np.bincount(buckets)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
