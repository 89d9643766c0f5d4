"""Picture facts of H.264 (ITU-T H.264 clause 7.3), HEVC (H.265 7.3) and VVC (H.266 7.3) samples.

A sample's first slice header decides, after the parameter sets and SEI messages before it. Only what is needed is
parsed: NAL unit headers, the start of slice headers, recovery point SEI.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from vidprep.containers.bits import BitReader, OutOfBitsError, rbsp
from vidprep.containers.nal_units import (
    MAX_PARAMETER_SETS,
    annex_b_units,
    avcc_units,
    hvcc_units,
    is_annex_b,
    nal_spans,
)
from vidprep.containers.parameter_sets import (
    HevcPps,
    parse_h264_pps_ids,
    parse_h264_sps,
    parse_hevc_pps,
    parse_hevc_sps,
)
from vidprep.containers.remembered import remembered
from vidprep.containers.samplefacts import NO_PICTURE, UNKNOWN, SampleFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

RECOVERY_POINT = 6
"""SEI payloadType of both H.264 (annex D.1.8) and HEVC (D.2.8)"""
SLICE_HEADER_BYTES = 40
H264_SLICE_TYPES = "PBIPI"
HEVC_SLICE_TYPES = "BPI"


@dataclass(slots=True)
class H264Sets:
    """What slice headers depend on, by parameter set id."""

    sps: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """(bits of frame_num, frame_mbs_only_flag, separate_colour_plane_flag)"""
    pps: dict[int, int] = field(default_factory=dict)
    """seq_parameter_set_id"""

    num_tried: int = 0

    def add(self, unit: bytes) -> None:
        """Take in an SPS or PPS; broken ones and those beyond a sane number are passed over."""
        self.num_tried += 1
        if self.num_tried > 5 * MAX_PARAMETER_SETS:
            return
        try:
            if unit[0] & 31 == 7:
                sps = parse_h264_sps(unit)
                self.sps[sps.sps_id] = (sps.frame_num_bits, sps.frame_mbs_only, sps.separate_planes)
            elif unit[0] & 31 == 8:
                pps_id, sps_id = parse_h264_pps_ids(unit)
                self.pps[pps_id] = sps_id
        except OutOfBitsError:
            return

    def copy(self) -> H264Sets:
        """A copy that a sample's own parameter sets may be added to."""
        return H264Sets(dict(self.sps), dict(self.pps))


@remembered(256)
def h264_sets(config: bytes) -> H264Sets:
    """Parameter sets of an avcC or Annex B configuration; not to be changed."""
    sets = H264Sets()
    units = avcc_units(config) if config[:1] == b"\1" else annex_b_units(config)
    for unit in islice(units, 5 * MAX_PARAMETER_SETS):  # an avcC may hold 31 + 255
        sets.add(unit)
    return sets


@remembered(256)
def h264_says_reordered(config: bytes) -> bool:
    """An SPS states that pictures are shown in another order than they are coded in (max_num_reorder_frames above 0)."""
    units = avcc_units(config) if config[:1] == b"\1" else annex_b_units(config)
    for unit in islice(units, MAX_PARAMETER_SETS):
        try:
            if unit[0] & 31 == 7 and parse_h264_sps(unit).vui.reorder:
                return True
        except OutOfBitsError:
            continue
    return False


@dataclass(slots=True)
class _H264Sample:
    """What has been seen of a sample so far."""

    any_unit: bool = False
    unread_slice: bool = False
    idr: bool = False
    reference: bool = False
    carries_sets: bool = False
    recovery: int | None = None
    slice_types: str = ""
    pictures: int = 0
    parities: str = ""
    frame_num: int = 0


def h264_facts(config: bytes, payload: bytes, length_size: int, *, complete: bool) -> SampleFacts:
    """Facts of an H.264 sample."""
    seen, sets = _H264Sample(), h264_sets(config)
    for start, end in nal_spans(payload, length_size):
        seen.any_unit, kind = True, payload[start] & 31
        if kind in (1, 2, 5):
            _see_h264_slice(seen, sets, payload, start, end)
            if _h264_is_decided(seen):
                break
        elif kind == 6:
            recovery = _recovery_point(payload[start + 1 : end])
            seen.recovery = seen.recovery if recovery is None else recovery
        elif kind in (7, 8):
            if not seen.carries_sets:
                seen.carries_sets, sets = True, sets.copy()
            sets.add(payload[start:end])
    return _h264_result(seen, complete=complete)


