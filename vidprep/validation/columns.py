"""Header checks over the columns with one value per video: a mask over all rows, then a message for each hit.

Pure and vectorised: what a healthy video costs is a few comparisons.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from string import Formatter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vidprep.errors import Reason
from vidprep.validation.findings import findings_table
from vidprep.validation.nvdec import generations
from vidprep.validation.rules import REQUIREMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from vidprep.validation.rules import Rules, Thresholds

    Mask = npt.NDArray[np.bool_]

__all__ = ["Columns", "column_findings"]

NAME_COLUMNS = ("uri", "uri_bytes", "status")
ERROR_COLUMNS = ("error_reason", "error_message", "error_offset", "warnings", "doubts")


class Columns:
    """Some rows of an index, by column.

    Args:
        table: the columns of `needed_columns`.
        first_row: number of the first of these rows in the index.
    """

    def __init__(self, table: pa.Table, first_row: int = 0) -> None:
        self.table, self.first_row = table, first_row
        self.ok = self.equal("status", "ok")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """float64, null as NaN."""
        values: npt.NDArray[np.float64] = self.table[name].cast(pa.float64()).to_numpy()
        return values

    def equal(self, name: str, word: Any) -> Mask:
        """Whether each value is `word`; null is not."""
        mask: Mask = pc.fill_null(pc.equal(self.table[name], word), False).to_numpy()
        return mask

    def among(self, name: str, words: Sequence[Any]) -> Mask:
        """Whether each value is one of `words`; null is not."""
        column = self.table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        mask: Mask = pc.is_in(column, value_set=pa.array(words, column.type)).to_numpy()
        return mask

    def null(self, name: str) -> Mask:
        """Where there is no value."""
        mask: Mask = self.table[name].is_null().to_numpy()
        return mask

    def findings(self, check: str, rules: Rules, places: Any, messages: Sequence[str], **more: Any) -> pa.Table:
        """Findings of one check at these places."""
        at = pa.array(places)
        uri, raw = (self.table[name].take(at).combine_chunks() for name in ("uri", "uri_bytes"))
        rows = np.asarray(places) + self.first_row
        return findings_table(check, rules.severities[check], rows, uri, raw, messages, **more)


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """A check that one comparison over the columns decides."""

    check: str
    uses: tuple[str, ...]
    """columns that the comparison reads"""
    mask: Callable[[Columns, Thresholds], Mask]
    message: str
    """a format over the row's columns and the thresholds"""


def _differs(c: Columns, t: Thresholds, other: Any) -> Mask:
    """Whether a length differs from the video's by more than allowed; NaN does not."""
    seconds = c.numbers("duration_seconds")
    allowed = np.maximum(t.duration_seconds, seconds * t.duration_percent / 100)
    mask: Mask = np.abs(other - seconds) > allowed
    return mask


def _frame_count(c: Columns, _: Thresholds) -> Mask:
    header = c.numbers("header_num_frames")
    mask: Mask = (header > 0) & (header != c.numbers("num_frames")) & (header != c.numbers("num_samples"))
    return mask


def _duration(c: Columns, t: Thresholds) -> Mask:
    fps = c.numbers("header_fps")
    with np.errstate(divide="ignore", invalid="ignore"):
        claimed = np.where(fps > 0, c.numbers("header_num_frames") / fps, np.nan)
    mask: Mask = (claimed > 0) & _differs(c, t, claimed)
    return mask


def _frame_rate(c: Columns, t: Thresholds) -> Mask:
    claimed, fps = c.numbers("header_fps"), c.numbers("avg_fps")
    mask: Mask = (claimed > 0) & (fps > 0) & (np.abs(claimed - fps) > fps * t.fps_percent / 100)
    return mask


def _extreme_size(c: Columns, t: Thresholds) -> Mask:
    width, height = c.numbers("display_width"), c.numbers("display_height")
    long, short = np.fmax(width, height), np.fmin(width, height)
    mask: Mask = (short < t.min_side_pixels) | (long > t.max_side_pixels) | (long > short * t.max_aspect)
    return mask


def _odd_size(c: Columns, _: Thresholds) -> Mask:
    odd: Mask = (c.numbers("width") % 2 == 1) | (c.numbers("height") % 2 == 1)
    return odd & ~c.among("chroma", ["4:4:4", "rgb", "4:0:0"])


