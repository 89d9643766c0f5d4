"""Small videos made on the spot by PyAV's encoders."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from scheduling import scheduling_kept

from vidprep.loaders.cut import Cut, open_indexed, read_cut
from vidprep.loaders.frames import as_video

if TYPE_CHECKING:
    from pathlib import Path


def cut_of(path: Path, frames: Any = None) -> Cut:
    """The cut of these frames, or of all."""
    video = as_video(path)
    frames = np.arange(video.table.num_frames) if frames is None else np.asarray(frames)
    with open_indexed(video) as source:
        return read_cut(video, source, frames)


def picture(number: int, height: int, width: int) -> np.ndarray:
    """RGB (H, W, 3): moving gradients and a little noise, other for every number."""
    y, x = np.mgrid[0:height, 0:width]
    base = np.stack(((x * 2 + number * 3) % 256, (y * 3 + number * 5) % 256, (x + y + number * 7) % 256), axis=-1)
    noise = np.random.default_rng(number).integers(-12, 12, base.shape)
    return np.clip(base + noise, 0, 255).astype(np.uint8)


@scheduling_kept()
def make_video(
    path: Path,
    *,
    codec: str = "libx264",
    frames: int = 60,
    size: tuple[int, int] = (96, 128),
    fps: int = 30,
    gop: int = 12,
    options: dict[str, str] | None = None,
    pix_fmt: str = "yuv420p",
) -> Path:
    """A video of `frames` pictures of (height, width) `size`, a key frame every `gop`."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=fps, options=options or {})
        stream.codec_context.thread_count = 1  # libvpx with threads may hang on a busy machine
        stream.height, stream.width = size
        stream.pix_fmt, stream.gop_size, stream.time_base = pix_fmt, gop, Fraction(1, fps)
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(picture(number, *size), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


X264 = {"preset": "veryfast", "bf": "3", "b-pyramid": "normal", "sc_threshold": "0", "refs": "2"}


def make_paired_vp9(folder: Path) -> tuple[Path, Path]:
    """24 frames of VP9, and the same two by two in superframes that show both."""
    options = {"auto-alt-ref": "0", "lag-in-frames": "0", "cpu-used": "8", "deadline": "realtime"}
    single = make_video(folder / "single.webm", codec="libvpx-vp9", frames=24, gop=8, options=options)
    paired = folder / "paired.webm"
    with av.open(str(single)) as source, av.open(str(paired), "w") as out:
        stream = source.streams.video[0]
        packets = [packet for packet in source.demux(stream) if packet.size]
        copy = out.add_stream_from_template(stream)
        for first, second in zip(packets[::2], packets[1::2], strict=True):
            packet = av.Packet(_superframe([bytes(first), bytes(second)]))
            packet.stream, packet.time_base, packet.is_keyframe = copy, stream.time_base, first.is_keyframe
            packet.pts = packet.dts = first.pts
            out.mux(packet)
    return single, paired


def _superframe(frames: list[bytes]) -> bytes:
    """VP9 frames in one sample ("VP9 Bitstream & Decoding Process Specification", annex B), lengths of four bytes."""
    marker = bytes((0xC0 | 3 << 3 | len(frames) - 1,))
    return b"".join((*frames, marker, *(len(frame).to_bytes(4, "little") for frame in frames), marker))
