"""Sequence and frame headers of AV1 ("AV1 Bitstream & Decoding Process Specification", 5.3, 5.5 and 5.9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vidprep.containers.bits import BitReader, OutOfBitsError

if TYPE_CHECKING:
    from collections.abc import Iterator

OBU_SEQUENCE_HEADER, OBU_FRAME_HEADER, OBU_FRAME = 1, 3, 6
KEY_FRAME, INTRA_ONLY_FRAME, SWITCH_FRAME = 0, 2, 3
SELECT = 2
"""SELECT_SCREEN_CONTENT_TOOLS and SELECT_INTEGER_MV: each frame says for itself"""
MAX_OBUS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Obu:
    """One open bitstream unit."""

    kind: int
    temporal_id: int
    spatial_id: int
    payload: bytes


def obus(data: bytes) -> Iterator[Obu]:
    """The units of a temporal unit or of av1C's configOBUs (5.3); one that runs over the end is given cut off."""
    at, end = 0, len(data)
    for _ in range(MAX_OBUS):
        if at >= end:
            return
        header = data[at]
        at += 1
        temporal_id = spatial_id = 0
        if header & 4 and at < end:
            temporal_id, spatial_id = data[at] >> 5, data[at] >> 3 & 3
            at += 1
        size = end - at
        if header & 2:
            size, at = _leb128(data, at)
        yield Obu(kind=header >> 3 & 15, temporal_id=temporal_id, spatial_id=spatial_id, payload=data[at : at + size])
        at += size


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    """(value, place after it); 4.10.5."""
    value = 0
    for place in range(8):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << (7 * place)
        if not byte & 128:
            break
    return value, at


@dataclass(frozen=True, slots=True, kw_only=True)
class Av1Sequence:
    """What vidprep needs of a sequence header."""

    profile: int
    level_idx: int
    reduced_still: int
    fps: float | None
    presentation_time_bits: int
    """0 where frames carry no frame_presentation_time"""
    removal_time_bits: int
    """0 where there is no decoder model"""
    operating_points: tuple[tuple[int, int], ...]
    """(operating_point_idc, decoder_model_present_for_this_op)"""
    frame_id_bits: int
    screen_content: int
    integer_mv: int
    order_hint_bits: int
    width: int
    height: int
    bit_depth: int
    monochrome: int
    primaries: int
    transfer: int
    matrix: int
    full_range: int
    subsampling: tuple[int, int]


def parse_av1_sequence(payload: bytes) -> Av1Sequence:
    """Payload of a sequence header OBU (5.5.1). Raises OutOfBitsError."""
    bits = BitReader(payload[:512])
    profile = bits.u(3)
    bits.skip(1)
    reduced = bits.flag()
    fps: float | None = None
    presentation_bits = removal_bits = 0
    points: tuple[tuple[int, int], ...] = ((0, 0),)
    if reduced:
        level = bits.u(5)
    else:
        fps, presentation_bits, removal_bits, delay_bits = _timing(bits)
        level, points = _operating_points(bits, delay_bits)
    width_bits, height_bits = bits.u(4) + 1, bits.u(4) + 1
    width, height = bits.u(width_bits) + 1, bits.u(height_bits) + 1
    frame_id_bits = 0
    if not reduced and bits.flag():
        frame_id_bits = bits.u(4) + 2 + bits.u(3) + 1
    bits.skip(3)
    screen_content, integer_mv, order_hint_bits = (SELECT, SELECT, 0) if reduced else _tools(bits)
    bits.skip(3)
    depth, monochrome, primaries, transfer, matrix, full_range, subsampling = _color(bits, profile)
    return Av1Sequence(
        profile=profile, level_idx=level, reduced_still=reduced, fps=fps, presentation_time_bits=presentation_bits,
        removal_time_bits=removal_bits, operating_points=points, frame_id_bits=frame_id_bits,
        screen_content=screen_content, integer_mv=integer_mv, order_hint_bits=order_hint_bits, width=width,
        height=height, bit_depth=depth, monochrome=monochrome, primaries=primaries, transfer=transfer, matrix=matrix,
        full_range=full_range, subsampling=subsampling,
    )  # fmt: skip


def _timing(bits: BitReader) -> tuple[float | None, int, int, int]:
    """(frames per second, bits of frame_presentation_time, of buffer_removal_time, of buffer delays)."""
    if not bits.flag():
        return None, 0, 0, 0
    units, scale, equal = bits.u(32), bits.u(32), bits.flag()
    ticks = bits.ue() + 1 if equal else 0
    fps = scale / (units * ticks) if units and ticks else None
    if not bits.flag():
        return fps, 0, 0, 0
    delay_bits = bits.u(5) + 1
    bits.skip(32)
    removal_bits, presentation_bits = bits.u(5) + 1, bits.u(5) + 1
    return fps, 0 if equal else presentation_bits, removal_bits, delay_bits


