"""Stream facts from a codec's configuration (avcC, hvcC, vpcC, av1C, esds) or first sample. Bytes in, facts out."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from vidprep.containers import colours
from vidprep.containers.av1_headers import Av1Sequence, av1_sequence_in
from vidprep.containers.bits import BitReader, OutOfBitsError
from vidprep.containers.mpeg_headers import JpegFrame, h263_size, jpeg_frame_in, mpeg4_layer_in, mpeg_sequence_in
from vidprep.containers.nal_units import (
    MAX_PARAMETER_SETS,
    annex_b_units,
    avcc_units,
    hvcc_units,
    is_annex_b,
    nal_units,
)
from vidprep.containers.nvdec_support import nvdec_class
from vidprep.containers.parameter_sets import H264Sps, HevcSps, hevc_vps_frame_rate, parse_h264_sps, parse_hevc_sps
from vidprep.containers.vpx_headers import VP9_MATRIX, Vp9Header, parse_vp8, parse_vp9, vp9_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Parsed = TypeVar("Parsed")

#: Arguments of CodecFacts that a reader found.
Fields = dict[str, Any]

CHROMA: tuple[str, ...] = ("4:0:0", "4:2:0", "4:2:2", "4:4:4")
"""by chroma_format_idc"""

H264_PROFILES: dict[int, str] = {
    44: "CAVLC 4:4:4", 66: "Baseline", 77: "Main", 88: "Extended", 100: "High", 110: "High 10", 118: "Multiview High",
    122: "High 4:2:2", 128: "Stereo High", 144: "High 4:4:4", 244: "High 4:4:4 Predictive",
}  # fmt: skip
H264_INTRA_PROFILES: dict[int, str] = {110: "High 10 Intra", 122: "High 4:2:2 Intra", 244: "High 4:4:4 Intra"}
HEVC_PROFILES: dict[int, str] = {
    1: "Main", 2: "Main 10", 3: "Main Still Picture", 4: "Rext", 6: "Multiview Main", 9: "Scc",
}  # fmt: skip
VVC_PROFILES: dict[int, str] = {1: "Main 10", 33: "Main 10 4:4:4"}
AV1_PROFILES: tuple[str, ...] = ("Main", "High", "Professional")
MPEG2_PROFILES: tuple[str, ...] = ("4:2:2", "High", "Spatially Scalable", "SNR Scalable", "Main", "Simple")
MPEG2_LEVELS: dict[int, str] = {4: "High", 6: "High 1440", 8: "Main", 10: "Low"}
MPEG4_PROFILES: dict[int, str] = {
    0: "Simple Profile", 1: "Simple Scalable Profile", 2: "Core Profile", 3: "Main Profile", 4: "N-bit Profile",
    5: "Scalable Texture Profile", 6: "Simple Face Animation Profile", 7: "Basic Animated Texture Profile",
    8: "Hybrid Profile", 9: "Advanced Real Time Simple Profile", 10: "Core Scalable Profile",
    11: "Advanced Coding Profile", 12: "Advanced Core Profile", 13: "Advanced Scalable Texture Profile",
    14: "Simple Studio Profile", 15: "Advanced Simple Profile",
}  # fmt: skip
JPEG_PROFILES: dict[int, str] = {0xC0: "Baseline", 0xC1: "Sequential DCT", 0xC2: "Progressive", 0xC3: "Lossless"}

#: horizontal and vertical factor of luma over chroma -> chroma.
SUBSAMPLING: dict[tuple[int, int], str] = {(1, 1): "4:4:4", (2, 1): "4:2:2", (2, 2): "4:2:0", (1, 2): "4:4:0"}


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


@lru_cache(maxsize=1024)
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


def _pix_fmt(chroma: str, depth: int, *, rgb: bool = False, full_range: bool = False) -> str:
    """FFmpeg's name of a planar format; its `yuvj` names are 8-bit full range."""
    deep = "" if depth == 8 else f"{depth}le"
    if chroma == "4:0:0":
        return "gray" + deep
    if rgb and chroma == "4:4:4":
        return "gbrp" + deep
    return f"yuv{'j' if full_range and depth == 8 else ''}{chroma.replace(':', '')}p{deep}"


def _size(width: int, height: int) -> Fields:
    """The size of a codec that has no cropping of its own."""
    return {"width": width, "height": height, "coded_width": width, "coded_height": height}


