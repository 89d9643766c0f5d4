"""What another GOP length would make of a clip's cost and of a video's size, estimated from its tables alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from vidprep.samplers.cost import cost_bound

if TYPE_CHECKING:
    from vidprep.records import SampleTable, Timeline
    from vidprep.timebase import IntArray

__all__ = ["bytes_with_gop", "cost_with_gop"]


def cost_with_gop(timeline: Timeline, frames: IntArray, gop: int, reorder_depth: int | None = None) -> int:
    """`cost_bound` of the frames, had the video a key frame every `gop` frames.

    Args:
        timeline: the video's.
        frames: int64[U], ascending.
        gop: frames from one key frame to the next, >= 1.
        reorder_depth: as StreamInfo.reorder_depth.
    """
    keys = np.arange(0, timeline.num_frames, gop, dtype=np.int64)
    return cost_bound(dataclasses.replace(timeline, keyframes=keys), frames, reorder_depth)


def bytes_with_gop(table: SampleTable, gop: int) -> float | None:
    """Bytes of the samples with a key frame every `gop` of them, each as large as this video's mean of its kind.

    None where the table has samples of one kind only: then there is nothing to tell the other kind's size from.
    """
    is_key = np.zeros(len(table), bool)
    is_key[table.key_rows] = True
    if is_key.all() or not is_key.any():
        return None
    keys = -(-len(table) // gop)
    return float(keys * table.size[is_key].mean() + (len(table) - keys) * table.size[~is_key].mean())
