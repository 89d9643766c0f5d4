"""Box headers of ISO/IEC 14496-12 (4.2) and QuickTime, and a reading window over the file.

Only known paths are ever entered, so nesting depth is fixed by the code and not by the file.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.records import ReadAt

#: Bytes of the first read, and of those until the index is found.
HEAD_BYTES = 64 * 1024
#: Bytes of a read that looks for the next fragment.
FRAGMENT_BYTES = 16 * 1024

u16 = Struct(">H").unpack_from
u32 = Struct(">I").unpack_from
i32 = Struct(">i").unpack_from
u64 = Struct(">Q").unpack_from
_header = Struct(">I4s").unpack_from

#: Body of a box within its buffer: first byte, and the byte after the last.
Span = tuple[int, int]
#: Bodies of sibling boxes by type, in file order.
Boxes = dict[bytes, list[Span]]


class TopBox(NamedTuple):
    """A box at the file's top level; offsets in the file, `end` not beyond it."""

    kind: bytes
    start: int
    body: int
    end: int
    claimed_end: int


class Window:
    """Bytes of a file, read a window at a time, so that neighbouring requests cost one read."""

    def __init__(self, read_at: ReadAt, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.window_bytes = HEAD_BYTES
        self._read_at = read_at
        self._start = 0
        self._data = b""

    def get(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset`, fewer at the end of the file."""
        data, begin = self.view(offset, size)
        return data[begin : begin + size]

    def view(self, offset: int, size: int) -> tuple[bytes, int]:
        """A buffer, and where in it the byte at `offset` lies; `size` bytes follow, fewer at the end of the file."""
        begin = offset - self._start
        if begin < 0 or begin + size > len(self._data):
            self._data = self._read_at(offset, min(max(size, self.window_bytes), self.size_bytes - offset))
            self._start = offset
            begin = 0
        return self._data, begin


def top_boxes(window: Window) -> Iterator[TopBox]:
    """Boxes at the file's top level, in order, up to the first that cannot be one (size below its own header)."""
    position, size_bytes = 0, window.size_bytes
    while position + 8 <= size_bytes:
        data, at = window.view(position, min(16, size_bytes - position))
        if len(data) < at + 8:
            return
        size, kind = _header(data, at)
        body = position + 8
        if size == 1:
            if len(data) < at + 16:
                return
            size, body = u64(data, at + 8)[0], position + 16
        elif size == 0:
            size = size_bytes - position
        end = position + size
        if end < body:
            return
        yield TopBox(kind, position, body, min(end, size_bytes), end)
        position = end


def children(data: bytes, start: int, end: int) -> Boxes:
    """Boxes in data[start:end] by type. One that overruns is cut at `end`; one that is too small ends the walk."""
    found: Boxes = {}
    while start + 8 <= end:
        size, kind = _header(data, start)
        if size >= 8:
            body = start + 8
        else:
            size, body = _unusual_size(data, start, size, end)
            if size < 8:
                break
        start += size
        if kind in found:
            found[kind].append((body, start if start < end else end))
        else:
            found[kind] = [(body, start if start < end else end)]
    return found


def _unusual_size(data: bytes, start: int, size: int, end: int) -> tuple[int, int]:
    """Size of a box with a 64-bit size (1) or one that goes to the end (0), and its body's place; 0 if neither."""
    if size == 0:
        return end - start, start + 8
    if size == 1 and start + 16 <= end:
        size = u64(data, start + 8)[0]
        return (size if size >= 16 else 0), start + 16
    return 0, start + 8


def path(data: bytes, span: Span, *kinds: bytes) -> Boxes:
    """Children of the first box found by going down `kinds`; empty where there is none."""
    boxes = children(data, *span)
    for kind in kinds:
        spans = boxes.get(kind)
        if not spans:
            return {}
        boxes = children(data, *spans[0])
    return boxes