def _colour(primaries: int, transfer: int, matrix: int, full_range: int | None) -> Fields:
    return {
        "colour_primaries": colours.PRIMARIES.get(primaries),
        "colour_transfer": colours.TRANSFER.get(transfer),
        "colour_matrix": colours.MATRIX.get(matrix),
        "colour_range": None if full_range is None else colours.RANGE[full_range],
    }


def _first(parse: Callable[[bytes], Parsed], units: Iterable[bytes]) -> Parsed | None:
    """The first unit that can be read."""
    for unit in islice(units, MAX_PARAMETER_SETS):
        with suppress(OutOfBitsError):
            return parse(unit)
    return None


def _level(tenths: int) -> str:
    return f"{tenths // 10}.{tenths % 10}"


def _h264(config: bytes, sample: bytes) -> Fields:
    """The avcC (ISO/IEC 14496-15, 5.3.3) or Annex B, then an SPS of the sample."""
    annex_b = is_annex_b(config) or config[:1] != b"\1" or len(config) < 7
    length_size = 0 if annex_b else (config[4] & 3) + 1
    units = annex_b_units(config) if annex_b else avcc_units(config)
    sps = _first_h264_sps(units) or (_first_h264_sps(nal_units(sample, length_size)) if sample else None)
    return {"nal_length_size": length_size} | ({} if sps is None else _h264_fields(sps))


def _first_h264_sps(units: Iterable[bytes]) -> H264Sps | None:
    for unit in islice(units, MAX_PARAMETER_SETS):
        if unit[0] & 31 == 7:
            with suppress(OutOfBitsError):
                return parse_h264_sps(unit)
    return None


def _h264_fields(sps: H264Sps) -> Fields:
    vui = sps.vui
    chroma = "4:0:0" if sps.separate_planes else CHROMA[sps.chroma_format_idc]
    return {
        "width": sps.width,
        "height": sps.height,
        "coded_width": sps.coded_width,
        "coded_height": sps.coded_height,
        "profile": _h264_profile(sps.profile_idc, sps.constraints),
        "level": _h264_level(sps),
        "pix_fmt": _h264_pix_fmt(sps),
        "bit_depth": sps.bit_depth,
        "chroma": chroma,
        "interlaced": not sps.frame_mbs_only,
        "reorder_depth": sps.reorder_depth,
        "sar": vui.sar,
        "header_fps": vui.fps,
    } | _colour(vui.primaries, vui.transfer, vui.matrix, vui.full_range)


def _h264_pix_fmt(sps: H264Sps) -> str:
    """FFmpeg gives monochrome out as 4:2:0."""
    return _pix_fmt(
        CHROMA[sps.chroma_format_idc or 1], sps.bit_depth, rgb=sps.vui.matrix == 0, full_range=sps.vui.full_range == 1
    )


def _h264_profile(profile_idc: int, constraints: int) -> str | None:
    """As FFmpeg names it: constraint_set1 makes Baseline constrained, constraint_set3 makes High intra-only."""
    if profile_idc == 66 and constraints & 0x40:
        return "Constrained Baseline"
    if constraints & 0x10 and profile_idc in H264_INTRA_PROFILES:
        return H264_INTRA_PROFILES[profile_idc]
    return H264_PROFILES.get(profile_idc)


def _h264_level(sps: H264Sps) -> str:
    level_1b = sps.level_idc == 9 or (
        sps.level_idc == 11 and sps.constraints & 0x10 and sps.profile_idc in (66, 77, 88)
    )
    return "1b" if level_1b else _level(sps.level_idc)


def _hevc(config: bytes, sample: bytes) -> Fields:
    """The hvcC (ISO/IEC 14496-15, 8.3.3) or Annex B, then an SPS of the sample."""
    annex_b = is_annex_b(config) or len(config) < 23
    length_size = 0 if annex_b else (config[21] & 3) + 1
    units = list(chain(annex_b_units(config) if annex_b else hvcc_units(config), nal_units(sample, length_size)))
    sps = _first(parse_hevc_sps, (unit for unit in units if _hevc_base_layer(unit, 33)))
    if sps is None:
        return {"nal_length_size": length_size}
    fields: Fields = {"nal_length_size": length_size} | _hevc_fields(sps)
    if sps.vui.fps is None:
        fields["header_fps"] = _first(hevc_vps_frame_rate, (unit for unit in units if _hevc_base_layer(unit, 32)))
    return fields


