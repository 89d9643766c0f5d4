"""EBML: element headers and values out of bytes (RFC 8794), and a window that jumps over what nobody needs."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from vidprep.records import ReadAt

#: Octets of a variable-size integer, by its first octet; 9 = none (RFC 8794 section 4).
VINT_LENGTH = bytes([9] + [9 - first.bit_length() for first in range(1, 256)])
#: What is left of a variable-size integer without its marker, by its length; all ones = unknown.
VINT_MASK = tuple((1 << 7 * length) - 1 for length in range(10))

#: Enough for an element header (4 + 8), a block header (8 + 2 + 1) and the first byte of its payload.
HEADER_ROOM = 24
_MIN_READ = 64
_MAX_READ = 64 << 10
_ZEROS = bytes(2 * HEADER_ROOM)


class Element(NamedTuple):
    """One element header: what it is, where its payload starts and ends."""

    id: int
    """with its marker bits; 0 = no element starts here"""
    start: int
    end: int | None
    """None = unknown size"""


class Window:
    """Bytes around the walk's position.

    It grows while the walk goes on about where the last read ended, and falls back to a header's length when the walk
    jumps: small blocks cost few reads, large ones few bytes.
    """

    def __init__(self, read_at: ReadAt, size_bytes: int) -> None:
        self.read_at = read_at
        self.size_bytes = size_bytes
        self.data = _ZEROS
        self.start = -len(_ZEROS)
        self._reach = _MIN_READ

    def move(self, position: int) -> bytes:
        """The bytes from `position` on, at least HEADER_ROOM of them; zeros stand behind the end of the file."""
        gap = position - self.start - len(self.data)
        self._reach = min(2 * self._reach, _MAX_READ) if 0 <= gap + HEADER_ROOM <= self._reach else _MIN_READ
        left = max(self.size_bytes - position, 0)
        data = self.read_at(position, min(self._reach, left)) if left else b""
        self.data = data if len(data) == self._reach else data + _ZEROS
        self.start = position
        return self.data

    def element(self, position: int) -> Element:
        """The element header at `position`."""
        index = position - self.start
        data = self.data
        if index < 0 or index + HEADER_ROOM > len(data):
            data, index = self.move(position), 0
        return element_at(data, index, position - index)

    def lands_well(self, found: Element, known: Collection[int]) -> bool:
        """Whether one of the `known` elements, or the end of the file, stands behind an element that is doubtful."""
        if not found.id or found.end is None or found.end > self.size_bytes:
            return False
        return found.end == self.size_bytes or self.element(found.end).id in known


def next_id(window: Window, position: int, names: Collection[int]) -> int:
    """Where one of these four-byte ids stands next with a size behind it, or −1."""
    patterns = [name.to_bytes(4, "big") for name in names]
    for start in range(position, window.size_bytes, _MAX_READ):
        data = window.read_at(start, _MAX_READ + 3)
        found = min((at for at in map(data.find, patterns) if at >= 0), default=-1)
        if found >= 0:
            return start + found
    return -1


def element_at(data: bytes, index: int, base: int = 0) -> Element:
    """The element header at `data[index]`; its ends are counted from `base`. `data` goes on for 12 bytes."""
    id_length = VINT_LENGTH[data[index]]
    at = index + id_length
    length = VINT_LENGTH[data[at]] if id_length <= 4 else 9
    if length > 8:
        return Element(0, base + index, None)
    start = at + length
    value = int.from_bytes(data[at:start], "big") & VINT_MASK[length]
    end = None if value == VINT_MASK[length] else base + start + value
    return Element(int.from_bytes(data[index:at], "big"), base + start, end)


def children(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(id, payload) of the elements in a master's payload, up to the first that is damaged."""
    padded = data + _ZEROS
    position = 0
    while position < len(data):
        found = element_at(padded, position)
        if not found.id or found.end is None or found.end > len(data):
            return
        yield found.id, data[found.start : found.end]
        position = found.end


def flatten(data: bytes, masters: Collection[int], *, max_depth: int = 4) -> dict[int, bytes]:
    """Payload by id of all elements below a master, those inside `masters` included; the last of an id counts."""
    fields: dict[int, bytes] = {}
    for name, payload in children(data):
        fields[name] = payload
        if name in masters and max_depth:
            fields |= flatten(payload, masters, max_depth=max_depth - 1)
    return fields


def uint(payload: bytes | None, default: int = 0) -> int:
    """An unsigned integer element; absent, empty or longer than 8 octets = `default`."""
    return int.from_bytes(payload, "big") if payload and len(payload) <= 8 else default


def real(payload: bytes | None, default: float = 0.0) -> float:
    """A float element; absent, empty or of another length than 4 or 8 = `default`."""
    form = {4: ">f", 8: ">d"}.get(len(payload or b""))
    return float(struct.unpack(form, payload or b"")[0]) if form else default


def text(payload: bytes | None) -> str:
    """A string element, without the zeros that may fill it."""
    return (payload or b"").split(b"\0")[0].decode("utf-8", "replace")
