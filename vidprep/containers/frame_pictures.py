"""Picture facts of codecs whose samples start with a frame header: VP8, VP9, AV1, MPEG-1/2/4, H.263, Theora, Dirac."""

from __future__ import annotations

from vidprep.containers.av1_headers import (
    KEY_FRAME,
    OBU_FRAME,
    OBU_FRAME_HEADER,
    OBU_SEQUENCE_HEADER,
    Av1Frame,
    Av1Sequence,
    av1_sequence_in,
    obus,
    parse_av1_frame,
    parse_av1_sequence,
)
from vidprep.containers.bits import BitReader, OutOfBitsError
from vidprep.containers.mpeg_headers import Mpeg4Layer, mpeg4_layer_in, mpeg_sequence_in, start_codes
from vidprep.containers.remembered import remembered
from vidprep.containers.samplefacts import NO_PICTURE, UNKNOWN, SampleFacts
from vidprep.containers.vpx_headers import Vp9Header, parse_vp8, parse_vp9, vp9_frames

MPEG12_TYPES = {1: "I", 2: "P", 3: "B", 4: "I"}
START_CODE_BYTES = 4
MPEG4_TYPES = "IPBP"
"""vop_coding_type; S(GMC)-VOPs are predicted pictures"""
H263_PLUS_TYPES = {0: "I", 1: "P", 2: "P", 3: "B", 4: "I", 5: "P"}


def vp8_facts(config: bytes, payload: bytes, *, complete: bool) -> SampleFacts:
    """One frame (RFC 6386). An empty sample stands for a dropped frame."""
    del config
    if not payload:
        return NO_PICTURE if complete else UNKNOWN
    try:
        header = parse_vp8(payload)
    except OutOfBitsError:
        return UNKNOWN
    return SampleFacts(
        key=header.key, shown=header.shown, has_picture=True, disposable=header.changes_nothing,
        picture_type="I" if header.key else "P",
    )  # fmt: skip


def vp9_facts(config: bytes, payload: bytes, *, complete: bool) -> SampleFacts:
    """A frame or a superframe.

    A frame that refreshes no buffer is not called disposable: the next one may predict its motion vectors, its
    segmentation map and its probabilities from it (UsePrevFrameMvs, PrevSegmentIds), which only that one tells.
    """
    del config
    try:
        headers = [parse_vp9(frame) for frame in (vp9_frames(payload) if complete else [payload])]
    except OutOfBitsError:
        return UNKNOWN
    shown: bool | None = any(header.shown for header in headers)
    first = headers[0]
    return SampleFacts(
        key=first.key, shown=shown if shown or complete else None, has_picture=True,
        disposable=_vp9_disposable(headers), picture_type=_vp9_picture_type(first),
    )  # fmt: skip


def _vp9_disposable(headers: list[Vp9Header]) -> bool | None:
    return False if any(header.refresh for header in headers) else None


def _vp9_picture_type(header: Vp9Header) -> str | None:
    if header.show_existing:
        return None
    return "I" if header.key or header.intra_only else "P"


@remembered(256)
def _av1_sequence(config: bytes) -> Av1Sequence | None:
    """The sequence header of an av1C or of bare OBUs."""
    return av1_sequence_in(config[4:] if config[:1] == b"\x81" else config)


def av1_facts(config: bytes, payload: bytes, *, complete: bool) -> SampleFacts:
    """A temporal unit: frames until one is shown."""
    sequence, carries_sequence = _av1_sequence(config), False
    frames: list[Av1Frame] = []
    any_obu = False
    try:
        for obu in obus(payload):
            any_obu = True
            if obu.kind == OBU_SEQUENCE_HEADER:
                sequence, carries_sequence = parse_av1_sequence(obu.payload), True
            elif obu.kind in (OBU_FRAME, OBU_FRAME_HEADER):
                frames.append(parse_av1_frame(obu, sequence))
    except OutOfBitsError:
        if complete or not frames:
            return UNKNOWN
    if not frames:
        return NO_PICTURE if complete and any_obu else UNKNOWN
    return _av1_result(frames, carries_sequence=carries_sequence, complete=complete)


def _av1_result(frames: list[Av1Frame], *, carries_sequence: bool, complete: bool) -> SampleFacts:
    first = frames[0]
    shown = any(frame.shown for frame in frames)
    disposable: bool | None = not (carries_sequence or any(frame.refresh for frame in frames))
    if disposable and (not complete or any(frame.show_existing or frame.refresh is None for frame in frames)):
        disposable = None  # showing an existing key frame refreshes every buffer (7.21), which only its header tells
    intra = first.frame_type in (0, 2)
    return SampleFacts(
        key=first.frame_type == KEY_FRAME and first.shown and not first.show_existing,
        shown=shown if shown or complete else None,
        has_picture=True,
        disposable=disposable,
        picture_type=None if first.show_existing else "I" if intra else "P",
    )


@remembered(256)
def _mpeg4_layer(config: bytes) -> Mpeg4Layer | None:
    return mpeg4_layer_in(config)


