"""Where in a clip a decoder must be drained: not before an IDR picture.

That makes a decoder forget all that came before, and give out what it still held (H.264, C.4.4; H.265, C.5.2.2).
Draining it first, which empties its pipeline, only costs time. Other starts (CRA, recovery points) do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.loaders.elementary import Pieces

#: codec → mask and shift of nal_unit_type, types of coded slices (H.264, table 7-1; H.265, table 7-1), of IDR pictures.
SLICE_TYPES = {"h264": (0x1F, 0, range(1, 6), (5,)), "hevc": (0x3F, 1, range(32), (19, 20))}

START_CODE = b"\0\0\1"


def drained_starts(codec: str, pieces: Pieces, segment_starts: Sequence[int]) -> tuple[int, ...]:
    """The first of the segments' starts, and those that are no IDR pictures.

    Args:
        codec: FFmpeg's name.
        pieces: the packets of a cut.
        segment_starts: places of packets, ascending.
    """
    return (*segment_starts[:1], *(start for start in segment_starts[1:] if not _is_idr(codec, pieces, start)))


def _is_idr(codec: str, pieces: Pieces, packet: int) -> bool:
    if packet + 1 >= len(pieces.starts):
        return False
    return begins_with_idr(codec, pieces.joined(packet, packet + 1))


def begins_with_idr(codec: str, sample: bytes) -> bool:
    """Whether the first coded slice of a sample in Annex B is one of an IDR picture; False for other codecs."""
    if codec not in SLICE_TYPES:
        return False
    mask, shift, slices, idr = SLICE_TYPES[codec]
    at = sample.find(START_CODE)
    while 0 <= at < len(sample) - 3:
        kind = sample[at + 3] >> shift & mask
        if kind in slices:
            return kind in idr
        at = sample.find(START_CODE, at + 3)
    return False