def _see_h264_slice(seen: _H264Sample, sets: H264Sets, payload: bytes, start: int, end: int) -> None:
    """Clause 7.3.3 as far as bottom_field_flag."""
    bits = BitReader(rbsp(payload[start + 1 : min(end, start + SLICE_HEADER_BYTES)]))
    try:
        first_macroblock, slice_type, pps_id = bits.ue(), bits.bounded_ue(9), bits.bounded_ue(255)
        frame_num_bits, frame_mbs_only, separate_planes = sets.sps.get(sets.pps.get(pps_id, 0), (4, 1, 0))
        bits.skip(2 if separate_planes else 0)
        frame_num = bits.u(frame_num_bits)
        field_pic = 0 if frame_mbs_only else bits.flag()
        parity = ("b" if bits.flag() else "t") if field_pic else ""
    except OutOfBitsError:
        seen.unread_slice = True
        return
    seen.slice_types += H264_SLICE_TYPES[slice_type % 5]
    seen.idr = seen.idr or payload[start] & 31 == 5
    seen.reference = seen.reference or bool(payload[start] & 0x60)
    seen.pictures += first_macroblock == 0
    seen.frame_num = frame_num
    if parity and parity not in seen.parities:
        seen.parities += parity


def _without_slice(is_whole: bool, *, complete: bool) -> SampleFacts:
    """A sample of which no slice was read: no picture if it is all there and is other NAL units, else damage."""
    return NO_PICTURE if complete and is_whole else UNKNOWN


def _h264_is_decided(seen: _H264Sample) -> bool:
    """No later NAL unit of the sample can change the answer."""
    if not seen.slice_types or seen.parities:
        return False
    return seen.idr or seen.recovery is None or seen.slice_types[-1] != "I"


def _h264_result(seen: _H264Sample, *, complete: bool) -> SampleFacts:
    if not seen.slice_types:
        return _without_slice(seen.any_unit and not seen.unread_slice, complete=complete)
    all_intra = not seen.slice_types.strip("I")
    single_field = len(seen.parities) == 1 and complete
    disposable: bool | None = not (seen.reference or seen.carries_sets)
    if seen.parities and disposable and (single_field or not complete):
        disposable = None  # one field of two: dropping it leaves half a frame
    first_is_intra = seen.slice_types[0] == "I" if seen.parities else all_intra
    return _facts(
        seen.idr or (seen.recovery == 0 and first_is_intra),
        seen.recovery,
        disposable,
        "B" if "B" in seen.slice_types else "I" if all_intra else "P",
        {"t": "top", "b": "bottom"}[seen.parities] if single_field else None,
        seen.frame_num if single_field else None,
        seen.reference,
    )


@lru_cache(maxsize=1024)
def _facts(
    key: bool,
    recovery: int | None,
    disposable: bool | None,
    picture_type: str,
    field_name: str | None,
    frame_num: int | None,
    reference: bool,
) -> SampleFacts:
    return SampleFacts(
        key=key, recovery_frames=recovery, shown=True, has_picture=True, disposable=disposable,
        picture_type=picture_type, field=field_name, frame_num=frame_num, reference=reference,
    )  # fmt: skip


def _recovery_point(sei: bytes) -> int | None:
    """recovery_frame_cnt (H.264) of an SEI NAL unit's messages, or None; the NAL header is not part of `sei`."""
    bits = _recovery_payload(sei)
    try:
        return None if bits is None else bits.ue()
    except OutOfBitsError:
        return None


def _recovery_payload(sei: bytes) -> BitReader | None:
    """Walk the messages of an SEI NAL unit (H.264 7.3.2.3.1) to the recovery point."""
    data, at = rbsp(sei), 0
    while at + 2 < len(data):
        kind = size = 0
        while at < len(data) and data[at] == 255:
            kind, at = kind + 255, at + 1
        kind, at = kind + (data[at] if at < len(data) else 0), at + 1
        while at < len(data) and data[at] == 255:
            size, at = size + 255, at + 1
        size, at = size + (data[at] if at < len(data) else 0), at + 1
        if kind == RECOVERY_POINT:
            return BitReader(data[at : at + size])
        at += size
    return None


@dataclass(slots=True)
class HevcSets:
    """What HEVC slice headers depend on."""

    max_sub_layers: dict[int, int] = field(default_factory=dict)
    """by seq_parameter_set_id"""
    pps: dict[int, HevcPps] = field(default_factory=dict)
    num_tried: int = 0

    def add(self, unit: bytes) -> None:
        """Take in an SPS or PPS of the base layer; broken ones and those beyond a sane number are passed over."""
        self.num_tried += 1
        if self.num_tried > 5 * MAX_PARAMETER_SETS or len(unit) < 3 or unit[0] & 1 or unit[1] >= 8:
            return
        try:
            if unit[0] >> 1 & 63 == 33:
                sps = parse_hevc_sps(unit)
                self.max_sub_layers[sps.sps_id] = sps.max_sub_layers
            elif unit[0] >> 1 & 63 == 34:
                pps = parse_hevc_pps(unit)
                self.pps[pps.pps_id] = pps
        except OutOfBitsError:
            return

    def copy(self) -> HevcSets:
        """A copy that a sample's own parameter sets may be added to."""
        return HevcSets(dict(self.max_sub_layers), dict(self.pps))