def mpeg4_facts(config: bytes, payload: bytes, *, complete: bool) -> SampleFacts:
    """Video object planes (ISO/IEC 14496-2, 6.2.5); a packed sample holds a P-VOP and a B-VOP.

    Of an interlaced layer the first B-VOP behind its header tells the period of a frame, by which the direct mode of
    all others scales its vectors (7.7.2.2): none is called disposable.
    """
    layer = _mpeg4_layer(config)
    types, carries_layer, planes = "", False, 0
    time_bits = None if layer is None else layer.time_increment_bits
    any_code = len(payload) <= START_CODE_BYTES  # a byte or two stand for a dropped frame
    for code, at in start_codes(payload):
        any_code = True
        if 0x20 <= code <= 0x2F:
            carries_layer, own = True, mpeg4_layer_in(payload[at - 4 : at + 128])
            time_bits = None if own is None else own.time_increment_bits
        elif code == 0xB6 and at < len(payload):
            planes += 1
            if _vop_coded(payload[at : at + 32], time_bits):
                types += MPEG4_TYPES[payload[at] >> 6]
    if not types:
        return NO_PICTURE if (complete and any_code) or planes else UNKNOWN
    return SampleFacts(
        key=types[0] == "I",
        shown=True,
        has_picture=True,
        disposable=_mpeg4_disposable(types, layer, carries_layer=carries_layer, complete=complete),
        picture_type=types[0],
        num_pictures=len(types) if complete else None,
    )


def _mpeg4_disposable(types: str, layer: Mpeg4Layer | None, *, carries_layer: bool, complete: bool) -> bool | None:
    if types[0] != "B":
        return False
    if not complete:
        return None
    return types == "B" and not carries_layer and layer is not None and not layer.interlaced


def _vop_coded(header: bytes, time_bits: int | None) -> bool:
    """vop_coded; a plane whose header cannot be read to there counts as coded."""
    if time_bits is None:
        return True
    bits = BitReader(header)
    try:
        bits.skip(2)
        while bits.flag():
            pass
        bits.skip(time_bits + 2)
        return bool(bits.flag())
    except OutOfBitsError:
        return True


@remembered(256)
def _has_mpeg_sequence(config: bytes) -> bool:
    return mpeg_sequence_in(config) is not None


def mpeg12_facts(config: bytes, payload: bytes, *, complete: bool) -> SampleFacts:
    """Pictures of MPEG-1/2 (H.262 6.2.3); two field pictures make a frame."""
    types, carries_sequence, structures = "", False, 0
    closed_gop: bool | None = None
    any_code = False
    for code, at in start_codes(payload):
        any_code = True
        if code == 0xB3:
            carries_sequence = True
        elif code == 0xB8 and at + 3 < len(payload):
            closed_gop = bool(payload[at + 3] & 0x40)
        elif code == 0x00 and at + 1 < len(payload):
            types += MPEG12_TYPES.get(payload[at + 1] >> 3 & 7, "P")
        elif code == 0xB5 and at + 2 < len(payload) and payload[at] >> 4 == 8:
            structures |= 1 << (payload[at + 2] & 3)
    if not types:
        return NO_PICTURE if complete and any_code else UNKNOWN
    single_field = structures in (2, 4)
    unreferenced: bool | None = not types.strip("B") and not carries_sequence
    if unreferenced and (single_field or not complete):
        unreferenced = None
    return SampleFacts(
        key=types[0] == "I" and (carries_sequence or _has_mpeg_sequence(config)),
        shown=True,
        has_picture=True,
        disposable=unreferenced,
        picture_type=types[0],
        closed_gop=closed_gop,
        field={2: "top", 4: "bottom"}[structures] if single_field and complete else None,
    )


def h263_facts(config: bytes, payload: bytes, *, complete: bool) -> SampleFacts:
    """A picture header (H.263 5.1)."""
    del config, complete
    bits = BitReader(payload[:16])
    try:
        if bits.u(22) != 32:
            return UNKNOWN
        bits.skip(8 + 5)
        if bits.u(3) != 7:
            kind = "P" if bits.flag() else "I"
        else:
            bits.skip(18 if bits.u(3) == 1 else 0)
            kind = H263_PLUS_TYPES.get(bits.u(3), "P")
    except OutOfBitsError:
        return UNKNOWN
    return SampleFacts(key=kind == "I", shown=True, has_picture=True, picture_type=kind)


def msmpeg4_facts(
    config: bytes, payload: bytes, *, complete: bool, bits_before: int = 0, type_bits: int = 2
) -> SampleFacts:
    """A picture header of Microsoft's MPEG-4 and Windows Media 7 and 8, which begins with the type (FFmpeg's msmpeg4dec).

    Containers of their time may claim a key frame in every sample.
    """
    del config, complete
    bits = BitReader(payload[:8])
    try:
        bits.skip(bits_before)
        kind = "IP??"[bits.u(type_bits)]
    except OutOfBitsError:
        return UNKNOWN
    return UNKNOWN if kind == "?" else SampleFacts(key=kind == "I", shown=True, has_picture=True, picture_type=kind)


def dirac_facts(config: bytes, payload: bytes, *, complete: bool) -> SampleFacts:
    """Whether the encoder names itself, in an auxiliary unit ("Dirac Specification" 9.6.1: parse info prefix and code).

    Versions of the encoder Schroedinger have quantiser steps of their own. It names itself in the first sample alone,
    and FFmpeg's decoder goes by that name: begun at a later key sample, it gives other pictures. Where no sample has
    such a unit, nothing is said of any, and the container's keys stand.
    """
    del config, complete
    return SampleFacts(key=True) if _DIRAC_AUXILIARY in payload else UNKNOWN


_DIRAC_AUXILIARY = b"BBCD\x20"


def theora_facts(config: bytes, payload: bytes, *, complete: bool) -> SampleFacts:
    """The first bits of a data packet ("Theora Specification" 7.1); an empty packet repeats the frame before."""
    del config, complete
    if not payload or payload[0] & 0x80:
        return UNKNOWN
    key = not payload[0] & 0x40
    return SampleFacts(key=key, shown=True, has_picture=True, picture_type="I" if key else "P")