def _colour_odd(c: Columns, _: Thresholds) -> Mask:
    matrix = {name: c.equal("colour_matrix", name) for name in ("bt709", "bt2020")}
    small, primaries = c.numbers("height") < 720, ~c.null("colour_primaries")
    wide = primaries & c.among("colour_primaries", ["bt2020"])
    mismatch = (matrix["bt2020"] & primaries & ~wide) | (wide & ~matrix["bt2020"] & ~c.null("colour_matrix"))
    full = c.equal("colour_range", "full") & ~c.among("chroma", ["rgb"]) & ~c.equal("codec", "mjpeg")
    return mismatch | (small & matrix["bt2020"]) | full


_KNOWN_CHROMA = ["4:2:0", "4:2:2", "4:4:4"]

COLUMN_CHECKS: tuple[ColumnCheck, ...] = (
    ColumnCheck(
        "frame_count", ("header_num_frames", "num_frames", "num_samples"), _frame_count,
        "the header counts {header_num_frames} frames; there are {num_frames}, of {num_samples} coded samples",
    ),
    ColumnCheck(
        "duration", ("header_fps", "header_num_frames", "duration_seconds"), _duration,
        "the header's {header_num_frames} frames at {header_fps:g} fps do not last the {duration_seconds:.3f} s "
        "that the frames do",
    ),
    ColumnCheck(
        "frame_rate", ("header_fps", "avg_fps"), _frame_rate,
        "the header claims {header_fps:g} fps, the frames have {avg_fps:.3f}",
    ),
    ColumnCheck(
        "vfr", ("vfr_class",), lambda c, _: c.equal("vfr_class", "vfr"),
        "variable rate, {avg_fps:.3f} fps on average, standard deviation {jitter_seconds:.4f} s",
    ),
    ColumnCheck(
        "false_key_frames", ("doubts", "num_keyframes", "num_frames"),
        lambda c, _: _has_word(c, "doubts", ("all_sync", "first_not_sync"))
        & (c.numbers("num_keyframes") < c.numbers("num_frames")),
        "the container's key frames are wrong ({doubts}); {num_keyframes} of {num_frames} frames are true ones",
    ),
    ColumnCheck(
        "missing_key_frames", ("doubts", "num_keyframes"),
        lambda c, _: _has_word(c, "doubts", ("no_sync",))
        | (_has_word(c, "doubts", ("single_sync",)) & (c.numbers("num_keyframes") > 1))
        | (c.numbers("num_keyframes") == 0),
        "the container lists no or too few key frames; {num_keyframes} were found",
    ),
    ColumnCheck(
        "nvdec_unsupported", ("nvdec",), lambda c, _: c.equal("nvdec", "no"),
        "no NVDEC decodes {codec} {chroma}, {bit_depth} bits, {coded_width}x{coded_height}",
    ),
    ColumnCheck(
        "nvdec_some", ("nvdec",), lambda c, _: c.equal("nvdec", "some"),
        "{codec} {chroma}, {bit_depth} bits, {coded_width}x{coded_height}: NVDEC of {generations}",
    ),
    ColumnCheck("odd_size", ("width", "height", "chroma"), _odd_size, "{width}x{height}"),
    ColumnCheck(
        "extreme_size", ("display_width", "display_height"), _extreme_size, "shown as {display_width}x{display_height}"
    ),
    ColumnCheck(
        "rotation", ("rotation",), lambda c, _: c.numbers("rotation") > 0,
        "to be turned by {rotation} degrees clockwise",
    ),
    ColumnCheck(
        "sample_aspect", ("sar",), lambda c, _: ~c.null("sar") & ~c.equal("sar", "1/1"),
        "pixels of {sar}: {width}x{height} is shown as {display_width}x{display_height}",
    ),
    ColumnCheck(
        "colour_untagged", ("colour_matrix", "chroma"),
        lambda c, _: c.null("colour_matrix") & c.among("chroma", _KNOWN_CHROMA),
        "no colour matrix is tagged, {width}x{height}",
    ),
    ColumnCheck(
        "colour_odd", ("colour_matrix", "colour_primaries", "colour_range", "height", "chroma", "codec"), _colour_odd,
        "matrix {colour_matrix}, primaries {colour_primaries}, range {colour_range}, {height} rows",
    ),
    ColumnCheck("interlaced", ("interlaced",), lambda c, _: c.equal("interlaced", True), "its pictures are fields"),
    ColumnCheck(
        "audio_length", ("audio_duration_seconds", "duration_seconds"),
        lambda c, t: _differs(c, t, c.numbers("audio_duration_seconds")),
        "audio lasts {audio_duration_seconds:.3f} s, video {duration_seconds:.3f} s",
    ),
)  # fmt: skip


@lru_cache(maxsize=256)
def _fields(text: str) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in Formatter().parse(text) if name and name != "generations")


