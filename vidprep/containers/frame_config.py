"""Stream facts from vpcC, av1C, esds, or the first frame: VP8, VP9, AV1, MPEG-1/2/4, H.263 and JPEG."""

from __future__ import annotations

from contextlib import suppress

from vidprep.containers import colours
from vidprep.containers.av1_headers import Av1Sequence, av1_sequence_in
from vidprep.containers.bits import OutOfBitsError
from vidprep.containers.config_fields import (
    CHROMA,
    SUBSAMPLING,
    Fields,
    colour_fields,
    level_text,
    pix_fmt,
    size_fields,
    subsampled,
)
from vidprep.containers.mpeg_headers import JpegFrame, h263_size, jpeg_frame_in, mpeg4_layer_in, mpeg_sequence_in
from vidprep.containers.vpx_headers import VP9_MATRIX, Vp9Header, parse_vp8, parse_vp9, vp9_frames

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


def vp8_config(config: bytes, sample: bytes) -> Fields:
    """A key frame's header; VP8 is 8-bit 4:2:0, BT.601, limited range (RFC 6386 section 9.2)."""
    del config
    fields: Fields = {"bit_depth": 8, "chroma": "4:2:0", "pix_fmt": "yuv420p", "interlaced": False, "reorder_depth": 0}
    with suppress(OutOfBitsError):
        header = parse_vp8(sample)
        fields["profile"] = str(header.version)
        fields |= size_fields(header.width, header.height)
    return fields


def vp9_config(config: bytes, sample: bytes) -> Fields:
    """The vpcC (version 1, with or without its first four bytes) or WebM's CodecPrivate, then a key frame's header."""
    fields: Fields = {"interlaced": False, "reorder_depth": 0} | _vpcc_fields(config)
    with suppress(OutOfBitsError):
        headers = [parse_vp9(frame) for frame in vp9_frames(sample)[:8]]
        fields |= next((_vp9_fields(header) for header in headers if header.width), {})
    return fields


def _vp9_fields(header: Vp9Header) -> Fields:
    chroma = subsampled(*header.subsampling)
    rgb = header.color_space == 7
    fields = {
        "profile": f"Profile {header.profile}",
        "bit_depth": header.bit_depth,
        "chroma": "rgb" if rgb else chroma,
        "pix_fmt": pix_fmt(chroma, header.bit_depth, rgb=rgb),
        "colour_range": colours.RANGE[header.full_range],
    }
    matrix = colours.MATRIX.get(VP9_MATRIX.get(header.color_space, 2))
    return fields | ({"colour_matrix": matrix} if matrix else {}) | size_fields(header.width, header.height)


def _vpcc_fields(config: bytes) -> Fields:
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
        "level": level_text(body[1]) if body[1] else None,
        "bit_depth": depth,
        "chroma": "rgb" if rgb else chroma,
        "pix_fmt": pix_fmt(chroma, depth, rgb=rgb),
    } | colour_fields(body[3], body[4], body[5], body[2] & 1)


def _webm_features(config: bytes) -> Fields:
    features: dict[int, int] = {}
    for at in range(0, len(config) - 2, 3):
        if config[at + 1] == 1:
            features[config[at]] = config[at + 2]
    fields: Fields = {}
    if 1 in features:
        fields["profile"] = f"Profile {features[1]}"
    if features.get(2):
        fields["level"] = level_text(features[2])
    return fields


def av1_config(config: bytes, sample: bytes) -> Fields:
    """The av1C ("AV1 Codec ISO Media File Format Binding" 2.3) or bare OBUs, then a sequence header of the sample."""
    is_av1c = len(config) >= 4 and config[0] == 0x81
    sequence = av1_sequence_in(config[4:] if is_av1c else config) or av1_sequence_in(sample)
    if sequence is not None:
        return _av1_fields(sequence)
    return _av1c_fields(config) if is_av1c else {}


def _av1_fields(sequence: Av1Sequence) -> Fields:
    chroma = "4:0:0" if sequence.monochrome else subsampled(*sequence.subsampling)
    rgb = sequence.matrix == 0 and chroma == "4:4:4"
    return (
        {
            "profile": AV1_PROFILES[sequence.profile] if sequence.profile < 3 else None,
            "level": _av1_level(sequence.level_idx),
            "bit_depth": sequence.bit_depth,
            "chroma": "rgb" if rgb else chroma,
            "pix_fmt": pix_fmt(chroma, sequence.bit_depth, rgb=rgb),
            "interlaced": False,
            "reorder_depth": 0,
            "header_fps": sequence.fps,
        }
        | size_fields(sequence.width, sequence.height)
        | colour_fields(sequence.primaries, sequence.transfer, sequence.matrix, sequence.full_range)
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
        "pix_fmt": pix_fmt(chroma, depth) if chroma else None,
        "interlaced": False,
        "reorder_depth": 0,
    }


def mpeg4_config(config: bytes, sample: bytes) -> Fields:
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
        | size_fields(layer.width, layer.height)
    )


def mpeg12_config(config: bytes, sample: bytes) -> Fields:
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
        colour_fields(sequence.primaries, sequence.transfer, sequence.matrix, None)
        | {
            "bit_depth": 8,
            "chroma": chroma,
            "pix_fmt": pix_fmt(chroma, 8),
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


def h263_config(config: bytes, sample: bytes) -> Fields:
    """A picture header (H.263 5.1); the configuration says nothing."""
    del config
    size = h263_size(sample)
    return {"bit_depth": 8, "chroma": "4:2:0", "pix_fmt": "yuv420p", "reorder_depth": 0} | (
        size_fields(*size) if size else {}
    )


def mjpeg_config(config: bytes, sample: bytes) -> Fields:
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
    } | size_fields(frame.width, frame.height)
    if chroma and frame.bit_depth == 8:
        fields["pix_fmt"] = pix_fmt(chroma, 8, rgb=frame.adobe_rgb, full_range=True)
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
