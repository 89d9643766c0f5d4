"""Sequence and picture parameter sets of H.264 (ITU-T H.264 clauses 7.3.2, E.1) and HEVC (H.265 7.3.2, E.2)."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from vidprep.containers.bits import BitReader, OutOfBitsError, rbsp

#: H.264 table E-1, aspect_ratio_idc 1..16 (H.265 table E.1 is the same).
SAMPLE_ASPECT_RATIOS: tuple[tuple[int, int], ...] = (
    (1, 1), (12, 11), (10, 11), (16, 11), (40, 33), (24, 11), (20, 11), (32, 11),
    (80, 33), (18, 11), (15, 11), (64, 33), (160, 99), (4, 3), (3, 2), (2, 1),
)  # fmt: skip
EXTENDED_SAR = 255

#: profile_idc of H.264 whose SPS carries chroma_format_idc (clause 7.3.2.1.1).
H264_HIGH_PROFILES = frozenset((100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135))

#: H.264 table A-1: level_idc -> MaxDpbMbs. Level 1b counts as 1.
H264_MAX_DPB_MACROBLOCKS: dict[int, int] = {
    9: 396, 10: 396, 11: 900, 12: 2376, 13: 2376, 20: 2376, 21: 4752, 22: 8100, 30: 8100, 31: 18000, 32: 20480,
    40: 32768, 41: 32768, 42: 34816, 50: 110400, 51: 184320, 52: 184320, 60: 696320, 61: 696320, 62: 696320,
}  # fmt: skip


class Vui(NamedTuple):
    """Video usability information; None = not in the stream."""

    sar: tuple[int, int] | None = None
    full_range: int | None = None
    primaries: int = 2
    transfer: int = 2
    matrix: int = 2
    fps: float | None = None
    """H.264: time_scale / (2 num_units_in_tick), H.265: time_scale / num_units_in_tick"""
    reorder: int | None = None
    """max_num_reorder_frames (H.264 only)"""
    field_seq: int = 0
    """H.265 field_seq_flag"""
    chroma_location: int | None = None
    """chroma_sample_loc_type_top_field (figure E-1 of H.264 and H.265)"""
    max_dec_frame_buffering: int | None = None
    """H.264 only"""


NO_VUI = Vui()


class H264Sps(NamedTuple):
    """What vidprep needs of an H.264 sequence parameter set."""

    sps_id: int
    profile_idc: int
    constraints: int
    """constraint_set0_flag is the highest of the 8 bits"""
    level_idc: int
    chroma_format_idc: int
    separate_planes: int
    bit_depth: int
    frame_num_bits: int
    poc_type: int
    max_ref_frames: int
    frame_mbs_only: int
    coded_width: int
    coded_height: int
    width: int
    height: int
    vui: Vui
    gaps_allowed: int = 0
    """gaps_in_frame_num_value_allowed_flag: pictures may be left out on purpose"""
    crop: tuple[int, int] = (0, 0)
    """columns and rows cut off at the left and the top"""

    @property
    def reorder_depth(self) -> int:
        """max_num_reorder_frames, or its inference (clause E.2.1: MaxDpbFrames, or 0 where nothing is reordered)."""
        if self.vui.reorder is not None:
            return self.vui.reorder
        intra_only = self.constraints & 0x10 and self.profile_idc in (44, 86, 100, 110, 122, 244)
        if self.poc_type == 2 or intra_only:
            return 0
        macroblocks = max(self.coded_width * self.coded_height // 256, 1)
        return min(H264_MAX_DPB_MACROBLOCKS.get(self.level_idc, 696320) // macroblocks, 16)


def parse_h264_sps(nal_unit: bytes) -> H264Sps:
    """An SPS NAL unit, header byte included. Raises OutOfBitsError."""
    bits = BitReader(rbsp(nal_unit))
    bits.skip(8)
    profile_idc, constraints, level_idc = bits.u(8), bits.u(8), bits.u(8)
    sps_id = bits.bounded_ue(31)
    chroma, separate_planes, depth = 1, 0, 8
    if profile_idc in H264_HIGH_PROFILES:
        chroma = bits.bounded_ue(3)
        separate_planes = bits.flag() if chroma == 3 else 0
        depth = max(8 + bits.bounded_ue(6), 8 + bits.bounded_ue(6))
        bits.skip(1)
        if bits.flag():
            _skip_h264_scaling_lists(bits, 12 if chroma == 3 else 8)
    frame_num_bits = bits.bounded_ue(12) + 4
    poc_type = _skip_h264_picture_order(bits)
    max_ref_frames = bits.bounded_ue(32)
    gaps_allowed = bits.flag()
    coded_width = (bits.bounded_ue(0xFFFF) + 1) * 16
    map_units = bits.bounded_ue(0xFFFF) + 1
    frame_mbs_only = bits.flag()
    coded_height = map_units * 16 * (2 - frame_mbs_only)
    bits.skip(1 if frame_mbs_only else 2)
    width, height, crop = coded_width, coded_height, (0, 0)
    if bits.flag():
        unit_x = 2 if chroma in (1, 2) else 1
        unit_y = (2 if chroma == 1 else 1) * (2 - frame_mbs_only)
        left, right, top, bottom = (bits.ue() for _ in range(4))
        crop = (left * unit_x, top * unit_y)
        width, height = width - (left + right) * unit_x, height - (top + bottom) * unit_y
        if width <= 0 or height <= 0:
            raise OutOfBitsError
    vui = _h264_vui(bits) if bits.flag() else NO_VUI
    return H264Sps(
        sps_id, profile_idc, constraints, level_idc, chroma, separate_planes, depth, frame_num_bits, poc_type,
        max_ref_frames, frame_mbs_only, coded_width, coded_height, width, height, vui, gaps_allowed, crop,
    )  # fmt: skip


def _skip_h264_scaling_lists(bits: BitReader, count: int) -> None:
    for index in range(count):
        if not bits.flag():
            continue
        last = scale = 8
        for _ in range(16 if index < 6 else 64):
            if scale:
                scale = (last + bits.se()) % 256
            last = scale or last


def _skip_h264_picture_order(bits: BitReader) -> int:
    poc_type = bits.bounded_ue(2)
    if poc_type == 0:
        bits.ue()
    elif poc_type == 1:
        bits.skip(1)
        bits.se()
        bits.se()
        for _ in range(bits.bounded_ue(255)):
            bits.se()
    return poc_type


def _sar(bits: BitReader) -> tuple[int, int] | None:
    """aspect_ratio_idc and what follows; None for unspecified, reserved and 0-valued ratios."""
    idc = bits.u(8)
    if idc == EXTENDED_SAR:
        width, height = bits.u(16), bits.u(16)
        return (width, height) if width and height else None
    return SAMPLE_ASPECT_RATIOS[idc - 1] if 1 <= idc <= len(SAMPLE_ASPECT_RATIOS) else None


def _signal_type(bits: BitReader) -> tuple[tuple[tuple[int, int] | None, int | None, int, int, int], int | None]:
    """The first fields of Vui, which both standards share, and the chroma sample location."""
    sar = _sar(bits) if bits.flag() else None
    if bits.flag():
        bits.skip(1)
    full_range: int | None = None
    primaries = transfer = matrix = 2
    if bits.flag():
        bits.skip(3)
        full_range = bits.flag()
        if bits.flag():
            primaries, transfer, matrix = bits.u(8), bits.u(8), bits.u(8)
    location = None
    if bits.flag():
        location = bits.ue()
        bits.ue()
    return (sar, full_range, primaries, transfer, matrix), location


def _h264_vui(bits: BitReader) -> Vui:
    """Clause E.1.1. A VUI that breaks off says what it said so far, as in FFmpeg."""
    fps: float | None = None
    reorder = buffering = location = None
    signal: tuple[tuple[int, int] | None, int | None, int, int, int] = (None, None, 2, 2, 2)
    with suppress(OutOfBitsError):
        signal, location = _signal_type(bits)
        if bits.flag():
            fps = _frame_rate(bits, fields=2)
            bits.skip(1)
        reorder, buffering = _h264_reorder(bits)
    return Vui(*signal, fps, reorder, 0, location, buffering)


def _h264_reorder(bits: BitReader) -> tuple[int | None, int | None]:
    """max_num_reorder_frames and max_dec_frame_buffering; from nal_hrd_parameters_present_flag on."""
    nal_hrd = bits.flag()
    if nal_hrd:
        _skip_h264_hrd(bits)
    vcl_hrd = bits.flag()
    if vcl_hrd:
        _skip_h264_hrd(bits)
    bits.skip(2 if nal_hrd or vcl_hrd else 1)
    if not bits.flag():
        return None, None
    bits.skip(1)
    for _ in range(4):
        bits.ue()
    reorder = bits.bounded_ue(16)
    with suppress(OutOfBitsError):
        return reorder, bits.ue()
    return reorder, None


def _frame_rate(bits: BitReader, fields: int) -> float | None:
    """num_units_in_tick, time_scale; None where they make no rate."""
    units, scale = bits.u(32), bits.u(32)
    return scale / (units * fields) if units and scale else None


def _skip_h264_hrd(bits: BitReader) -> None:
    count = bits.bounded_ue(31) + 1
    bits.skip(8)
    for _ in range(count):
        bits.ue()
        bits.ue()
        bits.skip(1)
    bits.skip(20)


class HevcSps(NamedTuple):
    """What vidprep needs of an HEVC sequence parameter set."""

    sps_id: int
    profile_idc: int
    level_idc: int
    interlaced_source: int
    max_sub_layers: int
    chroma_format_idc: int
    bit_depth: int
    coded_width: int
    coded_height: int
    width: int
    height: int
    reorder_depth: int
    vui: Vui
    crop: tuple[int, int] = (0, 0)
    """columns and rows cut off at the left and the top"""
    buffering: int = 0
    """sps_max_dec_pic_buffering_minus1 of the highest sub-layer"""


def parse_hevc_sps(nal_unit: bytes) -> HevcSps:
    """An SPS NAL unit of the base layer, header included. Raises OutOfBitsError."""
    bits = BitReader(rbsp(nal_unit))
    bits.skip(20)
    max_sub_layers = bits.u(3) + 1
    bits.skip(1)
    profile_idc, interlaced_source, level_idc = _hevc_profile_tier_level(bits, max_sub_layers)
    sps_id = bits.bounded_ue(15)
    chroma = bits.bounded_ue(3)
    if chroma == 3 and bits.flag():
        chroma = 0  # separate colour planes are coded as three monochrome pictures
    coded_width, coded_height = bits.bounded_ue(0xFFFF), bits.bounded_ue(0xFFFF)
    width, height, crop = coded_width, coded_height, (0, 0)
    if bits.flag():
        unit_x, unit_y = (2 if chroma in (1, 2) else 1), (2 if chroma == 1 else 1)
        left, right, top, bottom = (bits.ue() for _ in range(4))
        crop = (left * unit_x, top * unit_y)
        width, height = width - (left + right) * unit_x, height - (top + bottom) * unit_y
    if width <= 0 or height <= 0:
        raise OutOfBitsError
    depth = max(bits.bounded_ue(8), bits.bounded_ue(8)) + 8
    poc_bits = bits.bounded_ue(12) + 4
    buffering = reorder = 0
    for _ in range(max_sub_layers if bits.flag() else 1):
        buffering = bits.ue()
        reorder = bits.bounded_ue(16)
        bits.ue()
    vui = NO_VUI
    with suppress(OutOfBitsError):
        vui = _hevc_vui_of(bits, poc_bits)
    return HevcSps(
        sps_id, profile_idc, level_idc, interlaced_source, max_sub_layers, chroma, depth, coded_width, coded_height,
        width, height, reorder, vui, crop, buffering,
    )  # fmt: skip


def _hevc_profile_tier_level(bits: BitReader, max_sub_layers: int) -> tuple[int, int, int]:
    """general_profile_idc (from the compatibility flags where it is 0), interlaced source, general_level_idc."""
    bits.skip(3)
    profile_idc = bits.u(5)
    compatible = bits.u(32)
    if not profile_idc:
        profile_idc = next((i for i in range(1, 32) if compatible >> (31 - i) & 1), 0)
    progressive, interlaced = bits.flag(), bits.flag()
    bits.skip(46)
    level_idc = bits.u(8)
    present = [(bits.flag(), bits.flag()) for _ in range(max_sub_layers - 1)]
    if present:
        bits.skip(2 * (8 - len(present)))
    for profile_present, level_present in present:
        bits.skip(88 * profile_present + 8 * level_present)
    return profile_idc, int(interlaced and not progressive), level_idc


def _hevc_vui_of(bits: BitReader, poc_bits: int) -> Vui:
    """From log2_min_luma_coding_block_size_minus3 to the VUI (clause 7.3.2.2)."""
    for _ in range(6):
        bits.ue()
    if bits.flag() and bits.flag():
        _skip_hevc_scaling_lists(bits)
    bits.skip(2)
    if bits.flag():
        bits.skip(8)
        bits.ue()
        bits.ue()
        bits.skip(1)
    _skip_hevc_reference_sets(bits, bits.bounded_ue(64))
    if bits.flag():
        for _ in range(bits.bounded_ue(32)):
            bits.skip(poc_bits + 1)
    bits.skip(2)
    return _hevc_vui(bits) if bits.flag() else NO_VUI


def _skip_hevc_scaling_lists(bits: BitReader) -> None:
    for size in range(4):
        for _ in range(2 if size == 3 else 6):
            if not bits.flag():
                bits.ue()
                continue
            if size > 1:
                bits.se()
            for _ in range(min(64, 1 << (4 + 2 * size))):
                bits.se()


def _skip_hevc_reference_sets(bits: BitReader, count: int) -> None:
    """st_ref_pic_set for each index (clause 7.3.7): only the number of pictures matters for the next one."""
    pictures = 0
    for index in range(count):
        if index and bits.flag():
            bits.skip(1)
            bits.ue()
            kept = 0
            for _ in range(pictures + 1):
                used = bits.flag()
                kept += used or bits.flag()
            pictures = kept
        else:
            pictures = bits.bounded_ue(16) + bits.bounded_ue(16)
            for _ in range(pictures):
                bits.ue()
                bits.skip(1)


def _hevc_vui(bits: BitReader) -> Vui:
    """Clause E.2.1 as far as the timing information."""
    signal, location = _signal_type(bits)
    bits.skip(1)
    field_seq = bits.flag()
    bits.skip(1)
    if bits.flag():
        for _ in range(4):
            bits.ue()
    fps = _frame_rate(bits, fields=1) if bits.flag() else None
    return Vui(*signal, fps, None, field_seq, location)


def hevc_vps_frame_rate(nal_unit: bytes) -> float | None:
    """Frame rate of a video parameter set (clause 7.3.2.1), or None. Raises OutOfBitsError."""
    bits = BitReader(rbsp(nal_unit))
    bits.skip(16 + 12)
    max_sub_layers = bits.u(3) + 1
    bits.skip(17)
    _hevc_profile_tier_level(bits, max_sub_layers)
    for _ in range(max_sub_layers if bits.flag() else 1):
        for _ in range(3):
            bits.ue()
    max_layer_id = bits.u(6)
    for _ in range(bits.bounded_ue(1023)):
        bits.skip(max_layer_id + 1)
    return _frame_rate(bits, fields=1) if bits.flag() else None


def parse_h264_pps_ids(nal_unit: bytes) -> tuple[int, int]:
    """(pic_parameter_set_id, seq_parameter_set_id). Raises OutOfBitsError."""
    bits = BitReader(nal_unit[1:16])
    return bits.bounded_ue(255), bits.bounded_ue(31)


class HevcPps(NamedTuple):
    """The start of an HEVC picture parameter set: what a slice header's first fields depend on."""

    pps_id: int
    sps_id: int
    dependent_slices: int
    output_flag_present: int
    extra_slice_header_bits: int


def parse_hevc_pps(nal_unit: bytes) -> HevcPps:
    """A PPS NAL unit, header included (clause 7.3.2.3). Raises OutOfBitsError."""
    bits = BitReader(rbsp(nal_unit[:32]))
    bits.skip(16)
    return HevcPps(bits.bounded_ue(63), bits.bounded_ue(15), bits.flag(), bits.flag(), bits.u(3))