def _hevc_base_layer(unit: bytes, kind: int) -> bool:
    return len(unit) > 2 and unit[0] >> 1 & 63 == kind and not unit[0] & 1 and unit[1] < 8


def _hevc_fields(sps: HevcSps) -> Fields:
    vui, chroma = sps.vui, CHROMA[sps.chroma_format_idc]
    full_range = vui.full_range == 1 and chroma == "4:2:0"  # FFmpeg has "j" names for HEVC in 4:2:0 only
    return {
        "width": sps.width,
        "height": sps.height,
        "coded_width": sps.coded_width,
        "coded_height": sps.coded_height,
        "profile": HEVC_PROFILES.get(sps.profile_idc),
        "level": f"{sps.level_idc // 30}.{sps.level_idc % 30 // 3}",
        "pix_fmt": _pix_fmt(chroma, sps.bit_depth, rgb=vui.matrix == 0, full_range=full_range),
        "bit_depth": sps.bit_depth,
        "chroma": chroma,
        "interlaced": bool(vui.field_seq or sps.interlaced_source),
        "reorder_depth": sps.reorder_depth,
        "sar": vui.sar,
        "header_fps": vui.fps,
    } | _colour(vui.primaries, vui.transfer, vui.matrix, vui.full_range)


def _vvc(config: bytes, sample: bytes) -> Fields:
    """The vvcC (ISO/IEC 14496-15, 11.2.4.2), with or without its version and flags; in-band sets are not read."""
    del sample
    if not config or is_annex_b(config):
        return {}
    bits = BitReader(config[4:] if config[0] == 0 else config)
    fields: Fields = {}
    with suppress(OutOfBitsError):
        bits.skip(5)
        fields["nal_length_size"] = bits.u(2) + 1
        if bits.flag():
            fields |= _vvc_profile_record(bits)
    return fields


def _vvc_profile_record(bits: BitReader) -> Fields:
    bits.skip(9)
    sub_layers = bits.u(3)
    bits.skip(2)
    chroma, depth = CHROMA[bits.u(2)], bits.u(3) + 8
    bits.skip(5 + 2)
    constraint_bytes = bits.u(6)
    profile = bits.u(7)
    bits.skip(1)
    level = bits.u(8)
    bits.skip(8 * constraint_bytes)  # ptl_frame_only_constraint and ptl_multilayer_enabled are counted in
    present = sum(bits.flag() for _ in range(sub_layers - 1))
    bits.align()
    bits.skip(8 * present)
    bits.skip(32 * bits.u(8))
    return {
        "profile": VVC_PROFILES.get(profile),
        "level": f"{level // 16}.{level % 16 // 3}",
        "chroma": chroma,
        "bit_depth": depth,
        "pix_fmt": _pix_fmt(chroma, depth),
        "coded_width": bits.u(16),
        "coded_height": bits.u(16),
    }


def _vp8(config: bytes, sample: bytes) -> Fields:
    """A key frame's header; VP8 is 8-bit 4:2:0, BT.601, limited range (RFC 6386 section 9.2)."""
    del config
    fields: Fields = {"bit_depth": 8, "chroma": "4:2:0", "pix_fmt": "yuv420p", "interlaced": False, "reorder_depth": 0}
    with suppress(OutOfBitsError):
        header = parse_vp8(sample)
        fields["profile"] = str(header.version)
        fields |= _size(header.width, header.height)
    return fields


def _vp9(config: bytes, sample: bytes) -> Fields:
    """The vpcC (version 1, with or without its first four bytes) or WebM's CodecPrivate, then a key frame's header."""
    fields: Fields = {"interlaced": False, "reorder_depth": 0} | _vp9_config(config)
    with suppress(OutOfBitsError):
        headers = [parse_vp9(frame) for frame in vp9_frames(sample)[:8]]
        fields |= next((_vp9_fields(header) for header in headers if header.width), {})
    return fields


def _vp9_fields(header: Vp9Header) -> Fields:
    chroma = _subsampled(*header.subsampling)
    rgb = header.color_space == 7
    fields = {
        "profile": f"Profile {header.profile}",
        "bit_depth": header.bit_depth,
        "chroma": "rgb" if rgb else chroma,
        "pix_fmt": _pix_fmt(chroma, header.bit_depth, rgb=rgb),
        "colour_range": colours.RANGE[header.full_range],
    }
    matrix = colours.MATRIX.get(VP9_MATRIX.get(header.color_space, 2))
    return fields | ({"colour_matrix": matrix} if matrix else {}) | _size(header.width, header.height)


