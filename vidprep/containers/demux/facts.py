"""Stream facts from FFmpeg's view of a stream."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vidprep.containers.codecconfig import codec_facts
from vidprep.containers.colours import MATRIX, PRIMARIES, TRANSFER
from vidprep.records import StreamInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vidprep.containers.demux.pictures import PictureOrder

#: FFmpeg's demuxer → our short name, where they differ.
_NAMES = {"mpeg": "mpegps", "yuv4mpegpipe": "y4m"}
#: AVColorRange
_RANGE = {1: "limited", 2: "full"}
#: Pixel formats whose name, not a flag, says full range.
_FULL_RANGE_PREFIX = "yuvj"


def container_name(container: Any) -> str:
    """Short name of the container."""
    name = str(container.format.name).split(",")[0]
    return _NAMES.get(name, name)


def frame_rate(stream: Any) -> Fraction | None:
    """The rate that frames without times are given: the stream's average, its base rate, or the codec's own."""
    for rate in (stream.average_rate, stream.guessed_rate, stream.base_rate, stream.codec_context.framerate):
        if rate and 0 < rate < 10_000:
            return Fraction(rate)
    return None


def stream_info(
    container: Any, stream: Any, *, first_sample: bytes, last_duration: int, pictures: PictureOrder
) -> StreamInfo:
    """Facts of a stream that has been demuxed (and decoded, where it was)."""
    context = stream.codec_context
    codec = context.codec.canonical_name
    config = context.extradata or b""
    facts = codec_facts(codec, config, first_sample)
    width, height = (pictures.size[0] or facts.width, pictures.size[1] or facts.height)
    rotation = pictures.rotation
    ratio = stream.sample_aspect_ratio or context.sample_aspect_ratio
    sar = Fraction(ratio) if ratio else Fraction(*(facts.sar or (1, 1)))
    shown = (round(width * sar), height)
    rate = stream.average_rate or stream.guessed_rate
    others = [other for other in container.streams.video if other is not stream]
    audios = container.streams.audio
    return StreamInfo(
        container=container_name(container),
        codec=codec,
        codec_tag=_tag(context.codec_tag),
        codec_config=config,
        nal_length_size=facts.nal_length_size,
        stream_index=stream.index,
        track_id=stream.id,
        width=width,
        height=height,
        coded_width=facts.coded_width or context.coded_width or width,
        coded_height=facts.coded_height or context.coded_height or height,
        display_width=shown[rotation % 180 == 90],
        display_height=shown[rotation % 180 != 90],
        sar=(sar.numerator, sar.denominator),
        rotation=rotation,
        profile=facts.profile or context.profile,
        level=facts.level,
        pix_fmt=context.pix_fmt or facts.pix_fmt,
        bit_depth=facts.bit_depth or _bit_depth(context),
        chroma=facts.chroma or _chroma(context),
        interlaced=facts.interlaced,
        **_colours(context, facts),
        time_base=Fraction(stream.time_base or 1),
        last_duration_ticks=last_duration,
        header_num_frames=stream.frames or None,
        header_fps=float(rate) if rate else facts.header_fps,
        reorder_depth=facts.reorder_depth if facts.reorder_depth is not None or context.has_b_frames else 0,
        nvdec=facts.nvdec,
        has_audio=bool(audios),
        audio_duration_seconds=_seconds(audios[0]) if audios else None,
        other_streams=tuple(_phrase(other) for other in others),
    )


def _colours(context: Any, facts: Any) -> Mapping[str, Any]:
    full = (context.pix_fmt or "").startswith(_FULL_RANGE_PREFIX)
    return {
        "colour_matrix": facts.colour_matrix or MATRIX.get(int(context.colorspace)),
        "colour_range": facts.colour_range or ("full" if full else _RANGE.get(int(context.color_range))),
        "colour_primaries": facts.colour_primaries or PRIMARIES.get(int(context.color_primaries)),
        "colour_transfer": facts.colour_transfer or TRANSFER.get(int(context.color_trc)),
    }


def _tag(tag: str) -> str:
    """A fourcc; numbers (MPEG-TS stream types) and zeros are none."""
    return tag if tag.isprintable() and "[" not in tag else ""


def _bit_depth(context: Any) -> int | None:
    components = context.format.components if context.format else ()
    return max((component.bits for component in components), default=None)


def _chroma(context: Any) -> str | None:
    shape = context.format
    if not shape or not shape.components:
        return None
    if shape.is_rgb or shape.has_palette:
        return "rgb"
    if len(shape.components) < 3:
        return "4:0:0"
    across, down = shape.chroma_width(64), shape.chroma_height(64)
    return {(64, 64): "4:4:4", (32, 64): "4:2:2", (32, 32): "4:2:0", (16, 64): "4:1:1"}.get((across, down))


def _seconds(stream: Any) -> float | None:
    return float(stream.duration * stream.time_base) if stream.duration and stream.time_base else None


def _phrase(stream: Any) -> str:
    context = stream.codec_context
    codec = context.codec.canonical_name if context else "unknown codec"
    size = f" {context.width}x{context.height}" if context else ""
    return f"stream {stream.index}: {codec}{size}"
