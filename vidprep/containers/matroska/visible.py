"""Which blocks give a picture that is shown: VP8 and VP9 have hidden ones for reference only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vidprep.containers.matroska.blocks import HEAD, OFFSET, SIZE

if TYPE_CHECKING:
    from vidprep.records import ReadAt
    from vidprep.timebase import IntArray

#: A VP9 superframe index is at most 2 + 4 x 8 bytes (VP9 bitstream specification, annex B).
_INDEX_BYTES = 34


def shown_rows(read_at: ReadAt, codec: str, columns: IntArray) -> npt.NDArray[np.bool_]:
    """bool[n]: whether a row gives a shown picture, from its payload's first byte.

    A VP9 block that starts with a hidden picture may be a superframe with a shown one behind it; its index, in the
    block's last bytes, is read then.
    """
    head = columns[HEAD]
    if codec == "vp8":
        # RFC 6386 section 9.1: key_frame 1 bit, version 3, show_frame 1, least significant bit first
        return np.asarray(head >> 4 & 1 == 1)
    shown = np.ones(len(head), bool)
    if codec == "vp9":
        for row in np.flatnonzero(~_vp9_shows(head)):
            shown[row] = _superframe_shows(read_at, int(columns[OFFSET][row]), int(columns[SIZE][row]))
    return shown


def _vp9_shows(head: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether a VP9 frame is shown, by its first byte; what does not start with the marker 2 is left to the decoder.

    VP9 section 6.2: frame_marker 2 bits, profile 2 (and a reserved one for profile 3), show_existing_frame, frame_type,
    show_frame.
    """
    shift = np.where(head >> 4 & 3 == 3, 0, 1)
    show_existing = head >> shift + 2 & 1
    shown: npt.NDArray[np.bool_] = (head >> 6 != 2) | (show_existing == 1) | (head >> shift & 1 == 1)
    return shown


def _superframe_shows(read_at: ReadAt, offset: int, size: int) -> bool:
    """Whether a frame after the first in a superframe is shown; False where there is no superframe."""
    tail = read_at(offset + max(size - _INDEX_BYTES, 0), min(size, _INDEX_BYTES))
    marker = tail[-1] if tail else 0
    if marker & 0xE0 != 0xC0:
        return False
    count, width = (marker & 7) + 1, (marker >> 3 & 3) + 1
    index = tail[-2 - count * width :]
    if index[0] != marker or len(index) != 2 + count * width:
        return False
    sizes = [int.from_bytes(index[1 + i * width : 1 + (i + 1) * width], "little") for i in range(count)]
    starts = np.cumsum(sizes)[:-1]
    heads = [read_at(offset + int(start), 1) for start in starts if start < size]
    return any(bool(_vp9_shows(np.array(list(head), np.int64)).all()) for head in heads if head)