def _operating_points(bits: BitReader, delay_bits: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """(seq_level_idx[0], operating points)."""
    display_delay = bits.flag()
    points: list[tuple[int, int]] = []
    first_level = 0
    for place in range(bits.u(5) + 1):
        idc, level = bits.u(12), bits.u(5)
        first_level = first_level if place else level
        bits.skip(1 if level > 7 else 0)
        modelled = bits.flag() if delay_bits else 0
        bits.skip(2 * delay_bits + 1 if modelled else 0)
        if display_delay and bits.flag():
            bits.skip(4)
        points.append((idc, modelled))
    return first_level, tuple(points)


def _tools(bits: BitReader) -> tuple[int, int, int]:
    """(seq_force_screen_content_tools, seq_force_integer_mv, OrderHintBits)."""
    bits.skip(4)
    order_hint = bits.flag()
    bits.skip(2 if order_hint else 0)
    screen_content = SELECT if bits.flag() else bits.flag()
    integer_mv = SELECT
    if screen_content:
        integer_mv = SELECT if bits.flag() else bits.flag()
    return screen_content, integer_mv, bits.u(3) + 1 if order_hint else 0


def _color(bits: BitReader, profile: int) -> tuple[int, int, int, int, int, int, tuple[int, int]]:
    """color_config (5.5.2): depth, monochrome, primaries, transfer, matrix, full range, subsampling."""
    depth = 10 if bits.flag() else 8
    if profile == 2 and depth == 10 and bits.flag():
        depth = 12
    monochrome = 0 if profile == 1 else bits.flag()
    primaries = transfer = matrix = 2
    if bits.flag():
        primaries, transfer, matrix = bits.u(8), bits.u(8), bits.u(8)
    if monochrome:
        return depth, 1, primaries, transfer, matrix, bits.flag(), (1, 1)
    if (primaries, transfer, matrix) == (1, 13, 0):
        return depth, 0, primaries, transfer, matrix, 1, (0, 0)
    full_range = bits.flag()
    subsampling = (1, 1) if profile == 0 else (0, 0) if profile == 1 else (1, 0)
    if profile == 2 and depth == 12:
        x = bits.flag()
        subsampling = (x, bits.flag() if x else 0)
    return depth, 0, primaries, transfer, matrix, full_range, subsampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Av1Frame:
    """The start of a frame header."""

    show_existing: bool = False
    frame_type: int = 1
    shown: bool = True
    refresh: int | None = 0
    """refresh_frame_flags; None where the sequence header that its place depends on is not known"""


def parse_av1_frame(obu: Obu, sequence: Av1Sequence | None) -> Av1Frame:
    """A frame or frame header OBU as far as refresh_frame_flags (5.9.2). Raises OutOfBitsError."""
    if sequence is not None and sequence.reduced_still:
        return Av1Frame(frame_type=KEY_FRAME, refresh=255)
    bits = BitReader(obu.payload[:64])
    if bits.flag():
        return Av1Frame(show_existing=True)
    frame_type, shown = bits.u(2), bool(bits.flag())
    if frame_type == SWITCH_FRAME or (frame_type == KEY_FRAME and shown):
        return Av1Frame(frame_type=frame_type, shown=shown, refresh=255)
    if sequence is None:
        return Av1Frame(frame_type=frame_type, shown=shown, refresh=None)
    bits.skip(sequence.presentation_time_bits if shown else 1)
    error_resilient = bits.flag()
    bits.skip(1)
    screen_content = bits.flag() if sequence.screen_content == SELECT else sequence.screen_content
    if screen_content and sequence.integer_mv == SELECT:
        bits.skip(1)
    bits.skip(sequence.frame_id_bits + 1 + sequence.order_hint_bits)
    if frame_type not in (KEY_FRAME, INTRA_ONLY_FRAME) and not error_resilient:
        bits.skip(3)
    if sequence.removal_time_bits and bits.flag():
        bits.skip(sum(_in_operating_point(obu, *point) for point in sequence.operating_points)
                  * sequence.removal_time_bits)  # fmt: skip
    return Av1Frame(frame_type=frame_type, shown=shown, refresh=bits.u(8))


def _in_operating_point(obu: Obu, idc: int, modelled: int) -> bool:
    if not modelled:
        return False
    return not idc or bool(idc >> obu.temporal_id & 1 and idc >> (obu.spatial_id + 8) & 1)


def av1_sequence_in(data: bytes) -> Av1Sequence | None:
    """The first sequence header among the OBUs of `data` that can be read."""
    for obu in obus(data):
        if obu.kind == OBU_SEQUENCE_HEADER:
            try:
                return parse_av1_sequence(obu.payload)
            except OutOfBitsError:
                continue
    return None
