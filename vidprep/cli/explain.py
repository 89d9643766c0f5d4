"""`vidprep inspect --explain`: why the index says what it says, in plain sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import VidprepError
from vidprep.records import SampleFlag
from vidprep.timebase import parse_time_base

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vidprep.indexes.rows import Row
    from vidprep.records import SampleTable

__all__ = ["explanations"]

_METHODS = {
    "header": "the frame table was read from the container's own tables; no sample was touched for it",
    "scan": "the frame table was made by walking the container's fragments or blocks, because no table lists them all",
    "demux": "the frame table was made by demuxing the whole file with FFmpeg: there is no other parser for it",
}
_ACCESS = {
    "ranges": "each sample lies in one piece in the file, so that a clip costs only the bytes of its own frames",
    "demux": "samples do not lie in one piece in the file: reading a clip means demuxing the file up to it",
}
_DOUBTS = {
    "all_sync": "the container calls every sample a key frame, which this codec seldom has",
    "no_sync": "the container calls no sample a key frame",
    "first_not_sync": "the container says that the first sample is no key frame",
    "single_sync": "only the first sample of a long track is called a key frame, and others need not be listed",
    "duplicate_times": "neighbouring samples have one time, so that some may hold no picture or half of one",
    "separate_fields": "samples hold one field each, two of which are one frame",
    "demuxer_keys": "FFmpeg flags gradual recovery points as key frames too",
    "uneven_times": "a gap far below the others hints at hidden frames",
    "encoder_unnamed": "decoding can start only where the encoder names itself, which its key samples need not do",
}
_NVDEC = {
    "no": "no NVDEC generation decodes this stream: it goes to the CPU",
    "some": "only newer NVDEC generations decode this stream; elsewhere it goes to the CPU",
}
#: Edits that are told one by one.
_EDITS = 8


def explanations(row: Row, table: SampleTable | None, uri: str) -> list[str]:
    """What is worth knowing of how a row's facts were had, one sentence each.

    Args:
        row: of an index, or as `probe_row` gives it.
        table: its samples.
        uri: the file; its edit list is looked up if it is still there.
    """
    if row["status"] != "ok" or table is None:
        where = "" if row.get("error_offset") is None else f" (at byte {row['error_offset']})"
        return [f"cannot be used: {row['error_reason']}: {row['error_message']}{where}"]
    return [*_how(row), *_edits(row, uri), *_frames(row, table), *_times(row, table), *_display(row), *_warnings(row)]


def _how(row: Row) -> Iterator[str]:
    yield _METHODS[row["method"]]
    doubts = row.get("doubts") or ()
    for doubt in doubts:
        yield f"the heads of the samples were read, because {_DOUBTS.get(doubt, doubt)}"
    if row.get("keys_verified"):
        yield "key frames are what the samples themselves say" + ("" if doubts else ": they were checked on request")
    else:
        yield (
            "key frames are the container's claim: its tables give no reason to doubt it, and decoding checks each one"
            " before it starts there"
        )
    yield _ACCESS[row["access"]]
    if row.get("nvdec") in _NVDEC:
        yield _NVDEC[row["nvdec"]]
    for stream in row.get("other_streams") or ():
        yield f"another video track was left aside: {stream}"


def _edits(row: Row, uri: str) -> Iterator[str]:
    """The edit list of an ISO file, if the file is still there to be asked."""
    if row["method"] == "demux" or row["container"] in ("matroska", "webm"):
        return
    from vidprep.containers.isobmff import read_edit_list
    from vidprep.sources import open_source

    try:
        with open_source(uri) as source:
            edits, ticks_per_second = read_edit_list(source.read_at, source.identity.size_bytes)
    except (VidprepError, OSError) as error:
        yield f"the edit list cannot be told: {error}"
        return
    if not edits:
        yield "there is no edit list: every sample is shown at its own time"
    for number, edit in enumerate(edits[:_EDITS]):
        yield f"edit {number + 1} of {len(edits)} {_edit_told(edit, ticks_per_second)}"
    if len(edits) > _EDITS:
        yield f"{len(edits) - _EDITS} more edits follow"


def _edit_told(edit: Any, ticks_per_second: int) -> str:
    length, start = edit.duration / ticks_per_second, edit.media_time / ticks_per_second
    if edit.media_time == -1:
        return f"is empty: nothing is shown for {length:.6g} s"
    if edit.rate == 0:
        return f"holds the picture at {start:.6g} s of the track for {length:.6g} s"
    until = f"to {start + length:.6g} s" if edit.duration else "to its end"
    return f"shows the track from {start:.6g} s {until}"


def _frames(row: Row, table: SampleTable) -> Iterator[str]:
    claimed, found = row.get("header_num_frames"), row["num_frames"]
    if claimed is not None and claimed != found:
        yield f"the header claims {claimed} frames; a viewer sees {found}"
    hidden = int(np.count_nonzero((table.flags & SampleFlag.SHOWN) == 0))
    if hidden:
        yield (
            f"{hidden} coded samples are decoded but not shown: before the edit list's start, hidden by the codec, or"
            " not decodable from what the file holds"
        )
    repeated = len(table) - len(np.unique(table.offset))
    if repeated:
        yield f"{repeated} samples stand in the table more than once: the edit list shows them again"
    if row["num_keyframes"] == 0:
        yield "no shown frame is a key frame: decoding starts at a sample before the first one"


def _times(row: Row, table: SampleTable) -> Iterator[str]:
    if table.order is not None:
        yield "frames are in the order in which a decoder gives them: times jump back or repeat, sorting would be wrong"
    elif bool((table.pts[1:] < table.pts[:-1]).any()):
        yield "samples are coded in another order than they are shown (B-pictures); frames are sorted by time"
    first = (row.get("first_pts") or 0) * parse_time_base(row["time_base"])
    if first:
        yield f"the first frame is shown at {float(first):.6g} s, not at 0"
    if row["is_vfr"]:
        yield f"frame times vary (standard deviation {row['jitter_seconds'] * 1000:.1f} ms)"
    elif row["vfr_class"] == "quantised_cfr":
        yield "the frame rate is constant, rounded to the ticks of the container"
    for name, told in (
        ("num_gaps", "gaps longer than three times the usual distance"),
        ("num_duplicates", "frames with the time of the one before"),
        ("num_backward", "frames with a time before that of the one before"),
    ):
        if row.get(name):
            yield f"{row[name]} {told}"


def _display(row: Row) -> Iterator[str]:
    if row.get("rotation"):
        yield f"to be rotated by {row['rotation']} degrees clockwise for display"
    if row.get("sar") not in (None, "1/1"):
        yield f"samples are not square ({row['sar']}): shown at {row['display_width']}x{row['display_height']}"
    if row.get("colour_matrix") is None and row.get("chroma") != "rgb":
        yield "no colour matrix is stated: BT.601 is taken, as FFmpeg does"


def _warnings(row: Row) -> Iterator[str]:
    for finding in row.get("warnings") or ():
        where = "" if finding["offset"] is None else f" (at byte {finding['offset']})"
        yield f"warning: {finding['reason']}: {finding['message']}{where}"


def joined(sentences: Sequence[str]) -> list[str]:
    """Each with a capital and a full stop."""
    return [sentence[:1].upper() + sentence[1:] + "." for sentence in sentences]
