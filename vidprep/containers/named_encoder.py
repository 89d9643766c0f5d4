"""Streams whose first sample names an encoder that decoders must know: they are decoded from it, and from nowhere else.

x264 before build 151 coded 8x8 transforms of 4:4:4 pictures in a way of its own under CABAC. Its name and build stand in a
message of the first sample alone; FFmpeg's decoder goes by them, and begun at a later key frame gives other pictures.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vidprep.records import SampleFlag

if TYPE_CHECKING:
    from vidprep.records import ParsedVideo, ReadAt, SampleTable

X264 = re.compile(rb"x264 - core (\d{1,4})")
FIRST_BUILD_BY_THE_STANDARD = 151

#: Bytes of the first sample that hold the message: it stands before the first slice.
HEAD_BYTES = 4096


def as_its_encoder_wants(parsed: ParsedVideo, read_at: ReadAt, size_bytes: int) -> ParsedVideo:
    """The same video, its first row its only key where the encoder that it names is such a one.

    Args:
        parsed: what a container parser returned.
        read_at: the file; its first sample is read of H.264 in 4:4:4.
        size_bytes: length of the file.
    """
    if parsed.info.codec != "h264" or parsed.info.chroma != "4:4:4" or len(parsed.table.key_rows) < 2:
        return parsed
    named = X264.search(_first_sample(parsed, read_at, size_bytes))
    if named is None or int(named[1]) >= FIRST_BUILD_BY_THE_STANDARD:
        return parsed
    return replace(parsed, table=from_first_row(parsed.table))


def from_first_row(table: SampleTable) -> SampleTable:
    """The table with its first row as its only key."""
    flags = table.flags & np.uint8(~SampleFlag.KEY & 0xFF)
    flags[:1] |= np.uint8(SampleFlag.KEY)
    return replace(table, flags=flags)


def _first_sample(parsed: ParsedVideo, read_at: ReadAt, size_bytes: int) -> bytes:
    if parsed.access == "ranges":
        return read_at(int(parsed.table.offset[0]), min(int(parsed.table.size[0]), HEAD_BYTES))
    from vidprep.containers import demux  # imports PyAV, which is slow to load

    return next((packet.data[:HEAD_BYTES] for packet in demux.iter_packets(read_at, size_bytes)), b"")
