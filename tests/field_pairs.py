"""H.264 of frames and field pairs, written bit by bit: no encoder at hand codes fields. 32x32, I_PCM and P_Skip."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

import av

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MACROBLOCKS = 4  # of a frame
GOP = 8


def u(size: int, number: int) -> str:
    return f"{number:0{size}b}"


def ue(number: int) -> str:
    """An Exp-Golomb code (ITU-T H.264, 9.1)."""
    bits = f"{number + 1:b}"
    return "0" * (len(bits) - 1) + bits


def unit(header: int, bits: str) -> bytes:
    bits += "1"
    bits += "0" * (-len(bits) % 8)
    out = bytearray()
    for byte in int(bits, 2).to_bytes(len(bits) // 8, "big"):
        if out[-2:] == b"\0\0" and byte <= 3:
            out.append(3)
        out.append(byte)
    return b"\0\0\0\1" + bytes((header,)) + bytes(out)


#: Main profile, frame_num of 4 bits, POC type 0 of 8 bits, 3 references, fields allowed, no reordering (VUI).
SPS = unit(
    0x67,
    u(24, 77 << 16 | 30) + ue(0) + ue(0) + ue(0) + ue(4) + ue(3) + "0" + ue(1) + ue(0) + "0" + "0" + "1" + "0" + "1"
    + "0" * 8 + "1" + "1" + ue(0) * 2 + ue(10) * 2 + ue(0) + ue(3),
)  # fmt: skip
PPS = unit(0x68, ue(0) * 2 + "00" + ue(0) * 3 + "0" + "00" + ue(0) * 3 + "1" + "00")


def picture(number: int, *, frame_num: int, order: int, is_reference: bool, field: int | None) -> bytes:
    """A slice of I_PCM where frame_num is 0 and it is no second field (an IDR picture), else one such and P_Skip."""
    is_idr = frame_num == order == 0 and not field
    macroblocks = MACROBLOCKS if field is None else MACROBLOCKS // 2
    bits = ue(0) + ue(7 if is_idr else 5) + ue(0) + u(4, frame_num)
    bits += "0" if field is None else f"1{field}"
    bits += ue(number % 2) if is_idr else ""
    bits += u(8, order)
    bits += "" if is_idr else "1" + ue(0) + "0"
    bits += "00" if is_idr else "0" * is_reference
    bits += ue(0) + ue(1)
    generator = random.Random(number)
    for _ in range(macroblocks if is_idr else 1):
        bits += ue(25) if is_idr else ue(0) + ue(30)
        bits += "0" * (-len(bits) % 8)
        base = generator.randrange(30, 200)
        bits += "".join(u(8, base + generator.randrange(20)) for _ in range(384))
    bits += "" if is_idr else ue(macroblocks - 1)
    return unit((0x60 if is_reference else 0) | (5 if is_idr else 1), bits)


def samples_of(frames: int, seed: int, *, apart: bool) -> list[bytes]:
    """Frames and field pairs in turn at random, some of them of no reference; the fields in samples apart, or not."""
    generator, samples, frame_num = random.Random(seed), [], 0
    for number in range(frames):
        order = number % GOP
        frame_num = frame_num if order else 0
        is_reference = order == 0 or generator.random() < 0.7
        fields: Sequence[int | None] = (0, 1) if generator.random() < 0.6 else (None,)
        coded = [
            picture(2 * number + bool(field), frame_num=frame_num, order=2 * order + bool(field),
                    is_reference=is_reference, field=field)
            for field in fields
        ]  # fmt: skip
        coded[0] = (SPS + PPS if order == 0 else b"") + coded[0]
        samples += coded if apart else [b"".join(coded)]
        frame_num = (frame_num + is_reference) % 16
    return samples


def write(path: Path, samples: Sequence[bytes]) -> Path:
    """A file of these samples, each with a time of its own."""
    with (
        av.open(io.BytesIO(b"".join(samples)), format="h264") as raw,
        av.open(str(path), "w") as output,
    ):
        stream = output.add_stream_from_template(raw.streams.video[0])
        for number, sample in enumerate(samples):
            packet = av.Packet(sample)
            packet.stream, packet.time_base = stream, 1 / raw.streams.video[0].average_rate
            packet.pts, packet.dts, packet.duration = number, number, 1
            packet.is_keyframe = sample.startswith(SPS)
            output.mux(packet)
    return path
