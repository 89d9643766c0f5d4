"""What `vidprep inspect` draws of a video: its picture types, how its frames are spaced, its bit rate over time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import VidprepError
from vidprep.records import SampleFlag
from vidprep.timebase import to_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.containers.bitstream import SampleFacts
    from vidprep.records import SampleTable, VideoLike
    from vidprep.timebase import FloatArray, IntArray

__all__ = ["LEGEND", "Pictures", "lines", "pictures_of"]

#: Frames whose picture types are read, and rows that may be read for them.
STRIP_FRAMES, STRIP_ROWS = 600, 2400
#: Stretches of time that a curve is made of.
TERMINAL_BINS, PAGE_BINS = 60, 480
LETTERS_PER_LINE = 100
BLOCKS = "▁▂▃▄▅▆▇█"
LEGEND = "K key picture, I P B other pictures, lower case: no other picture refers to it, ? unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """Frames in presentation order; n of them."""

    letters: str
    """a letter of LEGEND for each of the first STRIP_FRAMES frames"""
    trouble: str
    """why the letters are not known, or empty"""
    seconds: FloatArray
    """[n] presentation times"""
    sizes: IntArray
    """[n] bytes of the sample that gives each frame"""
    steps_seconds: FloatArray
    """[n−1] from each frame to the next"""
    gop_frames: IntArray
    """frames from each key frame to the next, and to the end"""
    rows: tuple[FloatArray, IntArray]
    """time and bytes of every sample, hidden ones too"""
    end_seconds: float

    def bit_rate(self, bins: int) -> tuple[FloatArray, FloatArray]:
        """Starts of equal stretches of time, and bits per second within each."""
        times, sizes = self.rows
        begin, end = float(self.seconds[0]), max(self.end_seconds, float(self.seconds[0]) + 1e-9)
        count = int(np.clip(len(self.seconds) // 4, 1, bins))
        held, edges = np.histogram(np.clip(times, begin, end), count, (begin, end), weights=sizes)
        return edges[:-1], held * 8 / (edges[1:] - edges[:-1])


def pictures_of(video: VideoLike) -> Pictures:
    """Read the heads of the first samples (nothing else of the file) and work out the rest from the table.

    A file that cannot be read any more costs only the letters.
    """
    table, timeline = video.table, video.timeline
    letters, trouble = _letters(video)
    keys = timeline.keyframes
    return Pictures(
        letters=letters,
        trouble=trouble,
        seconds=timeline.pts_seconds,
        sizes=table.size[table.frame_rows],
        steps_seconds=np.diff(timeline.pts) * float(timeline.time_base),
        gop_frames=np.diff(np.append(keys, timeline.num_frames)) if len(keys) else keys,
        rows=(to_seconds(table.pts, timeline.time_base), table.size),
        end_seconds=timeline.end_pts * float(timeline.time_base),
    )


def _letters(video: VideoLike) -> tuple[str, str]:
    from vidprep.containers.samplefacts import UNKNOWN
    from vidprep.containers.verify import facts_of_rows
    from vidprep.loaders.cut import check_identity, open_indexed

    table = video.table
    rows = table.frame_rows[:STRIP_FRAMES]
    first = _first_rows(table, min(int(rows.max()) + 1, STRIP_ROWS) if len(rows) else 0)
    facts: list[SampleFacts] = []
    trouble = ""
    try:
        with open_indexed(video) as source:
            check_identity(video, source)
            facts = facts_of_rows(
                video.info, first, source.read_at, access=video.access, size_bytes=video.identity.size_bytes
            )
    except (VidprepError, OSError) as error:
        trouble = str(error)
    return "".join(_letter(facts[row] if row < len(facts) else UNKNOWN, table, row) for row in rows.tolist()), trouble


def _first_rows(table: SampleTable, count: int) -> SampleTable:
    return replace(
        table, offset=table.offset[:count], size=table.size[:count], pts=table.pts[:count], flags=table.flags[:count],
        order=None, crc32=None,
    )  # fmt: skip


def _letter(fact: SampleFacts, table: SampleTable, row: int) -> str:
    """What the sample's head says; what the table says where that says nothing."""
    flags = int(table.flags[row])
    if flags & SampleFlag.KEY if fact.key is None else fact.key:
        return "K"
    letter = fact.picture_type or "?"
    return letter.lower() if fact.disposable or flags & SampleFlag.DISPOSABLE else letter


def lines(pictures: Pictures) -> Iterator[str]:
    """The drawing for a terminal."""
    yield from _strip_lines(pictures)
    if pictures.trouble:
        yield f"  picture types are not known: {pictures.trouble}"
    gops = pictures.gop_frames
    if len(gops):
        yield (f"GOPs       {len(gops)}, frames each: min {gops.min()}, median {np.median(gops):g}, max {gops.max()}")
    _, rate = pictures.bit_rate(TERMINAL_BINS)
    mean = pictures.sizes.sum() * 8 / max(pictures.end_seconds - pictures.seconds[0], 1e-9)
    yield f"bit rate   {sparkline(rate)}  mean {mean / 1e6:.3g}, max {rate.max() / 1e6:.3g} Mbit/s"
    steps = pictures.steps_seconds * 1000
    if len(steps):
        wide = np.array([part.max() for part in np.array_split(steps, min(TERMINAL_BINS, len(steps)))])
        yield (
            f"frame step {sparkline(wide)}  min {steps.min():.4g}, median {np.median(steps):.4g}, "
            f"max {steps.max():.4g} ms, jitter {steps.std():.3g} ms"
        )


def _strip_lines(pictures: Pictures) -> Iterator[str]:
    total = len(pictures.seconds)
    more = "" if len(pictures.letters) == total else f", the first {len(pictures.letters)} of {total}"
    yield f"pictures   in the order in which they are shown{more}: {LEGEND}"
    for start in range(0, len(pictures.letters), LETTERS_PER_LINE):
        yield f"{start:>9}  {pictures.letters[start : start + LETTERS_PER_LINE]}"


def sparkline(values: FloatArray) -> str:
    """A block for each value, from zero (or the lowest, if that is less) to the highest."""
    low = min(float(values.min()), 0.0)
    span = float(values.max()) - low
    if span <= 0:
        return BLOCKS[0] * len(values)
    return "".join(BLOCKS[int(level)] for level in np.minimum((values - low) / span * len(BLOCKS), len(BLOCKS) - 1))
