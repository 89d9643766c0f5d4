"""Clips tables: rows (video, start_seconds, end_seconds, and whatever else) as the units of a plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vidprep.errors import SamplingError
from vidprep.samplers.checks import seconds
from vidprep.samplers.timeline import clock_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.records import Timeline, VideoCollection
    from vidprep.samplers.policy import Within

__all__ = ["Segments", "Units", "UnknownClip", "columns_of", "read_segments"]

VIDEO, START, END = "video", "start_seconds", "end_seconds"
#: Other names under which a table may call the video.
VIDEO_NAMES = (VIDEO, "uri", "path", "name")
Columns = Mapping[str, "npt.NDArray[Any]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownClip:
    """A row of a clips table that cannot serve."""

    row: int
    video: object
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """What the clips of an epoch are taken from: whole videos, or segments of them."""

    count: int
    video: npt.NDArray[np.int32] | None = None
    """video of each unit; None = unit i is video i"""
    within: npt.NDArray[np.int32] | None = None
    """int32[count, 2]: first frame and one past the last; None = all of the video"""
    row: npt.NDArray[np.int32] | None = None
    """row of the clips table"""
    columns: Columns = field(default_factory=dict)
    """the table's other columns, by row"""

    def video_of(self, unit: int) -> int:
        """Index of a unit's video."""
        return unit if self.video is None else int(self.video[unit])

    def within_of(self, unit: int) -> Within | None:
        """Frames that a unit's clips may use."""
        return None if self.within is None else (int(self.within[unit, 0]), int(self.within[unit, 1]))

    def labels_of(self, unit: int) -> dict[str, Any]:
        """The other columns of a unit's row, as Python values."""
        if self.row is None:
            return {}
        row = int(self.row[unit])
        return {name: _plain(values[row]) for name, values in self.columns.items()}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def columns_of(table: Any) -> dict[str, npt.NDArray[Any]]:
    """Columns of a table: a mapping of columns, a list of dicts, a pyarrow Table or a pandas DataFrame.

    Raises:
        SamplingError: something else (a path, for one: read it first), or columns of unequal length.
    """
    if isinstance(table, str | bytes) or hasattr(table, "__fspath__"):
        raise SamplingError(f"clips={table!r}: expected a table; read the file first, e.g. with pyarrow.csv.read_csv")
    columns = {str(name): _array(values) for name, values in _named(table)}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise SamplingError(f"clips: columns differ in length: {lengths}")
    return columns


