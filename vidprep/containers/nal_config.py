"""Stream facts from avcC, hvcC, vvcC, or parameter sets in band: H.264, HEVC and VVC."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING

from vidprep.containers.bits import BitReader, OutOfBitsError
from vidprep.containers.config_fields import CHROMA, Fields, colour_fields, first_parsed, level_text, pix_fmt
from vidprep.containers.nal_units import (
    MAX_PARAMETER_SETS,
    annex_b_units,
    avcc_units,
    hvcc_units,
    is_annex_b,
    nal_units,
)
from vidprep.containers.parameter_sets import H264Sps, HevcSps, hevc_vps_frame_rate, parse_h264_sps, parse_hevc_sps

if TYPE_CHECKING:
    from collections.abc import Iterable

H264_PROFILES: dict[int, str] = {
    44: "CAVLC 4:4:4", 66: "Baseline", 77: "Main", 88: "Extended", 100: "High", 110: "High 10", 118: "Multiview High",
    122: "High 4:2:2", 128: "Stereo High", 144: "High 4:4:4", 244: "High 4:4:4 Predictive",
}  # fmt: skip
H264_INTRA_PROFILES: dict[int, str] = {110: "High 10 Intra", 122: "High 4:2:2 Intra", 244: "High 4:4:4 Intra"}
HEVC_PROFILES: dict[int, str] = {
    1: "Main", 2: "Main 10", 3: "Main Still Picture", 4: "Rext", 6: "Multiview Main", 9: "Scc",
}  # fmt: skip
VVC_PROFILES: dict[int, str] = {1: "Main 10", 33: "Main 10 4:4:4"}


def h264_config(config: bytes, sample: bytes) -> Fields:
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
    } | colour_fields(vui.primaries, vui.transfer, vui.matrix, vui.full_range)


def _h264_pix_fmt(sps: H264Sps) -> str:
    """FFmpeg gives monochrome out as 4:2:0."""
    return pix_fmt(
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
    return "1b" if level_1b else level_text(sps.level_idc)


def hevc_config(config: bytes, sample: bytes) -> Fields:
    """The hvcC (ISO/IEC 14496-15, 8.3.3) or Annex B, then an SPS of the sample."""
    annex_b = is_annex_b(config) or len(config) < 23
    length_size = 0 if annex_b else (config[21] & 3) + 1
    units = list(chain(annex_b_units(config) if annex_b else hvcc_units(config), nal_units(sample, length_size)))
    sps = first_parsed(parse_hevc_sps, (unit for unit in units if _hevc_base_layer(unit, 33)))
    if sps is None:
        return {"nal_length_size": length_size}
    fields: Fields = {"nal_length_size": length_size} | _hevc_fields(sps)
    if sps.vui.fps is None:
        fields["header_fps"] = first_parsed(hevc_vps_frame_rate, (unit for unit in units if _hevc_base_layer(unit, 32)))
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
        "pix_fmt": pix_fmt(chroma, sps.bit_depth, rgb=vui.matrix == 0, full_range=full_range),
        "bit_depth": sps.bit_depth,
        "chroma": chroma,
        "interlaced": bool(vui.field_seq or sps.interlaced_source),
        "reorder_depth": sps.reorder_depth,
        "sar": vui.sar,
        "header_fps": vui.fps,
    } | colour_fields(vui.primaries, vui.transfer, vui.matrix, vui.full_range)


def vvc_config(config: bytes, sample: bytes) -> Fields:
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
        "pix_fmt": pix_fmt(chroma, depth),
        "coded_width": bits.u(16),
        "coded_height": bits.u(16),
    }
