"""Stream facts from a codec's configuration (avcC, hvcC, vpcC, av1C, esds) or first sample. Bytes in, facts out."""

from __future__ import annotations

from dataclasses import dataclass


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
    del codec, codec_config, first_sample
    return CodecFacts()
