"""Box headers of ISO/IEC 14496-12 (4.2) and QuickTime, and a reading window over the file.

Only known paths are ever entered, so nesting depth is fixed by the code and not by the file.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.records import ReadAt

#: Bytes of the first read: enough to see whether the index stands in front, or where it may be.
HEAD_BYTES = 4 * 1024
#: Bytes of those that follow until the index is found.
INDEX_BYTES = 64 * 1024
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

    def __init__(self, read_at: ReadAt, size_bytes: int, head: bytes = b"") -> None:
        self.size_bytes = size_bytes
        self.window_bytes = INDEX_BYTES if head else HEAD_BYTES
        self._read_at = read_at
        self._start = 0
        self._data = self._head = head

    def get(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset`, fewer at the end of the file."""
        data, begin = self.view(offset, size)
        return data[begin : begin + size]

    def view(self, offset: int, size: int) -> tuple[bytes, int]:
        """A buffer, and where in it the byte at `offset` lies; `size` bytes follow, fewer at the end of the file."""
        begin = offset - self._start
        if begin < 0 or begin + size > len(self._data):
            if offset + size <= len(self._head):
                return self._head, offset
            self._data = self._read_at(offset, min(max(size, self.window_bytes), self.size_bytes - offset))
            self._start = offset
            if self.window_bytes == HEAD_BYTES:
                self.window_bytes = INDEX_BYTES
            begin = 0
        return self._data, begin

    def exactly(self, offset: int, size: int) -> tuple[bytes, int]:
        """As `view`, and if that takes a read, one of these bytes alone."""
        window_bytes, self.window_bytes = self.window_bytes, 0
        found = self.view(offset, size)
        self.window_bytes = window_bytes
        return found


def top_boxes(window: Window, position: int = 0) -> Iterator[TopBox]:
    """Boxes at the file's top level, in order, up to the first that cannot be one (size below its own header)."""
    size_bytes = window.size_bytes
    data, first = b"", 0
    while position + 8 <= size_bytes:
        at = position - first
        if at + 16 > len(data):
            data, at = window.view(position, 16)
            first = position - at
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


def children(data: bytes, start: int, end: int, entered: frozenset[bytes] = frozenset()) -> Boxes:
    """Boxes in data[start:end] by type, and those within the first of each type of `entered`.

    One that overruns the box around it is cut at that one's end; one that is too small ends the walk of what is
    around it.
    """
    found: Boxes = {}
    around: list[Span] = []  # where the walk goes on behind the boxes that it is in
    while True:
        last, span = end - 8, None
        while start <= last:
            size, kind = _header(data, start)
            if size >= 8:
                span = start + 8, (start := start + size)
            else:
                size, body = _unusual_size(data, start, size, end)
                if size < 8:
                    break
                span = body, (start := start + size)
            if kind in found:
                found[kind].append(span)
                continue
            found[kind] = [span]
            if kind in entered:
                around.append((start, end))
                start, end = span[0], min(start, end)
                found[kind] = [(start, end)]
                last, span = end - 8, None
        if span and start > end:
            found[kind][-1] = (span[0], end)  # overran: cut
        if not around:
            return found
        start, end = around.pop()


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
