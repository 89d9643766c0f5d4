"""Where each packet's bytes lie in the file, if they lie there in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vidprep.records import ReadAt

#: Containers that put a frame into one piece, behind a small header.
CONTIGUOUS = frozenset({
    "avi", "flv", "ivf", "mxf", "y4m", "mjpeg", "h264", "hevc", "vvc", "m4v", "mpegvideo", "h263", "rm", "asf",
})  # fmt: skip
#: The largest header between what the demuxer calls a packet's position and its payload.
_MAX_HEADER_BYTES = 64


class PacketRanges:
    """Finds packets in the file, until one is not there in one piece.

    Attributes:
        is_contiguous: every packet so far lies where `locate` said.
    """

    def __init__(self, read_at: ReadAt, container: str) -> None:
        self.is_contiguous = container in CONTIGUOUS
        self._read_at = read_at
        self._header_bytes = 0

    def locate(self, pos: int | None, data: bytes) -> int:
        """Offset of the packet's first byte: `pos` itself once a packet was not found."""
        if pos is None:
            self.is_contiguous = False
            return 0
        if not self.is_contiguous:
            return pos
        there = self._read_at(pos, len(data) + _MAX_HEADER_BYTES)
        same = there.startswith(data, self._header_bytes)
        skip = self._header_bytes if same else there.find(data)
        self.is_contiguous = skip >= 0
        self._header_bytes = max(skip, 0)
        return pos + max(skip, 0)
