"""Streams whose first sample names an encoder that decoders must know: they are decoded from it, and from nowhere else.

x264 before build 151 coded 8x8 transforms of 4:4:4 pictures in a way of its own under CABAC. Its name and build stand in a
message of the first sample alone; FFmpeg's decoder goes by them, and begun at a later key frame gives other pictures. So
it does for DivX and Xvid: other transforms, chroma vectors and edges. They name themselves in user data, mostly of every
key sample.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from vidprep.records import SampleFlag

if TYPE_CHECKING:
    from vidprep.records import ParsedVideo, ReadAt, SampleTable, StreamInfo

X264 = re.compile(rb"x264 - core (\d{1,4})")
FIRST_BUILD_BY_THE_STANDARD = 151

#: User data of MPEG-4 (ISO/IEC 14496-2, 6.2.2.1).
DIVX_OR_XVID = re.compile(rb"\x00\x00\x01\xb2(?:DivX|XviD)\d")

#: Bytes of a sample that hold the name: it stands before the picture.
HEAD_BYTES = 4096


def as_its_encoder_wants(parsed: ParsedVideo, read_at: ReadAt, size_bytes: int) -> ParsedVideo:
    """The same video, its first row its only key where the encoder that it names is such a one.

    Args:
        parsed: what a container parser returned.
        read_at: the file; its first sample is read of H.264 in 4:4:4, and its first key samples of MPEG-4.
        size_bytes: length of the file.
    """
    if not _may_be_such(parsed.info) or len(parsed.table.key_rows) < 2:
        return parsed
    return (
        replace(parsed, table=from_first_row(parsed.table)) if _is_named_once(parsed, read_at, size_bytes) else parsed
    )


def _may_be_such(info: StreamInfo) -> bool:
    return info.codec == "mpeg4" or (info.codec == "h264" and info.chroma == "4:4:4")


def _is_named_once(parsed: ParsedVideo, read_at: ReadAt, size_bytes: int) -> bool:
    info = parsed.info
    if info.codec == "h264":
        named = X264.search(_head(parsed, 0, read_at, size_bytes))
        return named is not None and int(named[1]) < FIRST_BUILD_BY_THE_STANDARD
    if DIVX_OR_XVID.search(info.codec_config):
        return False
    rows = (0, int(parsed.table.key_rows[1]))
    first, second = (DIVX_OR_XVID.search(_head(parsed, row, read_at, size_bytes)) for row in rows)
    return first is not None and second is None


def from_first_row(table: SampleTable) -> SampleTable:
    """The table with its first row as its only key."""
    flags = table.flags & np.uint8(~SampleFlag.KEY & 0xFF)
    flags[:1] |= np.uint8(SampleFlag.KEY)
    return replace(table, flags=flags)


def _head(parsed: ParsedVideo, row: int, read_at: ReadAt, size_bytes: int) -> bytes:
    """The first bytes of one row."""
    if parsed.access == "ranges":
        return read_at(int(parsed.table.offset[row]), min(int(parsed.table.size[row]), HEAD_BYTES))
    from vidprep.containers import demux  # imports PyAV, which is slow to load

    packets = islice(demux.iter_packets(read_at, size_bytes), row, row + 1)
    return next((packet.data[:HEAD_BYTES] for packet in packets), b"")
