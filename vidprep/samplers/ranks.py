"""Which places of an epoch a rank takes, batch by batch; arithmetic over place numbers alone.

An epoch's places stand in one row. World size W and batch size B cut what is left of it, from place `start` on, into
global batches of B·W places; rank r takes the r-th B of each. So the set of the first k places is the same for every W
that k is a multiple of B·W for, and an epoch that was left at place k goes on exactly there on any number of ranks.
Fewer than B·W places at the end are left out (`drop_last`), or dealt out evenly, first places of the epoch repeated so
that every rank gets as many (W − 1 repeats at most).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vidprep.errors import SamplingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.timebase import IntArray

__all__ = ["RankBatch", "num_batches", "rank_batches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBatch:
    """One rank's part of a global batch."""

    positions: IntArray
    """int64[b]: places of the epoch; b is the same on all ranks"""
    is_repeat: npt.NDArray[np.bool_]
    """bool[b]: the place was or will be taken by another rank too, and stands here to fill the batch"""
    end: int
    """place at which to resume once this global batch is done"""


def num_batches(num_positions: int, batch_size: int, world_size: int = 1, *, drop_last: bool, start: int = 0) -> int:
    """How many batches each rank gets from place `start` to the end of the epoch."""
    _check(num_positions, batch_size, 0, world_size, start)
    whole, rest = divmod(num_positions - start, batch_size * world_size)
    return whole + (rest > 0 and not drop_last)


def rank_batches(
    num_positions: int, batch_size: int, rank: int = 0, world_size: int = 1,
    *, drop_last: bool, start: int = 0, whole_batches: bool = False,
) -> Iterator[RankBatch]:  # fmt: skip
    """The batches of one rank.

    Args:
        num_positions: places of the epoch.
        batch_size: places of a batch on one rank.
        rank: 0 .. world_size − 1.
        world_size: number of ranks.
        drop_last: leave out the places at the end that do not fill a batch on every rank.
        start: place to go on from.
        whole_batches: without drop_last, deal the last places out in whole batches of `batch_size` (buckets: a batch
            shall not be torn), so that up to B·W − 1 places are repeats.

    Raises:
        SamplingError: an argument makes no sense.
    """
    _check(num_positions, batch_size, rank, world_size, start)
    together = batch_size * world_size
    last_whole = num_positions - (num_positions - start) % together
    for begin in range(start, last_whole, together):
        yield _batch(begin + rank * batch_size, batch_size, num_positions, begin + together)
    rest = num_positions - last_whole
    if rest and not drop_last:
        size = batch_size if whole_batches else -(-rest // world_size)
        yield _batch(last_whole + rank * size, size, num_positions, num_positions)


def _batch(begin: int, size: int, num_positions: int, end: int) -> RankBatch:
    positions = np.arange(begin, begin + size, dtype=np.int64)
    return RankBatch(positions=positions % num_positions, is_repeat=positions >= num_positions, end=end)


def _check(num_positions: int, batch_size: int, rank: int, world_size: int, start: int) -> None:
    for name, value, low, high in (
        ("batch_size", batch_size, 1, None),
        ("world_size", world_size, 1, None),
        ("rank", rank, 0, world_size - 1),
        ("position", start, 0, num_positions),
    ):
        if value < low or (high is not None and value > high):
            bound = "" if high is None else f" and <= {high}"
            raise SamplingError(f"{name}={value}: expected >= {low}{bound}")
