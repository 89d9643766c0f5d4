"""Header checks over the frame columns of many videos at once: groups of pictures, and the times that go wrong.

The lists of a row group are looked at end to end; only videos that the columns call odd are unpacked one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.indexes.rows import table_of
from vidprep.records import SampleFlag
from vidprep.timebase import GAP_FACTOR, parse_time_base, to_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    import pyarrow as pa

    from vidprep.records import SampleTable
    from vidprep.timebase import IntArray
    from vidprep.validation.columns import Columns
    from vidprep.validation.rules import Rules

__all__ = ["Groups", "groups_of", "sample_findings"]

#: Columns that this module reads beside those of `columns.needed_columns`.
TIME_COLUMNS = ("time_base", "num_gaps", "num_duplicates", "num_backward")
FLAT_COLUMNS = ("sample_pts_deltas", "sample_flags")
TABLE_COLUMNS = ("sample_sizes", "sample_gaps", "sample_pts_deltas", "sample_flags", "frame_order")


@dataclass(frozen=True, slots=True)
class Groups:
    """Facts on the groups of pictures of many videos; each array has one entry for each video."""

    longest: IntArray
    """coded samples of the longest group; 0 without samples"""
    leading: IntArray
    """shown samples whose time precedes that of their key sample, in groups after the first"""


def groups_of(bounds: IntArray, flags: npt.NDArray[Any], pts_deltas: IntArray) -> Groups:
    """Groups of pictures of many videos, whose sample lists stand end to end.

    Args:
        bounds: int64[videos + 1]: where each video's samples begin and end.
        flags: bits of SampleFlag, in decode order.
        pts_deltas: as the index's column: the first of each video is its pts.
    """
    videos, n = len(bounds) - 1, len(flags)
    longest, leading = np.zeros(videos, np.int64), np.zeros(videos, np.int64)
    if n == 0:
        return Groups(longest, leading)
    full = np.flatnonzero(np.diff(bounds))
    firsts = bounds[full]
    starts = (flags & SampleFlag.KEY.value) != 0
    starts[firsts] = True
    begins = np.flatnonzero(starts)
    lengths = np.diff(begins, append=n)
    longest[full] = np.maximum.reduceat(lengths, np.searchsorted(begins, firsts))
    # Times without each video's own start, so that the sums stay small: only differences within a video are compared.
    deltas = pts_deltas.copy()
    deltas[firsts] = 0
    pts = np.cumsum(deltas)
    early = (pts < np.repeat(pts[begins], lengths)) & ((flags & SampleFlag.SHOWN.value) != 0)
    first_groups = np.searchsorted(begins, firsts)
    is_first = np.zeros(len(begins), bool)
    is_first[first_groups] = True
    early &= ~np.repeat(is_first, lengths)
    leading[full] = np.add.reduceat(early, firsts, dtype=np.int64)
    return Groups(longest, leading)


def sample_findings(columns: Columns, samples: pa.Table, rules: Rules) -> Iterator[pa.Table]:
    """Findings on key frames and times.

    Args:
        columns: the rows' columns, TIME_COLUMNS among them.
        samples: TABLE_COLUMNS of the same rows.
        rules: how to judge.
    """
    lists = {name: samples[name].combine_chunks() for name in TABLE_COLUMNS}
    flags = lists["sample_flags"]
    bounds = flags.offsets.to_numpy().astype(np.int64)
    flat = {name: lists[name].flatten().to_numpy() for name in FLAT_COLUMNS}
    groups = groups_of(bounds - bounds[0], flat["sample_flags"], flat["sample_pts_deltas"])
    yield from _group_findings(columns, groups, rules)
    yield from _time_findings(columns, lists, rules)


def _group_findings(columns: Columns, groups: Groups, rules: Rules) -> Iterator[pa.Table]:
    limit = rules.thresholds.long_gop_frames
    yield from _told(columns, rules, "long_gop", groups.longest > limit, groups.longest,
                     f"a group of {{}} coded pictures, more than {limit}")  # fmt: skip
    yield from _told(columns, rules, "open_gop", groups.leading > 0, groups.leading,
                     "{} frames are shown before the key frame that they follow in the file")  # fmt: skip
    if (most := rules.require.get("max_gop")) is not None:
        yield from _told(columns, rules, "requirement", groups.longest > most, groups.longest,
                         f"its longest group has {{}} coded pictures; max_gop = {most} is required")  # fmt: skip


def _told(columns: Columns, rules: Rules, check: str, mask: Any, values: IntArray, text: str) -> Iterator[pa.Table]:
    places = np.flatnonzero(mask & columns.ok)
    if len(places) and check in rules.severities:
        yield columns.findings(check, rules, places, [text.format(value) for value in values[places].tolist()])


#: check → column that counts, which of the frames' time steps (and their median) are meant, message
_STEPS: dict[str, tuple[str, Any, str]] = {
    "gaps": (
        "num_gaps",
        lambda steps, median: steps > GAP_FACTOR * max(median, 1.0),
        "{count} gaps; the first, before frame {frame}, lasts {step:.3f} s",
    ),
    "duplicate_times": (
        "num_duplicates",
        lambda steps, _: steps == 0,
        "{count} frames have the time of the frame before; the first is frame {frame}",
    ),
    "backward_times": (
        "num_backward",
        lambda steps, _: steps < 0,
        "{count} frames are earlier than the frame before; the first, frame {frame}, by {back:.3f} s",
    ),
}


def _time_findings(columns: Columns, lists: dict[str, pa.Array], rules: Rules) -> Iterator[pa.Table]:
    """Gaps, duplicate and backward times, each with the first frame that it concerns."""
    for check, (count, which, text) in _STEPS.items():
        places = np.flatnonzero((columns.numbers(count) > 0) & columns.ok)
        if not len(places) or check not in rules.severities:
            continue
        found = [_first(columns, lists, place, which) for place in places.tolist()]
        counts = columns.numbers(count)[places].astype(np.int64).tolist()
        messages = [
            text.format(count=number, frame=frame, step=step, back=-step)
            for number, (frame, _, step) in zip(counts, found, strict=True)
        ]
        frames, times = [frame for frame, _, _ in found], [time for _, time, _ in found]
        yield columns.findings(check, rules, places, messages, frames=frames, times=times)


def _first(columns: Columns, lists: dict[str, pa.Array], place: int, which: Any) -> tuple[int, float, float]:
    """(frame, its time, the step to it, both in seconds) of the first step that is meant."""
    pts = _table_at(lists, place).frame_pts
    time_base = parse_time_base(columns.table["time_base"][place].as_py() or "1/1")
    steps = np.diff(pts)
    found = np.flatnonzero(which(steps, float(np.median(steps)))) if len(steps) else steps
    if not len(found):  # the index's columns say what its table does not
        return 0, 0.0, 0.0
    frame = int(found[0]) + 1
    return frame, float(to_seconds(int(pts[frame]), time_base)), float(to_seconds(int(steps[frame - 1]), time_base))


def _table_at(lists: dict[str, pa.Array], place: int) -> SampleTable:
    """One row's sample table."""
    sizes, gaps, deltas, flags = (
        lists[name][place].values.to_numpy() for name in TABLE_COLUMNS if name != "frame_order"
    )
    order = lists["frame_order"][place]
    return table_of(sizes, gaps, deltas, flags.astype(np.uint8), order.values.to_numpy() if order.is_valid else None)