def _named(table: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(table, Mapping):
        return iter(table.items())
    if hasattr(table, "column_names"):  # pyarrow
        return ((name, table.column(name).to_pylist()) for name in table.column_names)
    if hasattr(table, "columns") and hasattr(table, "iloc"):  # pandas
        return ((name, table[name].to_numpy()) for name in table.columns)
    rows = list(table)
    names = dict.fromkeys(name for row in rows for name in row)
    return ((name, [row.get(name) for row in rows]) for name in names)


def _array(values: Any) -> npt.NDArray[Any]:
    """Numbers as numbers; all else as Python objects, so that strings, None and lists come back as they went in."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values
    values = list(values)
    if values and all(type(value) is type(values[0]) and isinstance(value, int | float) for value in values):
        numbers = np.asarray(values)
        if numbers.dtype.kind in "bif":
            return numbers
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """What `read_segments` found."""

    units: Units
    unknown: tuple[UnknownClip, ...]


def read_segments(table: Any, videos: VideoCollection) -> Segments:
    """Find each row's video and frames.

    A row names its video by number, uri, path, file name, or file name without extension (the first of these that fits;
    two videos of that name are an error of the row). Frames are those with start_seconds <= pts < end_seconds; without
    a start or end (column absent, None or nan) the segment is open there; past the ends of the video it is cut.

    Args:
        table: see `columns_of`; the video's column is called video, uri, path or name.
        videos: the collection.

    Raises:
        SamplingError: no video column, or rows and none of them can serve.
    """
    columns = columns_of(table)
    key = next((name for name in VIDEO_NAMES if name in columns), None)
    if key is None:
        raise SamplingError(f"clips: expected a column {VIDEO!r} (or uri, path, name), found {sorted(columns)}")
    wanted = columns[key].tolist()
    video, unknown = _find_videos(wanted, videos)
    within = np.zeros((len(wanted), 2), np.int32)
    for row, reason in _find_frames(video, columns, videos, within):
        unknown[row] = reason
    if wanted and len(unknown) == len(wanted):
        row = min(unknown)
        raise SamplingError(
            f"clips: none of the {len(wanted)} rows can serve; row {row} ({wanted[row]!r}): {unknown[row]}"
        )
    rows = np.array([row for row in range(len(wanted)) if row not in unknown], dtype=np.int32)
    others = {name: values for name, values in columns.items() if name not in (key, START, END)}
    units = Units(count=len(rows), video=video[rows], within=within[rows], row=rows, columns=others)
    bad = (UnknownClip(row=row, video=wanted[row], reason=unknown[row]) for row in sorted(unknown))
    return Segments(units=units, unknown=tuple(bad))


def _find_videos(wanted: Sequence[Any], videos: VideoCollection) -> tuple[npt.NDArray[np.int32], dict[int, str]]:
    """Video of each row (-1 = none), and what is wrong with the rows that have none."""
    names = set(map(str, wanted)) if any(isinstance(value, str) for value in wanted) else set()
    tables = _name_tables(videos, names) if names else ()
    found = np.full(len(wanted), -1, np.int32)
    unknown: dict[int, str] = {}
    for row, value in enumerate(wanted):
        if isinstance(value, int) and 0 <= value < len(videos):
            found[row] = value
            continue
        places = next((table[value] for table in tables if value in table), ())
        if len(places) == 1:
            found[row] = places[0]
        else:
            unknown[row] = f"{len(places)} videos have this name" if places else f"not among the {len(videos)} videos"
    return found, unknown


def _name_tables(videos: VideoCollection, names: set[str]) -> list[dict[str, list[int]]]:
    """For each way to name a video: the wanted names, and the videos that have them."""
    ways = (str, _path_of, lambda uri: PurePosixPath(uri).name, lambda uri: PurePosixPath(uri).stem)
    tables: list[dict[str, list[int]]] = []
    uris = [uri or "" for uri in _uris(videos)]
    for way in ways:
        table: dict[str, list[int]] = {}
        for place, uri in enumerate(uris):
            name = way(uri)
            if name in names:
                table.setdefault(name, []).append(place)
        tables.append(table)
        if table.keys() >= names:
            break
    return tables


def _path_of(uri: str) -> str:
    return uri.removeprefix("file://").removeprefix("./")


def _uris(videos: VideoCollection) -> list[str]:
    if hasattr(videos, "column"):
        return cast("list[str]", videos.column("uri").tolist())
    return [videos[i].uri for i in range(len(videos))]


def _find_frames(
    video: npt.NDArray[np.int32], columns: Columns, videos: VideoCollection, within: npt.NDArray[np.int32]
) -> Iterator[tuple[int, str]]:
    """Fill `within`; yield the rows that hold no frame, and why. Each video's times are looked at once."""
    starts, ends = columns.get(START), columns.get(END)
    by_video = np.argsort(video, kind="stable")
    by_video = by_video[video[by_video] >= 0]
    groups = np.split(by_video, np.flatnonzero(np.diff(video[by_video])) + 1) if len(by_video) else []
    for rows in groups:
        timeline = videos[int(video[rows[0]])].timeline
        yield from _frames_of(timeline, rows.tolist(), starts, ends, within)


def _frames_of(
    timeline: Timeline, rows: Iterable[int], starts: Any, ends: Any, within: npt.NDArray[np.int32]
) -> Iterator[tuple[int, str]]:
    n = timeline.num_frames
    try:
        clock = clock_of(timeline, 0, n) if n and (starts is not None or ends is not None) else None
    except SamplingError as error:
        yield from ((row, str(error)) for row in rows)
        return
    for row in rows:
        try:
            start, end = _time(starts, row, START), _time(ends, row, END)
        except SamplingError as error:
            yield row, str(error)
            continue
        low = 0 if start is None or clock is None else clock.first_at_or_after(start)
        high = n if end is None or clock is None else clock.first_at_or_after(end)
        within[row] = low, high
        if low >= high:
            first, last = (timeline.pts_seconds[0], timeline.end_pts * float(timeline.time_base)) if n else (0.0, 0.0)
            yield row, f"no frame lies in [{start}, {end}) s; the video runs from {first:g} to {last:g} s"


def _time(values: Any, row: int, name: str) -> Any:
    value = None if values is None else _plain(values[row])
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return seconds("clips", name, value)
