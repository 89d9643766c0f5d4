"""Which units may share a batch: those that agree in resolution, length, rate, or whatever column is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import SamplingError

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.timebase import IntArray

__all__ = ["Buckets", "bucket_of_each"]

#: Column names; column names with the values at which one bucket ends and the next begins; or a number for each unit.
Buckets = Sequence[str] | Mapping[str, Sequence[float] | None] | Sequence[int]

#: What people say → columns of the index.
COLUMNS = {"resolution": ("width", "height"), "length": ("num_frames",), "fps": ("avg_fps",)}


def bucket_of_each(
    buckets: Buckets, num_units: int, column: Callable[[str], npt.NDArray[Any]]
) -> tuple[IntArray, list[tuple[Any, ...]]]:
    """Number the buckets.

    Args:
        buckets: ["resolution"] (equal width and height), {"height": [480, 720], "length": [64]} (below 480, 480 to 719,
            720 and up; below 64 frames, 64 and up), or an integer for each unit.
        num_units: number of units.
        column: one value for each unit, by name.

    Returns:
        int64[num_units], numbered from 0; and what each bucket stands for: column values, or places between edges.
    """
    if not isinstance(buckets, Mapping) and not all(isinstance(name, str) for name in buckets):
        keys = [np.asarray(buckets)]
        if keys[0].shape != (num_units,):
            raise SamplingError(f"buckets: {len(keys[0])} numbers for {num_units} units")
    else:
        edges = buckets if isinstance(buckets, Mapping) else dict.fromkeys(map(str, buckets))
        keys = [_key(column(name), limits) for said, limits in edges.items() for name in COLUMNS.get(said, (said,))]
    if not keys:
        raise SamplingError("buckets: expected at least one column")
    return _number(keys)


def _key(values: npt.NDArray[Any], edges: Sequence[float] | None) -> npt.NDArray[Any]:
    if edges is not None:
        return np.searchsorted(np.asarray(edges), values, side="right")
    return values.astype(str) if values.dtype.kind == "O" else values  # texts and None cannot be sorted together


def _number(keys: list[npt.NDArray[Any]]) -> tuple[IntArray, list[tuple[Any, ...]]]:
    values, codes = zip(*(np.unique(key, return_inverse=True) for key in keys), strict=True)
    together = np.zeros(len(keys[0]), np.int64)
    for value, code in zip(values, codes, strict=True):
        together = together * max(len(value), 1) + code
    _, first, number = np.unique(together, return_index=True, return_inverse=True)
    names = [tuple(v[c[i]].item() for v, c in zip(values, codes, strict=True)) for i in first.tolist()]
    return number.astype(np.int64), names
