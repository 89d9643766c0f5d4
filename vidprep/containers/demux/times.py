"""Presentation times for rows: as the container has them, or made where it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vidprep.timebase import IntArray

#: MPEG systems count 90 kHz in 33 bits.
_CLOCK_WRAP = 1 << 33
MISSING = -(1 << 63)


def regular_times(slots: IntArray, frame_rows: IntArray) -> IntArray:
    """Times of a container that has slots, not times (AVI, elementary streams).

    Every frame takes a slot; the k-th frame shown gets the k-th of the slots that frames take, so that holes (null
    chunks) stay.

    Args:
        slots: int64[n], the slot of each row in ticks, coded order.
        frame_rows: rows in presentation order.
    """
    pts = slots.copy()
    pts[frame_rows] = np.sort(slots[frame_rows])
    return pts


def unwrap_clock(times: IntArray, reference: IntArray) -> IntArray:
    """Times of a 33-bit clock that go on where it ran over; `reference` (dts) tells where. MISSING stays."""
    known = np.flatnonzero(reference != MISSING)
    steps = np.diff(reference[known])
    turns = np.cumsum((steps < -_CLOCK_WRAP // 2).astype(np.int64) - (steps > _CLOCK_WRAP // 2))
    if not turns.any():
        return times
    offset = np.zeros(len(times), np.int64)
    offset[known[1:]] = turns * _CLOCK_WRAP
    return np.where(times == MISSING, times, times + offset)


def fill_missing(pts: IntArray, frame_rows: IntArray, frame_ticks: int) -> IntArray:
    """Rows without pts follow the frame before them by one frame; before the first known time, it is counted back."""
    shown = pts[frame_rows]
    known = np.flatnonzero(shown != MISSING)
    places = np.arange(len(shown))
    if len(known):
        before = np.maximum(np.searchsorted(known, places, side="right") - 1, 0)
        anchor = known[before]
        shown = shown[anchor] + (places - anchor) * frame_ticks
    else:
        shown = places * frame_ticks
    filled = pts.copy()
    filled[frame_rows] = shown
    rest = np.flatnonzero(filled == MISSING)
    if len(rest):
        filled[rest] = filled[np.maximum(rest - 1, 0)]
        filled[filled == MISSING] = 0
    return filled
