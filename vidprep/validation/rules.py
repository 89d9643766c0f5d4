"""What counts as a finding: which checks run, how bad each is, thresholds, and requirements; from a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vidprep.validation.checks import CHECKS, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["REQUIREMENTS", "Rules", "Thresholds", "load_rules", "parse_rules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Numbers that checks compare with (table `[thresholds]`)."""

    long_gop_frames: int = 300
    """the longest group of pictures that is not long; encoders' default is 250"""
    fps_percent: float = 1.0
    """by which the header's rate may differ"""
    duration_percent: float = 5.0
    duration_seconds: float = 0.5
    """durations, also of audio, may differ by the larger of the two"""
    min_side_pixels: int = 64
    max_side_pixels: int = 8192
    max_aspect: float = 4.0
    """longer over shorter side"""
    black_luma: float = 16.0
    """mean luma (of 255) below which a picture is black"""
    blank_deviation: float = 1.5
    """standard deviation of luma below which a picture is of one colour"""
    frozen_difference: float = 0.25
    """mean luma difference of neighbours (of 255) below which nothing moves; FFmpeg's freezedetect has 0.255"""
    black_seconds: float = 1.0
    blank_seconds: float = 1.0
    frozen_seconds: float = 2.0
    """shortest stretch that is told; one that fills a sampled clip always is"""
    near_bits: int = 6
    """perceptual hashes (64 bits) that differ in at most so many are alike, 7 at most"""
    near_share: float = 0.5
    """of the fewer hashes of two videos that must be alike"""


#: Requirement → (column, how it is compared).
REQUIREMENTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "min_width": ("width", "min"), "max_width": ("width", "max"),
        "min_height": ("height", "min"), "max_height": ("height", "max"),
        "min_fps": ("avg_fps", "min"), "max_fps": ("avg_fps", "max"),
        "min_seconds": ("duration_seconds", "min"), "max_seconds": ("duration_seconds", "max"),
        "min_frames": ("num_frames", "min"), "max_frames": ("num_frames", "max"),
        "max_gop": ("gop", "max"),
        "codecs": ("codec", "in"), "containers": ("container", "in"), "pix_fmts": ("pix_fmt", "in"),
        "nvdec": ("nvdec", "in"), "vfr_classes": ("vfr_class", "in"), "rotations": ("rotation", "in"),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How to judge."""

    severities: Mapping[str, str] = field(
        default_factory=lambda: {id_: check.severity for id_, check in CHECKS.items()}
    )
    """severity of each check that runs"""
    thresholds: Thresholds = field(default_factory=Thresholds)
    require: Mapping[str, Any] = field(default_factory=dict)
    """requirement → number, or list of words; names of REQUIREMENTS"""


def load_rules(path: Path) -> Rules:
    """Rules from a TOML file. Raises ValueError (wrong content), OSError."""
    return parse_rules(path.read_text("utf-8"))


def parse_rules(text: str) -> Rules:
    """Rules from TOML: `disable`, `only`, `[severity]`, `[thresholds]`, `[require]`.

    Raises:
        ValueError: no TOML, or a name or value that means nothing; says which.
    """
    tables = tomllib.loads(text)
    _check_names("the rules file", tables, ("disable", "only", "severity", "thresholds", "require"))
    for name, value in tables.items():
        kind = "list" if name in ("disable", "only") else "table"
        is_right = isinstance(value, {"list": list, "table": dict}[kind])
        if not is_right:
            raise ValueError(f"{name} is a {kind}, not {value!r}")
    return Rules(
        severities=_severities(tables.get("disable", []), tables.get("only"), tables.get("severity", {})),
        thresholds=_thresholds(tables.get("thresholds", {})),
        require=_require(tables.get("require", {})),
    )


def _check_names(where: str, names: Any, known: Any) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{where}: {name!r} is none of {', '.join(known)}")


def _severities(disable: list[str], only: list[str] | None, severity: dict[str, str]) -> dict[str, str]:
    _check_names("disable", disable, CHECKS)
    _check_names("only", only or (), CHECKS)
    _check_names("[severity]", severity, CHECKS)
    _check_names("[severity]", severity.values(), SEVERITIES)
    wanted = [id_ for id_ in CHECKS if id_ not in disable and (only is None or id_ in only)]
    return {id_: severity.get(id_, CHECKS[id_].severity) for id_ in wanted}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _thresholds(values: dict[str, Any]) -> Thresholds:
    _check_names("[thresholds]", values, [entry.name for entry in fields(Thresholds)])
    for name, value in values.items():
        if not _is_number(value) or value < 0 or (name == "near_bits" and value > 7):
            raise ValueError(f"[thresholds]: {name} = {value!r} is out of range")
    return Thresholds(**values)


def _require(values: dict[str, Any]) -> dict[str, Any]:
    _check_names("[require]", values, REQUIREMENTS)
    for name, value in values.items():
        good = isinstance(value, list) if REQUIREMENTS[name][1] == "in" else _is_number(value)
        if not good:
            raise ValueError(
                f"[require]: {name} takes a {'list' if REQUIREMENTS[name][1] == 'in' else 'number'}, not {value!r}"
            )
    return values
