"""What a clip may cost to decode, known before a byte is read."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vidprep.records import Timeline
    from vidprep.timebase import IntArray

__all__ = ["balanced", "cost_bound"]

#: Largest number of pictures that may precede another in decode order and follow it in presentation order
#: (ITU-T H.264 E.2.1, max_num_reorder_frames <= MaxDpbFrames <= 16; HEVC A.4.2 likewise).
MAX_REORDER = 16


def cost_bound(timeline: Timeline, frames: IntArray, reorder_depth: int | None = None) -> int:
    """Most pictures that must be decoded to get `frames`.

    A frame f whose key frame is k needs the f − k + 1 pictures shown from k to f and those decoded before it but shown
    after it, at most `reorder_depth` and fewer than the distance of k from the next key frame. Frames with the same key
    frame share its pictures.

    Args:
        timeline: its key frames; without any, decoding starts at frame 0.
        frames: int64[U], ascending, none of them negative.
        reorder_depth: as StreamInfo.reorder_depth; None = 16, the most that a standard allows.
    """
    if not len(frames):
        return 0
    keys = timeline.keyframes
    after = keys.searchsorted(frames, side="right")
    is_last = np.empty(len(frames), np.bool_)
    is_last[-1] = True
    np.not_equal(after[1:], after[:-1], out=is_last[:-1])
    after, last = after[is_last], frames[is_last]
    begins = np.where(after > 0, keys[after - 1], 0) if len(keys) else np.zeros(len(after), np.int64)
    ends = np.append(keys, timeline.num_frames)[after]
    depth = np.minimum(MAX_REORDER if reorder_depth is None else reorder_depth, ends - begins - 1)
    return int((np.minimum(last + depth, timeline.num_frames - 1) - begins).sum()) + len(last)


def balanced(costs: IntArray, batch_size: int) -> IntArray:
    """Deal clips into batches of about equal cost.

    The costliest clip left goes to the cheapest batch that has room (LPT, Graham, "Bounds on multiprocessing timing
    anomalies", 1969).

    Args:
        costs: int64[n].
        batch_size: clips of a batch; the last batch takes what is left of n.

    Returns:
        int64[n]: a permutation of 0..n−1, batch after batch.
    """
    n = len(costs)
    room = [min(batch_size, n - start) for start in range(0, n, batch_size)]
    batches: list[list[int]] = [[] for _ in room]
    heap = [(0, number) for number in range(len(room))]
    for clip in np.argsort(-costs, kind="stable").tolist():
        total, number = heapq.heappop(heap)
        batches[number].append(clip)
        if len(batches[number]) < room[number]:
            heapq.heappush(heap, (total + int(costs[clip]), number))
    return np.array([clip for batch in batches for clip in batch], dtype=np.int64)
