"""Reading bits of codec headers. Never reads past the end: `OutOfBitsError`, which callers turn into "unknown"."""

from __future__ import annotations

#: Headers of interest are far shorter; more bytes would only make the integers of a hostile input slow.
MAX_HEADER_BYTES = 4096


class OutOfBitsError(Exception):
    """The header ends before its fields do, or holds a value that no conforming stream can hold."""


class BitReader:
    """Most significant bit first, over at most `MAX_HEADER_BYTES` of `data`."""

    __slots__ = ("_left", "_value")

    def __init__(self, data: bytes) -> None:
        if len(data) > MAX_HEADER_BYTES:
            data = data[:MAX_HEADER_BYTES]
        self._value = int.from_bytes(data, "big")
        self._left = len(data) * 8

    @property
    def left(self) -> int:
        """Bits not yet read."""
        return self._left

    def u(self, count: int) -> int:
        """Unsigned integer of `count` bits."""
        left = self._left - count
        if left < 0:
            raise OutOfBitsError
        self._left = left
        return (self._value >> left) & ((1 << count) - 1)

    def flag(self) -> int:
        """One bit."""
        left = self._left - 1
        if left < 0:
            raise OutOfBitsError
        self._left = left
        return (self._value >> left) & 1

    def skip(self, count: int) -> None:
        """Pass over `count` bits."""
        left = self._left - count
        if left < 0:
            raise OutOfBitsError
        self._left = left

    def align(self) -> None:
        """Go to the next whole byte."""
        self._left &= ~7

    def ue(self) -> int:
        """Unsigned Exp-Golomb code (ITU-T H.264 clause 9.1); at most 32 leading zeros."""
        left = self._left
        rest = self._value & ((1 << left) - 1)
        ones = rest.bit_length()
        zeros = left - ones
        end = ones - 1 - zeros
        if zeros > 32 or end < 0:
            raise OutOfBitsError
        self._left = end
        return (rest >> end) - 1

    def se(self) -> int:
        """Signed Exp-Golomb code (clause 9.1.1)."""
        code = self.ue()
        return (code + 1) >> 1 if code & 1 else -(code >> 1)

    def bounded_ue(self, limit: int) -> int:
        """`ue()` that may not exceed `limit`: guards every count that a loop runs to."""
        value = self.ue()
        if value > limit:
            raise OutOfBitsError
        return value


def rbsp(nal_unit: bytes) -> bytes:
    """A NAL unit without its emulation prevention bytes (ITU-T H.264 clause 7.3.1), cut to header length."""
    nal_unit = nal_unit[:MAX_HEADER_BYTES]
    if b"\0\0\3" not in nal_unit:
        return nal_unit
    return nal_unit.replace(b"\0\0\3", b"\0\0")
