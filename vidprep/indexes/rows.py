"""Between records and index rows: a video becomes a dict by column name, and back."""

from __future__ import annotations

import dataclasses
import os
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.records import SampleTable, StreamInfo
from vidprep.timebase import format_time_base, parse_time_base

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vidprep.errors import MediaError
    from vidprep.records import Identity, Video
    from vidprep.timebase import IntArray

Row = dict[str, Any]

INFO_NAMES = tuple(field.name for field in dataclasses.fields(StreamInfo))
TIMING_NAMES = (
    "duration_seconds", "avg_fps", "is_vfr", "vfr_class", "num_gaps", "num_duplicates", "num_backward",
    "jitter_seconds",
)  # fmt: skip

#: Key of a row's SampleTable, which the writer turns into the frame columns.
TABLE = "table"

_TIMING_VALUES = attrgetter(*TIMING_NAMES)

_FROM_COLUMN: dict[str, Callable[[Any], Any]] = {
    "sar": lambda text: tuple(map(int, text.split("/"))),
    "time_base": parse_time_base,
    "other_streams": lambda streams: tuple(streams or ()),
    "later_configs": lambda configs: tuple((each["row"], each["config"]) for each in configs or ()),
}
_INFO_DEFAULTS = {
    field.name: field.default for field in dataclasses.fields(StreamInfo) if field.default is not dataclasses.MISSING
}


def text_of(uri: str) -> str:
    r"""A uri as UTF-8 text: bytes that are not UTF-8 (lone surrogates in Python) shown as \xNN."""
    try:
        uri.encode()
    except UnicodeEncodeError:
        return os.fsencode(uri).decode(errors="backslashreplace")
    return uri


def name_values(uri: str, path: str) -> Row:
    """The columns that name a video."""
    text = text_of(uri)
    return {
        "uri": text,
        "uri_bytes": None if text is uri else os.fsencode(uri),
        "path": text if path is uri else text_of(path),
    }


def uri_of(row: Mapping[str, Any]) -> str:
    """The uri that a row names, byte for byte (surrogateescape)."""
    raw = row.get("uri_bytes")
    return str(row["uri"]) if raw is None else os.fsdecode(raw)


def path_of(row: Mapping[str, Any]) -> str | None:
    """The path that a row names, byte for byte as far as the end of its uri tells it (surrogateescape)."""
    path: str | None = row.get("path")
    if path is None or row.get("uri_bytes") is None:
        return path
    parts, known = path.split("/"), uri_of(row).split("/")
    for place in range(1, min(len(parts), len(known)) + 1):
        if text_of(known[-place]) != parts[-place]:
            break
        parts[-place] = known[-place]
    return "/".join(parts)


def identity_values(identity: Identity) -> Row:
    """The columns that tell whether a row is stale."""
    return {
        "size_bytes": identity.size_bytes,
        "mtime_ns": identity.mtime_ns,
        "etag": identity.etag,
        "member_offset": identity.member_offset,
    }


def video_row(video: Video, path: str) -> Row:
    """The row of a video that can be read."""
    parsed, info = video.parsed, video.parsed.info
    table, pts = parsed.table, parsed.table.frame_pts
    has_frames = len(pts) > 0
    return {
        **_INFO_DEFAULTS,
        **vars(info),
        **dict(zip(TIMING_NAMES, _TIMING_VALUES(parsed.timing), strict=True)),
        **name_values(video.uri, path),
        **identity_values(video.identity),
        "sar": f"{info.sar[0]}/{info.sar[1]}",
        "time_base": format_time_base(info.time_base),
        "other_streams": list(info.other_streams) or None,
        "later_configs": [{"row": row, "config": config} for row, config in info.later_configs] or None,
        "status": "ok",
        "warnings": [dataclasses.asdict(finding) for finding in parsed.warnings] or None,
        "num_frames": len(pts),
        "num_samples": len(table),
        "num_keyframes": len(table.keyframes),
        "first_pts": pts.item(0) if has_frames else None,
        "last_pts": pts.item(-1) if has_frames else None,
        "method": parsed.method,
        "access": parsed.access,
        "keys_verified": parsed.keys_verified,
        "doubts": list(parsed.doubts) or None,
        TABLE: table,
    }


def error_row(uri: str, path: str, error: MediaError, identity: Identity | None) -> Row:
    """The row of a video that cannot be read."""
    row = name_values(uri, path)
    row.update(identity_values(identity) if identity else {})
    row.update(
        status="error",
        error_class=type(error).__name__,
        error_reason=str(error.reason),
        error_message=text_of(error.message),
        error_offset=error.offset,
        num_frames=0,
        num_samples=0,
    )
    return row


def table_of(
    sizes: IntArray,
    gaps: IntArray,
    pts_deltas: IntArray,
    flags: Any,
    order: IntArray | None = None,
    crc32: Any = None,
) -> SampleTable:
    """The sample table that frame columns tell of; the inverse of `write.frame_arrays`."""
    ends = np.cumsum(gaps + sizes)
    return SampleTable(
        offset=ends - sizes, size=sizes, pts=np.cumsum(pts_deltas), flags=flags, order=order, crc32=crc32
    )


def info_of(row: Mapping[str, Any]) -> StreamInfo:
    """Stream facts from the columns; columns that are null take StreamInfo's defaults."""
    values = {
        name: _FROM_COLUMN[name](value) if name in _FROM_COLUMN else value
        for name in INFO_NAMES
        if (value := row.get(name)) is not None
    }
    return StreamInfo(**({"container": "", "codec": ""} | values))
