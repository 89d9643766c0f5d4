"""Which packet gives which picture: the stream is decoded once, each packet tagged with its row."""

from __future__ import annotations

from typing import Any

import av

#: Larger pictures are not decoded for their order's sake: a decoder keeps up to 17 of them.
_MAX_PICTURE_PIXELS = 4096 * 2304
#: Pixels that may be decoded, in all and for each byte of the file.
_BASE_PIXELS, _PIXELS_PER_BYTE = 1 << 29, 1 << 9
#: What changes pixels only, neither order nor errors.
_FAST = {"skip_loop_filter": "all"}


class PictureOrder:
    """Rows in the order in which a decoder gives their pictures.

    Attributes:
        rows: rows whose pictures came out, in output order.
        is_complete: every packet was decoded; False after the budget was used up.
        num_errors: packets that the decoder refused.
        num_extra: pictures that came out beside the first one of a row.
        rotation: degrees clockwise, of the first picture.
        size: (width, height) of the first picture; before one came out, what the container says.
    """

    def __init__(self, stream: Any, size_bytes: int) -> None:
        self.rows: list[int] = []
        self.num_errors = 0
        self.num_extra = 0
        self.rotation = 0
        self.size = (stream.codec_context.width, stream.codec_context.height)
        self._seen: set[int] = set()
        self._context = stream.codec_context
        self._context.thread_count = 1
        self._context.options = _FAST
        self._left = _BASE_PIXELS + _PIXELS_PER_BYTE * size_bytes
        self.is_complete = self._pixels() <= _MAX_PICTURE_PIXELS

    def _pixels(self) -> int:
        return int(self._context.width * self._context.height)

    def feed(self, packet: Any, row: int) -> None:
        """Decode the packet of `row`; None at the end of the stream."""
        if not self.is_complete:
            return
        if packet is not None:
            packet.pts, packet.dts = row, None
        try:
            frames = self._context.decode(packet)
        except (av.FFmpegError, ValueError):
            self.num_errors += 1
            return
        for frame in frames:
            self._take(frame)
        self._left -= self._pixels()
        self.is_complete = self._left >= 0 and self._pixels() <= _MAX_PICTURE_PIXELS

    def _take(self, frame: Any) -> None:
        if not self.rows:
            self.rotation = -int(frame.rotation) % 360
            self.size = (frame.width, frame.height)
        row = frame.pts
        if row is None or row in self._seen:
            self.num_extra += 1
            return
        self._seen.add(row)
        self.rows.append(row)
