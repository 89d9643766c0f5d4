"""What cannot be decoded behind lost samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.timebase import IntArray

    Mask = npt.NDArray[np.bool_]


class Behind(NamedTuple):
    """Rows that losses concern; bool[n] each."""

    lost: Mask
    """up to the next key row behind a loss: they may refer to what is not there"""
    leading: Mask
    """behind such a key row and shown before it: they may refer to what was before it"""
    restarts: Mask
    """such a key row"""


def behind_losses(key: Mask, pts: IntArray, losses: IntArray) -> Behind:
    """Which rows may refer to something that was lost.

    Args:
        key: bool[n], where decoding can start.
        pts: int64[n].
        losses: places in 0..n, ascending: something was lost before the row of that place.
    """
    n = len(pts)
    if n == 0 or len(losses) == 0:
        nothing = np.zeros(n, np.bool_)
        return Behind(nothing, nothing, nothing)
    rows = np.arange(n)
    last_key = np.maximum.accumulate(np.where(key, rows, -1))
    at = np.full(n, -1)
    at[losses[losses < n]] = losses[losses < n]
    last_loss = np.maximum.accumulate(at)
    lost = last_loss > last_key
    starts = key.nonzero()[0]
    restarts = np.zeros(n, np.bool_)
    restarts[starts] = last_loss[starts] > np.concatenate(([-1], starts[:-1]))
    start = np.maximum(last_key, 0)
    return Behind(lost, ~lost & restarts[start] & (pts < pts[start]), restarts)
