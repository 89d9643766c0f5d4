"""Small clips made with PyAV's encoders, and decoding of any choice of their packets. Nothing of it is under test."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
from scheduling import scheduling_kept

from vidprep.containers.codecconfig import codec_facts
from vidprep.records import StreamInfo


@dataclass(frozen=True)
class Packet:
    payload: bytes
    pts: int
    dts: int
    is_keyframe: bool


@dataclass(frozen=True)
class Clip:
    codec: str
    config: bytes
    packets: tuple[Packet, ...]
    size: tuple[int, int] = (0, 0)
    """as the container would say, for codecs whose samples do not"""

    @property
    def info(self) -> StreamInfo:
        facts = codec_facts(self.codec, self.config, self.packets[0].payload)
        return StreamInfo(
            container="mp4", codec=self.codec, codec_config=self.config, nal_length_size=facts.nal_length_size
        )


def picture(index: int, width: int, height: int) -> np.ndarray:
    """Noise that moves and changes: each frame differs from every other, and prediction pays."""
    noise = np.random.default_rng(5).integers(0, 255, (height * 2, width * 2, 3), dtype=np.uint8)
    shift = index * 3
    view = noise[shift % height : shift % height + height, shift % width : shift % width + width].copy()
    view[: height // 4, : width // 4] = (index * 37) % 255
    return view


@scheduling_kept()
def encode(
    encoder: str,
    *,
    frames: int = 40,
    size: tuple[int, int] = (160, 144),
    pix_fmt: str = "yuv420p",
    options: dict[str, str] | None = None,
    global_header: bool = True,
) -> Clip:
    context = av.CodecContext.create(encoder, "w")
    if encoder.startswith("libvpx"):
        context.thread_count = 1  # with threads it may hang on a busy machine
    context.width, context.height = size
    context.pix_fmt = pix_fmt
    context.time_base = Fraction(1, 25)
    context.framerate = Fraction(25)
    context.options = {"threads": "1"} | (options or {})
    if global_header:
        context.flags |= 1 << 22
    packets = []
    for index in range(frames):
        frame = av.VideoFrame.from_ndarray(picture(index, *size), format="rgb24").reformat(format=pix_fmt)
        frame.pts = index
        packets += context.encode(frame)
    packets += context.encode(None)
    return Clip(
        codec=context.codec.canonical_name,
        config=context.extradata or b"",
        packets=tuple(Packet(bytes(p), p.pts, p.dts, p.is_keyframe) for p in packets if p.size),
        size=size,
    )


def demuxed(path: str, limit: int = 1000) -> Clip:
    """The packets of a file's first video stream."""
    with av.open(path, metadata_errors="replace") as container:
        stream = container.streams.video[0]
        packets = []
        for packet in container.demux(stream):
            if packet.size:
                packets.append(Packet(bytes(packet), packet.pts or 0, packet.dts or 0, packet.is_keyframe))
            if len(packets) >= limit:
                break
        context = stream.codec_context
        return Clip(context.codec.canonical_name, context.extradata or b"", tuple(packets))


def decode(clip: Clip, keep: list[int] | None = None) -> dict[int, str]:
    """pts -> digest of the picture, for each frame that comes out of the packets in `keep`."""
    context = av.CodecContext.create({"av1": "libdav1d"}.get(clip.codec, clip.codec), "r")
    context.extradata = clip.config or None
    context.thread_count = 1
    context.width, context.height = clip.size
    shown: dict[int, str] = {}
    for row in range(len(clip.packets)) if keep is None else keep:
        packet = av.Packet(clip.packets[row].payload)
        packet.pts, packet.dts = clip.packets[row].pts, clip.packets[row].dts
        packet.time_base = Fraction(1, 25)
        shown |= _digests(context, packet)
    return shown | _digests(context, None)


def _digests(context: av.CodecContext, packet: av.Packet | None) -> dict[int, str]:
    try:
        frames = context.decode(packet)
    except av.error.InvalidDataError:
        return {}
    return {frame.pts: hashlib.md5(frame.to_ndarray().tobytes()).hexdigest() for frame in frames}