@remembered(256)
def hevc_sets(config: bytes) -> HevcSets:
    """Parameter sets of an hvcC or Annex B configuration; not to be changed."""
    sets = HevcSets()
    units: Iterable[bytes] = annex_b_units(config) if is_annex_b(config) else hvcc_units(config)
    for unit in islice(units, 5 * MAX_PARAMETER_SETS):
        sets.add(unit)
    return sets


def hevc_facts(config: bytes, payload: bytes, length_size: int, *, complete: bool) -> SampleFacts:
    """Facts of an HEVC sample; NAL units of other layers (nuh_layer_id > 0) are passed over."""
    sets, carries_sets, recovery, any_unit = hevc_sets(config), False, None, False
    for start, end in nal_spans(payload, length_size):
        any_unit = True
        if end - start < 3 or payload[start] & 1 or payload[start + 1] >= 8:
            continue
        kind = payload[start] >> 1 & 63
        if kind < 32:
            return _hevc_result(sets, payload[start : start + SLICE_HEADER_BYTES], recovery, carries_sets=carries_sets)
        if kind in (32, 33, 34):
            if not carries_sets:
                carries_sets, sets = True, sets.copy()
            sets.add(payload[start:end])
        elif kind == 39:
            recovery = _hevc_recovery_point(payload[start + 2 : end])
    return _without_slice(any_unit, complete=complete)


def _hevc_recovery_point(sei: bytes) -> int | None:
    """recovery_poc_cnt, not below 0."""
    bits = _recovery_payload(sei)
    try:
        return None if bits is None else max(bits.se(), 0)
    except OutOfBitsError:
        return None


def _hevc_result(sets: HevcSets, slice_start: bytes, recovery: int | None, *, carries_sets: bool) -> SampleFacts:
    kind, temporal_id = slice_start[0] >> 1 & 63, (slice_start[1] & 7) - 1
    pps_id, picture_type, shown = _hevc_slice(sets, slice_start, kind)
    sub_layers = sets.max_sub_layers.get(sets.pps[pps_id].sps_id) if pps_id in sets.pps else None
    # A sub-layer non-reference picture may serve pictures of higher sub-layers (clause 7.4.2.2): only in the
    # highest one does it serve none.
    unreferenced = kind <= 14 and not kind & 1
    disposable: bool | None = unreferenced and not carries_sets
    if disposable:
        disposable = None if sub_layers is None else temporal_id == sub_layers - 1
    return _hevc_facts(16 <= kind <= 23, recovery, disposable, picture_type, shown, kind)


def _hevc_slice(sets: HevcSets, slice_start: bytes, kind: int) -> tuple[int, str | None, bool]:
    """(pps_id, picture type, pic_output_flag) of a first slice segment header (clause 7.3.6.1)."""
    bits = BitReader(rbsp(slice_start[2:]))
    pps_id = -1
    try:
        first = bits.flag()
        bits.skip(1 if 16 <= kind <= 23 else 0)
        pps_id = bits.bounded_ue(63)
        pps = sets.pps.get(pps_id)
        if pps is None or not first:
            return pps_id, None, True
        bits.skip(pps.extra_slice_header_bits)
        picture_type = HEVC_SLICE_TYPES[bits.bounded_ue(2)]
        return pps_id, picture_type, bool(bits.flag()) if pps.output_flag_present else True
    except OutOfBitsError:
        return pps_id, None, True


@lru_cache(maxsize=1024)
def _hevc_facts(
    key: bool,
    recovery: int | None,
    disposable: bool | None,
    picture_type: str | None,
    shown: bool,
    kind: int,
) -> SampleFacts:
    return SampleFacts(
        key=key, recovery_frames=recovery, shown=shown, has_picture=True, disposable=disposable,
        picture_type=picture_type, leading=6 <= kind <= 9, needs_gop_before=kind in (8, 9),
        broken_link=16 <= kind <= 18,
    )  # fmt: skip


VVC_LEADING, VVC_IRAP, VVC_GDR, VVC_SETS, VVC_PICTURE_HEADER = (2, 3), (7, 8, 9), 10, (14, 15, 16, 17), 19


def vvc_facts(payload: bytes, length_size: int, *, complete: bool) -> SampleFacts:
    """Facts of a VVC sample: NAL unit types, and ph_non_ref_pic_flag (H.266 7.3.2.8)."""
    carries_sets, non_reference, any_unit = False, None, False
    for start, end in nal_spans(payload, length_size):
        any_unit = True
        if end - start < 3 or payload[start] & 63:
            continue
        kind = payload[start + 1] >> 3
        if kind == VVC_PICTURE_HEADER:
            non_reference = bool(payload[start + 2] & 0x40)
        elif kind <= 11:
            if payload[start + 2] & 0x80:  # the picture header stands in the slice header
                non_reference = bool(payload[start + 2] & 0x20)
            return SampleFacts(
                key=kind in VVC_IRAP,
                has_picture=True,
                disposable=False if carries_sets else non_reference,
                leading=kind in VVC_LEADING,
                needs_gop_before=kind == 3,
            )
        carries_sets = carries_sets or kind in VVC_SETS
    return _without_slice(any_unit, complete=complete)