def _vp9_config(config: bytes) -> Fields:
    """vpcC: "VP Codec ISO Media File Format Binding"; WebM's CodecPrivate: (id, length, value) features."""
    if len(config) >= 3 and config[0] in (1, 2, 3, 4) and config[1] == 1:
        return _webm_features(config)
    body = config[4:] if config[:4] == b"\1\0\0\0" else config
    if len(body) < 6:
        return {}
    chroma = {0: "4:2:0", 1: "4:2:0", 2: "4:2:2", 3: "4:4:4"}.get(body[2] >> 1 & 7)
    depth, rgb = body[2] >> 4, body[5] == 0
    if chroma is None or depth not in (8, 10, 12):
        return {}
    return {
        "profile": f"Profile {body[0]}",
        "level": _level(body[1]) if body[1] else None,
        "bit_depth": depth,
        "chroma": "rgb" if rgb else chroma,
        "pix_fmt": _pix_fmt(chroma, depth, rgb=rgb),
    } | _colour(body[3], body[4], body[5], body[2] & 1)


def _webm_features(config: bytes) -> Fields:
    features: dict[int, int] = {}
    for at in range(0, len(config) - 2, 3):
        if config[at + 1] == 1:
            features[config[at]] = config[at + 2]
    fields: Fields = {}
    if 1 in features:
        fields["profile"] = f"Profile {features[1]}"
    if features.get(2):
        fields["level"] = _level(features[2])
    return fields


def _subsampled(x: int, y: int) -> str:
    return SUBSAMPLING[1 + x, 1 + y]


def _av1(config: bytes, sample: bytes) -> Fields:
    """The av1C ("AV1 Codec ISO Media File Format Binding" 2.3) or bare OBUs, then a sequence header of the sample."""
    is_av1c = len(config) >= 4 and config[0] == 0x81
    sequence = av1_sequence_in(config[4:] if is_av1c else config) or av1_sequence_in(sample)
    if sequence is not None:
        return _av1_fields(sequence)
    return _av1c_fields(config) if is_av1c else {}


def _av1_fields(sequence: Av1Sequence) -> Fields:
    chroma = "4:0:0" if sequence.monochrome else _subsampled(*sequence.subsampling)
    rgb = sequence.matrix == 0 and chroma == "4:4:4"
    return (
        {
            "profile": AV1_PROFILES[sequence.profile] if sequence.profile < 3 else None,
            "level": _av1_level(sequence.level_idx),
            "bit_depth": sequence.bit_depth,
            "chroma": "rgb" if rgb else chroma,
            "pix_fmt": _pix_fmt(chroma, sequence.bit_depth, rgb=rgb),
            "interlaced": False,
            "reorder_depth": 0,
            "header_fps": sequence.fps,
        }
        | _size(sequence.width, sequence.height)
        | _colour(sequence.primaries, sequence.transfer, sequence.matrix, sequence.full_range)
    )


def _av1_level(level_idx: int) -> str | None:
    """seq_level_idx (annex A.3); 31 is "no limits"."""
    return None if level_idx == 31 else f"{2 + level_idx // 4}.{level_idx % 4}"


def _av1c_fields(config: bytes) -> Fields:
    profile, flags = config[1] >> 5, config[2]
    depth = 8 if not flags & 0x40 else 12 if flags & 0x20 else 10
    chroma = "4:0:0" if flags & 0x10 else SUBSAMPLING.get((1 + (flags >> 3 & 1), 1 + (flags >> 2 & 1)))
    return {
        "profile": AV1_PROFILES[profile] if profile < 3 else None,
        "level": _av1_level(config[1] & 31),
        "bit_depth": depth,
        "chroma": chroma,
        "pix_fmt": _pix_fmt(chroma, depth) if chroma else None,
        "interlaced": False,
        "reorder_depth": 0,
    }


