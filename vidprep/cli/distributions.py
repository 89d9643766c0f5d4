"""Summaries of one index, or of two beside each other, as rows of a table: for terminals and for pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vidprep.pages.render import amount, data_bytes
from vidprep.pages.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Distribution", "Total", "distributions", "totals"]

#: Most frequent values that are shown.
TOP = 12

_TOTALS: dict[str, Callable[[float], str]] = {
    "videos": amount, "ok": amount, "failed": amount, "with warnings": amount, "hours": lambda hours: f"{hours:,.2f}",
    "data": data_bytes, "frames": amount, "key frames": amount,
}  # fmt: skip
_KEYS = {"with warnings": "with_warnings", "data": "bytes", "key frames": "keyframes"}

#: Key of a summary → title.
_COUNTED = {
    "failures": "Failures by reason", "resolution": "Resolution", "codec": "Codec", "container": "Container",
    "vfr_class": "Frame rate class", "method": "How the table was had", "nvdec": "NVDEC decodes it",
    "pix_fmt": "Pixel format", "rotation": "Rotation",
}  # fmt: skip
#: Key of a summary → title, what its values are divided by.
_SPREAD = {
    "duration_seconds": ("Duration, seconds", 1.0), "avg_fps": ("Frame rate, 1/s", 1.0),
    "num_frames": ("Frames in a video", 1.0), "gop_frames": ("GOP length, frames per key frame", 1.0),
    "bits_per_second": ("Bit rate, Mbit/s", 1e6),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """One figure of each index."""

    name: str
    values: tuple[float, ...]

    @property
    def texts(self) -> list[str]:
        """Each value with its unit."""
        return [_TOTALS[self.name](value) for value in self.values]

    @property
    def change(self) -> str:
        """From the first to the second: "+1,000 (+5.0 %)"; empty for one index."""
        return change(*self.values, form=_TOTALS[self.name]) if len(self.values) == 2 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How many videos have each value, in each index."""

    title: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    """for each index, one count a label"""
    figures: tuple[tuple[str, tuple[float | None, ...]], ...] = ()
    """min, median, mean, max of each index; None where it has no video"""
    left_out: int = 0
    """rarer values that are not among the labels"""


def change(before: float, after: float, *, form: Callable[[float], str] = amount) -> str:
    """From one value to another: "+1,000 (+5.0 %)", "0"."""
    if before == after:
        return "0"
    sign = "+" if after > before else "\u2212"
    share = f" ({100 * (after - before) / before:+,.1f} %)".replace("-", "\u2212") if before else ""
    return f"{sign}{form(abs(after - before))}{share}"


def totals(found: Sequence[dict[str, Any]]) -> list[Total]:
    """The figures of summaries (`indexes.summary.summarise`)."""
    return [Total(name=name, values=tuple(facts[_KEYS.get(name, name)] for facts in found)) for name in _TOTALS]


def distributions(found: Sequence[dict[str, Any]]) -> list[Distribution]:
    """The distributions of summaries that have anything to show."""
    counted = [_counted(title, [facts[key] for facts in found]) for key, title in _COUNTED.items()]
    spread = [_spread(title, [facts[key] for facts in found], unit) for key, (title, unit) in _SPREAD.items()]
    return [entry for entry in counted + spread if entry is not None and entry.labels]


def _counted(title: str, found: Sequence[dict[str, int]]) -> Distribution | None:
    total: dict[str, int] = {}
    for counts in found:
        for value, count in counts.items():
            total[value] = total.get(value, 0) + count
    values = sorted(total, key=lambda value: (-total[value], value))
    return Distribution(
        title=title,
        labels=tuple("unknown" if value == "None" else shown(value) for value in values[:TOP]),
        counts=tuple(tuple(counts.get(value, 0) for value in values[:TOP]) for counts in found),
        left_out=max(len(values) - TOP, 0),
    )


def _spread(title: str, found: Sequence[dict[str, Any] | None], unit: float) -> Distribution | None:
    known = next((facts for facts in found if facts), None)
    if known is None:
        return None
    counts = [[bin_[2] for bin_ in facts["histogram"]] if facts else [0] * len(known["histogram"]) for facts in found]
    used = [place for place in range(len(known["histogram"])) if any(row[place] for row in counts)]
    used = list(range(used[0], used[-1] + 1)) if used else []
    return Distribution(
        title=title,
        labels=tuple(_label(known["histogram"][place][0], known["histogram"][place][1], unit) for place in used),
        counts=tuple(tuple(row[place] for place in used) for row in counts),
        figures=tuple(
            (key, tuple(facts[key] / unit if facts else None for facts in found))
            for key in ("min", "median", "mean", "max")
        ),
    )


def _label(low: float | None, high: float | None, unit: float) -> str:
    if low is None:
        return f"< {(high or 0) / unit:g}"
    return f"\u2265 {low / unit:g}" if high is None else f"{low / unit:g} to {high / unit:g}"
