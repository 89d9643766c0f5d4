"""Laced blocks: several frames in one block (RFC 9559 section 10.3). Bytes in, frame sizes out."""

from __future__ import annotations

from vidprep.containers.matroska.ebml import VINT_LENGTH, VINT_MASK

XIPH, FIXED, EBML = 1, 2, 3


def max_header_bytes(block_bytes: int) -> int:
    """Most bytes that the lace header of a block of this size can take."""
    return min(block_bytes, 1 + 8 * 255 + block_bytes // 255)


def lace_sizes(kind: int, data: bytes, block_bytes: int) -> tuple[int, list[int]] | None:
    """Length of the lace header and the size of each frame; None = they do not fit into the block.

    Args:
        kind: XIPH, FIXED or EBML.
        data: the first `max_header_bytes(block_bytes)` bytes after the block header.
        block_bytes: how many bytes the block has after its header.
    """
    if not data:
        return None
    count = data[0] + 1
    try:
        position, sizes = _READERS[kind](data, count, block_bytes)
    except IndexError:
        return None
    rest = block_bytes - position - sum(sizes)
    if kind != FIXED:
        sizes.append(rest)
    fits = rest == 0 if kind == FIXED else rest >= 0
    return (position, sizes) if fits and min(sizes) >= 0 else None


def _xiph(data: bytes, count: int, _block_bytes: int) -> tuple[int, list[int]]:
    """All sizes but the last, each a sum of octets that ends with one below 255."""
    position, sizes = 1, []
    for _ in range(count - 1):
        size = 0
        while data[position] == 255:
            size += 255
            position += 1
        sizes.append(size + data[position])
        position += 1
    return position, sizes


def _fixed(_data: bytes, count: int, block_bytes: int) -> tuple[int, list[int]]:
    if block_bytes <= count:
        raise IndexError
    return 1, [(block_bytes - 1) // count] * count


def _ebml(data: bytes, count: int, _block_bytes: int) -> tuple[int, list[int]]:
    """All sizes but the last: the first as it is, the others as signed differences to the one before."""
    position = 1
    sizes: list[int] = []
    for index in range(count - 1):
        length = VINT_LENGTH[data[position]]
        if length > 8 or position + length > len(data):
            raise IndexError
        value = int.from_bytes(data[position : position + length], "big") & VINT_MASK[length]
        sizes.append(value if index == 0 else sizes[-1] + value - (VINT_MASK[length] >> 1))
        position += length
    return position, sizes


_READERS = {XIPH: _xiph, FIXED: _fixed, EBML: _ebml}