def _has_word(c: Columns, name: str, words: Sequence[str]) -> Mask:
    """Whether a list column holds one of some words."""
    column = c.table[name].combine_chunks()
    mask = np.zeros(len(c), bool)
    if column.null_count < len(column):
        hits = pc.is_in(column.flatten(), value_set=pa.array(words)).to_numpy(zero_copy_only=False)
        mask[pc.list_parent_indices(column).to_numpy()[hits]] = True
    return mask


def needed_columns() -> tuple[str, ...]:
    """Columns of an index that the checks of this module read."""
    names = {*NAME_COLUMNS, *ERROR_COLUMNS, *(column for column, _ in REQUIREMENTS.values() if column != "gop")}
    for check in COLUMN_CHECKS:
        names.update(check.uses, _fields(check.message))
    return tuple(sorted(names | {"codec", "chroma", "bit_depth", "coded_width", "coded_height"}))


def column_findings(columns: Columns, rules: Rules) -> Iterator[pa.Table]:
    """All findings that the columns alone give, a table for each check that has any."""
    yield from _errors(columns, rules)
    yield from _faults(columns, rules)
    for check in COLUMN_CHECKS:
        if check.check in rules.severities:
            places = np.flatnonzero(check.mask(columns, rules.thresholds) & columns.ok)
            if len(places):
                yield columns.findings(check.check, rules, places, _messages(columns, check, places, rules))
    yield from requirement_findings(columns, rules)


def _messages(columns: Columns, check: ColumnCheck, places: Any, rules: Rules) -> list[str]:
    names = _fields(check.message)
    if not names:
        return [check.message] * len(places)
    extra = ("codec", "chroma", "bit_depth") if "{generations}" in check.message else ()
    limits = {name: value for name, value in asdict(rules.thresholds).items() if name in names}
    table = columns.table.select(sorted({*names, *extra} & set(columns.table.column_names))).take(pa.array(places))
    told = []
    for values in zip(*(column.to_pylist() for column in table.columns), strict=True):
        row: dict[str, Any] = dict(zip(table.column_names, values, strict=True))
        shown = {name: _UNKNOWN if value is None else value for name, value in row.items()}
        if extra:
            shown["generations"] = generations(row["codec"], row["chroma"], row["bit_depth"])
        told.append(check.message.format_map(limits | shown))
    return told


class _Unknown:
    """Stands for a null in a message, whatever the format asks for: any column but a few may be null."""

    def __format__(self, how: str) -> str:
        return "?"


_UNKNOWN = _Unknown()


def _errors(columns: Columns, rules: Rules) -> Iterator[pa.Table]:
    """Rows that stand for videos that cannot serve."""
    if columns.ok.all():
        return
    for reason in Reason:
        places = np.flatnonzero(columns.equal("error_reason", str(reason)) & ~columns.ok)
        if len(places) and str(reason) in rules.severities:
            told = columns.table.select(["error_message", "error_offset"]).take(pa.array(places))
            messages = [message or "" for message in told["error_message"].to_pylist()]
            offsets = told["error_offset"].to_pylist()
            yield columns.findings(str(reason), rules, places, messages, offsets=offsets)


def _faults(columns: Columns, rules: Rules) -> Iterator[pa.Table]:
    """What the index calls warnings."""
    column = columns.table["warnings"].combine_chunks()
    if column.null_count == len(column):
        return
    parents = pc.list_parent_indices(column).to_numpy()
    told = list(zip(parents.tolist(), column.flatten().to_pylist(), strict=True))
    for check, is_tail in (("damaged_tail", True), ("container_faults", False)):
        some = [(place, fault) for place, fault in told if (fault["reason"] == Reason.TRUNCATED) is is_tail]
        if some and check in rules.severities:
            yield columns.findings(
                check, rules, [place for place, _ in some], [fault["message"] for _, fault in some],
                offsets=[fault["offset"] for _, fault in some],
            )  # fmt: skip


def requirement_findings(columns: Columns, rules: Rules) -> Iterator[pa.Table]:
    """Readable videos that break a requirement on a column."""
    if "requirement" not in rules.severities:
        return
    for name, wanted in rules.require.items():
        column, how = REQUIREMENTS[name]
        if column == "gop":
            continue
        if how == "in":
            bad = ~columns.among(column, wanted)
        else:
            values = columns.numbers(column)
            bad = ~(values >= wanted) if how == "min" else ~(values <= wanted)
        places = np.flatnonzero(bad & columns.ok)
        if len(places):
            found = columns.table[column].take(pa.array(places)).to_pylist()
            messages = [f"{column} is {value}; {name} = {wanted} is required" for value in found]
            yield columns.findings("requirement", rules, places, messages)