def _mpeg4(config: bytes, sample: bytes) -> Fields:
    """A video object layer of the esds' decoder-specific info, or of the sample."""
    layer = mpeg4_layer_in(config) or mpeg4_layer_in(sample)
    if layer is None:
        return {}
    code = layer.profile_and_level
    simple_0 = code == 8  # Simple Profile at level 0 stands out of line (table G.1)
    fields: Fields = {} if code is None else {
        "profile": MPEG4_PROFILES.get(0 if simple_0 else code >> 4),
        "level": "0" if simple_0 else str(code & 15),
    }  # fmt: skip
    return (
        fields
        | {
            "bit_depth": 8,
            "chroma": "4:2:0",
            "pix_fmt": "yuv420p",
            "interlaced": layer.interlaced,
            "sar": layer.sar,
            "header_fps": layer.fps,
            "reorder_depth": None if layer.low_delay is None else int(not layer.low_delay),
        }
        | _size(layer.width, layer.height)
    )


def _mpeg12(config: bytes, sample: bytes) -> Fields:
    """A sequence header and its extensions."""
    sequence = mpeg_sequence_in(config) or mpeg_sequence_in(sample)
    if sequence is None:
        return {}
    chroma = CHROMA[sequence.chroma_format] if sequence.chroma_format else "4:2:0"
    fields: Fields = {}
    if sequence.mpeg2:
        fields = _mpeg2_profile(sequence.profile_and_level) | {"colour_range": "limited"}
    macroblock_rows = -(-sequence.height // 16)
    return (
        _colour(sequence.primaries, sequence.transfer, sequence.matrix, None)
        | {
            "bit_depth": 8,
            "chroma": chroma,
            "pix_fmt": _pix_fmt(chroma, 8),
            "interlaced": not sequence.progressive,
            "sar": sequence.sar,
            "header_fps": None if sequence.rate is None else float(sequence.rate),
            "reorder_depth": int(not sequence.low_delay),
            "width": sequence.width,
            "height": sequence.height,
            "coded_width": -(-sequence.width // 16) * 16,
            "coded_height": macroblock_rows * 16,
        }
        | fields
    )


def _mpeg2_profile(code: int) -> Fields:
    """profile_and_level_indication (H.262 table 8-1); with the escape bit only 4:2:2 Profile is in use."""
    if code & 0x80:
        return {"profile": "4:2:2", "level": {5: "Main", 2: "High"}.get(code & 15)}
    profile = code >> 4 & 7
    return {"profile": MPEG2_PROFILES[profile] if profile < len(MPEG2_PROFILES) else None,
            "level": MPEG2_LEVELS.get(code & 15)}  # fmt: skip


def _h263(config: bytes, sample: bytes) -> Fields:
    del config
    size = h263_size(sample)
    return {"bit_depth": 8, "chroma": "4:2:0", "pix_fmt": "yuv420p", "reorder_depth": 0} | (
        _size(*size) if size else {}
    )


def _mjpeg(config: bytes, sample: bytes) -> Fields:
    """A JPEG frame header (ITU-T T.81 B.2.2); JFIF is full range, BT.601."""
    del config
    frame = jpeg_frame_in(sample)
    if frame is None:
        return {"reorder_depth": 0}
    chroma = _jpeg_chroma(frame)
    fields: Fields = {
        "profile": JPEG_PROFILES.get(frame.marker),
        "bit_depth": frame.bit_depth,
        "chroma": chroma,
        "colour_range": "full",
        "colour_matrix": None if frame.adobe_rgb else "bt601",
        "reorder_depth": 0,
    } | _size(frame.width, frame.height)
    if chroma and frame.bit_depth == 8:
        fields["pix_fmt"] = _pix_fmt(chroma, 8, rgb=frame.adobe_rgb, full_range=True)
    return fields


def _jpeg_chroma(frame: JpegFrame) -> str | None:
    if len(frame.sampling) == 1:
        return "4:0:0"
    if len(frame.sampling) != 3 or len(set(frame.sampling[1:])) > 1:
        return None
    (luma_x, luma_y), (chroma_x, chroma_y) = frame.sampling[0], frame.sampling[1]
    if not chroma_x or not chroma_y or luma_x % chroma_x or luma_y % chroma_y:
        return None
    return SUBSAMPLING.get((luma_x // chroma_x, luma_y // chroma_y))


READERS: dict[str, Callable[[bytes, bytes], Fields]] = {
    "h264": _h264,
    "hevc": _hevc,
    "vvc": _vvc,
    "vp8": _vp8,
    "vp9": _vp9,
    "av1": _av1,
    "mpeg4": _mpeg4,
    "mpeg1video": _mpeg12,
    "mpeg2video": _mpeg12,
    "h263": _h263,
    "mjpeg": _mjpeg,
}
