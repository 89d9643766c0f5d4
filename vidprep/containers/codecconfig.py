"""Stream facts from a codec's configuration (avcC, hvcC, vpcC, av1C, esds) or first sample. Bytes in, facts out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vidprep.containers import frame_config, nal_config
from vidprep.containers.nvdec_support import nvdec_class
from vidprep.containers.remembered import remembered

if TYPE_CHECKING:
    from collections.abc import Callable

    from vidprep.containers.config_fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecFacts:
    """The fields of StreamInfo that a codec configuration decides; None (or 0) = it does not say."""

    nal_length_size: int = 0
    width: int = 0
    """after the codec's own cropping"""
    height: int = 0
    coded_width: int = 0
    coded_height: int = 0
    sar: tuple[int, int] | None = None
    profile: str | None = None
    level: str | None = None
    pix_fmt: str | None = None
    bit_depth: int | None = None
    chroma: str | None = None
    interlaced: bool | None = None
    colour_matrix: str | None = None
    colour_range: str | None = None
    colour_primaries: str | None = None
    colour_transfer: str | None = None
    header_fps: float | None = None
    reorder_depth: int | None = None
    nvdec: str = "unknown"


def codec_facts(codec: str, codec_config: bytes, first_sample: bytes = b"") -> CodecFacts:
    """Facts from a codec's configuration.

    Args:
        codec: FFmpeg's name.
        codec_config: extradata as FFmpeg has it: avcC or Annex B, hvcC, av1C, vpcC body, esds' decoder-specific info.
        first_sample: bytes of the first sample, for streams whose configuration is in band; may be empty.

    Never raises for bad bytes: what cannot be read is left unsaid.
    """
    facts = _facts_of_config(codec, codec_config)
    if first_sample and not facts.coded_width:
        return _read(codec, codec_config, first_sample)
    return facts


@remembered(1024)
def _facts_of_config(codec: str, codec_config: bytes) -> CodecFacts:
    return _read(codec, codec_config, b"")


def _read(codec: str, config: bytes, sample: bytes) -> CodecFacts:
    reader = READERS.get(codec)
    fields = reader(config, sample) if reader else {}
    answer = nvdec_class(
        codec,
        fields.get("chroma"),
        fields.get("bit_depth"),
        fields.get("coded_width", 0),
        fields.get("coded_height", 0),
    )
    return CodecFacts(nvdec=answer, **fields)


READERS: dict[str, Callable[[bytes, bytes], Fields]] = {
    "h264": nal_config.h264_config,
    "hevc": nal_config.hevc_config,
    "vvc": nal_config.vvc_config,
    "vp8": frame_config.vp8_config,
    "vp9": frame_config.vp9_config,
    "av1": frame_config.av1_config,
    "mpeg4": frame_config.mpeg4_config,
    "mpeg1video": frame_config.mpeg12_config,
    "mpeg2video": frame_config.mpeg12_config,
    "h263": frame_config.h263_config,
    "mjpeg": frame_config.mjpeg_config,
}
