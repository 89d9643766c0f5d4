"""Ticks and seconds, exactly: integers in `time_base` (seconds per tick) everywhere, floats only at the edge.

Also the timing facts of a video, which are arithmetic over its ticks and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

#: A delta longer than this many median deltas is a gap.
GAP_FACTOR = 3


def to_seconds(ticks: int | IntArray, time_base: Fraction) -> FloatArray:
    """Ticks as float64 seconds: ticks·num/den, one rounding for the product and one for the quotient."""
    return np.asarray(ticks, dtype=np.float64) * time_base.numerator / time_base.denominator


def parse_time_base(text: str) -> Fraction:
    """A time base from its "num/den" form."""
    num, _, den = text.partition("/")
    return Fraction(int(num), int(den or 1))


def format_time_base(time_base: Fraction) -> str:
    """The "num/den" form, which the index stores."""
    return f"{time_base.numerator}/{time_base.denominator}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingFacts:
    """What the presentation times of one video say."""

    duration_seconds: float
    """last pts + its duration − first pts"""
    avg_fps: float
    """(n−1) / (last − first pts); 0.0 where that is undefined"""
    is_vfr: bool
    """deltas differ by more than one tick"""
    vfr_class: str
    """"cfr" (all deltas equal), "quantised_cfr" (differ by at most one tick), "vfr" """
    num_gaps: int
    """deltas longer than GAP_FACTOR medians"""
    num_duplicates: int
    """deltas of zero"""
    num_backward: int
    """deltas below zero"""
    jitter_seconds: float
    """standard deviation of the deltas"""


def timing_facts(pts: IntArray, last_duration_ticks: int, time_base: Fraction) -> TimingFacts:
    """Timing facts of presentation times.

    Args:
        pts: int64[n] ticks in presentation order.
        last_duration_ticks: how long the last frame is shown.
        time_base: seconds per tick.
    """
    tick = time_base.numerator / time_base.denominator
    if len(pts) == 0:
        return TimingFacts(
            duration_seconds=0.0, avg_fps=0.0, is_vfr=False, vfr_class="cfr",
            num_gaps=0, num_duplicates=0, num_backward=0, jitter_seconds=0.0,
        )  # fmt: skip
    span = int(pts[-1]) - int(pts[0])
    deltas = pts[1:] - pts[:-1]
    low, high = (int(deltas.min()), int(deltas.max())) if len(deltas) else (0, 0)
    spread = high - low
    vfr_class = "cfr" if spread == 0 else "quantised_cfr" if spread == 1 else "vfr"
    constant = spread == 0
    return TimingFacts(
        duration_seconds=(span + last_duration_ticks) * tick,
        avg_fps=len(deltas) / (span * tick) if span > 0 else 0.0,
        is_vfr=spread > 1,
        vfr_class=vfr_class,
        num_gaps=0 if constant else int((deltas > GAP_FACTOR * max(float(np.median(deltas)), 1.0)).sum()),
        num_duplicates=(len(deltas) if low == 0 else 0) if constant else int((deltas == 0).sum()),
        num_backward=0 if low >= 0 else int((deltas < 0).sum()),
        jitter_seconds=0.0 if constant else float(deltas.std()) * tick,
    )
