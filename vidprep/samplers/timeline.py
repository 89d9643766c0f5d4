"""Times to frames, exactly: asked times become rational ticks, never the other way round."""

from __future__ import annotations

from fractions import Fraction

from vidprep.records import Timeline

__all__ = ["Seconds", "frames_between"]

#: A float is taken to mean the tick whose float it is.
Seconds = float | int | str | Fraction


def frames_between(timeline: Timeline, start_seconds: Seconds | None, end_seconds: Seconds | None) -> tuple[int, int]:
    """First frame and one past the last with start_seconds <= pts < end_seconds (None = open); (a, a) if there is none.

    Times are presentation times, as `Timeline.pts_seconds` counts them (a stream may start at 7 s).
    """
    raise NotImplementedError
