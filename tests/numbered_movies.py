"""MP4 files of real encoded pictures with numbers drawn in them, whose tables can be given as they should not be."""

from __future__ import annotations

import io
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from struct import unpack
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from drawn import draw_number, drawn_number
from isobmff_files import Movie

from vidprep.loaders import read_frames

if TYPE_CHECKING:
    from pathlib import Path

ONE = 0x10000
STEP = 512
TIMESCALE = 12800
OPTIONS = {
    "libx264": {"preset": "veryfast", "x264-params": "keyint=12:min-keyint=12:scenecut=0:bframes=3:threads=1"},
    "libx265": {
        "preset": "ultrafast",
        "x265-params": "keyint=12:min-keyint=12:scenecut=0:bframes=3:pools=1:frame-threads=1:log-level=none",
    },
    "mpeg4": {},
    "libvpx-vp9": {"cpu-used": "5", "lag-in-frames": "10", "auto-alt-ref": "1"},
}


def options(encoder: str, **more: str) -> dict[str, str]:
    """The encoder's options with more of them in its own parameter list."""
    found = dict(OPTIONS[encoder])
    name = f"{encoder[3:]}-params"
    if name in found:
        found[name] += "".join(f":{key.replace('_', '-')}={value}" for key, value in more.items())
    return found


@dataclass(frozen=True, kw_only=True)
class Coded:
    """Coded pictures in decode order."""

    payloads: tuple[bytes, ...]
    keys: tuple[bool, ...]
    ranks: tuple[int, ...]
    """place of each in presentation order"""
    entry: bytes
    """the sample entry that the muxer wrote"""

    @property
    def delay(self) -> int:
        """Pictures that decoding must run ahead."""
        return max(row - rank for row, rank in enumerate(self.ranks))


def coded(encoder: str, *, frames: int = 37, first: int = 0, size: tuple[int, int] = (160, 144), **more: str) -> Coded:
    """Pictures numbered from `first`, a key every 12."""
    return _coded(encoder, frames, first, size, tuple(sorted(options(encoder, **more).items())))


@lru_cache(maxsize=64)
def _coded(
    encoder: str, frames: int, first: int, size: tuple[int, int], settings: tuple[tuple[str, str], ...]
) -> Coded:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream(encoder, rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        context = stream.codec_context
        context.thread_count, context.gop_size, context.options = 1, 12, dict(settings)
        context.max_b_frames = 2 if encoder == "mpeg4" else context.max_b_frames
        context.time_base = Fraction(1, 25)
        for index in range(frames):
            frame = av.VideoFrame.from_ndarray(draw_number(first + index, *size), format="rgb24")
            frame = frame.reformat(format="yuv420p")
            frame.pts, frame.time_base = index, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    data = file.getvalue()
    with av.open(io.BytesIO(data)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    order = sorted(range(len(packets)), key=lambda row: packets[row].pts)
    ranks = [0] * len(packets)
    for rank, row in enumerate(order):
        ranks[row] = rank
    start = data.index(b"stsd") - 4
    return Coded(
        payloads=tuple(map(bytes, packets)),
        keys=tuple(packet.is_keyframe for packet in packets),
        ranks=tuple(ranks),
        entry=data[start + 16 : start + unpack(">I", data[start : start + 4])[0]],
    )


def movie(*parts: Coded, **tables: Any) -> Movie:
    """One track with the parts one after the other, a sample entry for each; `tables` are fields of Movie instead.

    `edits` may be given in frames: (number of frames, first frame), which are turned into an edit list.
    """
    delay = max(part.delay for part in parts)
    counts = [len(part.payloads) for part in parts]
    payload = b"".join(b"".join(part.payloads) for part in parts)
    keys = [key for part in parts for key in part.keys]
    found: dict[str, Any] = {
        "sizes": [len(each) for part in parts for each in part.payloads],
        "timescale": TIMESCALE,
        "stts": [(sum(counts), STEP)],
        "ctts": [(1, (rank - row + delay) * STEP) for part in parts for row, rank in enumerate(part.ranks)],
        "stss": [number for number, key in enumerate(keys, 1) if key],
        "entries": [part.entry for part in parts],
        "stsc": [(number, count, number) for number, count in enumerate(counts, 1)],
        "edits": [(sum(counts), 0)],
    }
    found.update(tables)
    found["edits"] = [
        edit if len(edit) == 3 else (edit[0] * 40, (delay + edit[1]) * STEP, ONE) for edit in found["edits"] or ()
    ]
    made = Movie(**found)
    made.payload = lambda: payload
    return made


def numbers(path: Path, frames: list[int], **how: Any) -> list[int]:
    """The numbers in some frames, decoded on the CPU."""
    return [drawn_number(picture) for picture in read_frames(str(path), frames, engine="cpu", **how)]


def frame_ticks(count: int) -> list[int]:
    """Times of the first frames of a movie."""
    return np.arange(0, count * STEP, STEP).tolist()
