"""A small Matroska writer for files that no muxer makes: odd lacings, unknown sizes, damage."""

from __future__ import annotations

import itertools
import struct

UNKNOWN_8 = b"\x01" + b"\xff" * 7
UNKNOWN_1 = b"\xff"


def vint(value: int, length: int = 4) -> bytes:
    return (value | 1 << 7 * length).to_bytes(length, "big")


def element(name: int, payload: bytes, size: bytes | None = None) -> bytes:
    head = name.to_bytes((name.bit_length() + 7) // 8, "big")
    return head + (vint(len(payload)) if size is None else size) + payload


def uint(name: int, value: int) -> bytes:
    return element(name, value.to_bytes(max((value.bit_length() + 7) // 8, 1), "big"))


def real(name: int, value: float) -> bytes:
    return element(name, struct.pack(">d", value))


EBML_HEAD = element(0x1A45DFA3, element(0x4282, b"matroska") + uint(0x4287, 4) + uint(0x4285, 2))


def track(codec: bytes = b"V_MJPEG", *, number: int = 1, kind: int = 1, more: bytes = b"", video: bytes = b"") -> bytes:
    size = uint(0xB0, 160) + uint(0xBA, 144)
    picture = element(0xE0, size + video) if kind == 1 else element(0xE1, real(0xB5, 48000.0))
    entry = uint(0xD7, number) + uint(0x73C5, number) + uint(0x83, kind) + element(0x86, codec) + more + picture
    return element(0xAE, entry)


def header(*tracks: bytes, scale: int = 1_000_000) -> bytes:
    return element(0x1549A966, uint(0x2AD7B1, scale)) + element(0x1654AE6B, b"".join(tracks or (track(),)))


def block_body(payload: bytes, relative: int, *, number: int = 1, flags: int = 0x80) -> bytes:
    return vint(number, 1) + struct.pack(">hB", relative, flags) + payload


def simple(payload: bytes, relative: int, *, number: int = 1, flags: int = 0x80) -> bytes:
    return element(0xA3, block_body(payload, relative, number=number, flags=flags))


def group(payload: bytes, relative: int, *, duration: int | None = None, reference: bool = False) -> bytes:
    parts = element(0xA1, block_body(payload, relative, flags=0))
    parts += b"" if duration is None else uint(0x9B, duration)
    return element(0xA0, parts + (element(0xFB, b"\xd8") if reference else b""))


def cluster(time: int, *blocks: bytes, size: bytes | None = None) -> bytes:
    return element(0x1F43B675, uint(0xE7, time) + b"".join(blocks), size)


def segment(*children: bytes, size: bytes | None = None) -> bytes:
    return EBML_HEAD + element(0x18538067, b"".join(children), size)


def laced(frames: list[bytes], kind: int) -> bytes:
    """Lace header and frames: 1 Xiph, 2 fixed, 3 EBML."""
    sizes = [len(frame) for frame in frames]
    count = bytes([len(frames) - 1])
    if kind == 1:
        head = b"".join(b"\xff" * (size // 255) + bytes([size % 255]) for size in sizes[:-1])
    elif kind == 3:
        steps = [after - before for before, after in itertools.pairwise(sizes[:-1])]
        first = [vint(sizes[0], 2)] if len(sizes) > 1 else []
        head = b"".join(first + [vint(step + (1 << 13) - 1, 2) for step in steps])
    else:
        head = b""
    return count + head + b"".join(frames)
