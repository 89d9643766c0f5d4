"""Figures over an index, by pyarrow over its mapped columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    from vidprep.indexes.read import Index

_WORDS = {
    "codec": "codec", "container": "container", "vfr_class": "vfr_class", "method": "method", "nvdec": "nvdec",
    "pix_fmt": "pix_fmt", "rotation": "rotation",
}  # fmt: skip
_EDGES = {
    "duration_seconds": (1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0),
    "avg_fps": (10.0, 20.0, 24.5, 25.5, 30.5, 50.5, 60.5, 120.5),
    "num_frames": (1.0, 16.0, 64.0, 256.0, 1024.0, 8192.0, 65536.0),
    "gop_frames": (2.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0),
    "bits_per_second": (1e5, 2.5e5, 5e5, 1e6, 2e6, 4e6, 8e6, 16e6, 32e6, 64e6),
}

#: Name → dividend, divisor, factor.
_RATIOS = {
    "gop_frames": ("num_frames", "num_keyframes", 1.0),
    "bits_per_second": ("size_bytes", "duration_seconds", 8.0),
}


def summarise(index: Index) -> dict[str, Any]:
    """Counts, totals and distributions of an index (or a view of one).

    Returns:
        `videos, ok, failed, hours, bytes, frames, keyframes, with_warnings`; `failures` by reason; `resolution`, codec,
        container, ... as counts, most frequent first; `duration_seconds, avg_fps, num_frames`, `gop_frames` (frames per
        key frame, a mean for each video) and `bits_per_second` (of the whole file) as
        {min, median, mean, max, histogram: [[low, high, count], ...]}.
    """
    good = index.where(status="ok")
    failures = _counts(index.where(status="error"), "error_reason")
    facts: dict[str, Any] = {
        "videos": len(index),
        "ok": len(good),
        "failed": len(index) - len(good),
        "hours": float(np.fmax(good.column("duration_seconds"), 0).sum()) / 3600,
        "bytes": int(_total(index, "size_bytes")),
        "frames": int(_total(good, "num_frames")),
        "keyframes": int(_total(good, "num_keyframes")),
        "with_warnings": len(good.where(pc.field("warnings").is_valid())),
        "failures": failures,
        "resolution": _resolutions(good),
    }
    facts.update((name, _counts(good, column)) for name, column in _WORDS.items())
    facts.update((name, _spread(_values(good, name), edges)) for name, edges in _EDGES.items())
    return facts


def first_failures(index: Index, limit: int) -> list[dict[str, Any]]:
    """The first videos that could not be read: uri, error_class, error_reason, error_message, error_offset."""
    names = ["uri", "error_class", "error_reason", "error_message", "error_offset"]
    rows: list[dict[str, Any]] = index.where(status="error").to_table(names).slice(0, limit).to_pylist()
    return rows


def _values(index: Index, name: str) -> Any:
    """One number for each video: a column, or a ratio of two; not finite where it is undefined."""
    if name not in _RATIOS:
        return index.column(name)
    over, under, factor = _RATIOS[name]
    below = np.asarray(index.column(under), float)
    below = np.where(below > 0, below, np.nan)  # times that jump back may end before they began
    return factor * np.asarray(index.column(over), float) / below


def _total(index: Index, name: str) -> float:
    return float(pc.sum(index.to_table([name])[name]).as_py() or 0)


def _counts(index: Index, name: str) -> dict[str, int]:
    found = pc.value_counts(index.to_table([name])[name]).to_pylist()
    pairs = ((str(entry["values"]), entry["counts"]) for entry in found)
    return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


def _resolutions(index: Index) -> dict[str, int]:
    columns = index.to_table(["width", "height"])
    groups = columns.group_by(["width", "height"]).aggregate([([], "count_all")]).to_pylist()
    pairs = ((f"{group['width']}x{group['height']}", group["count_all"]) for group in groups)
    return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


def _spread(values: Any, edges: tuple[float, ...]) -> dict[str, Any] | None:
    """Distribution of a numeric column; None without videos."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    bounds = [-np.inf, *edges, np.inf]
    counts = np.histogram(values, bounds)[0].tolist()
    limits: list[float | None] = [None, *edges, None]
    return {
        "min": float(values.min()),
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "max": float(values.max()),
        "histogram": [[low, high, count] for low, high, count in zip(limits, limits[1:], counts, strict=False)],
    }
