"""Headers of MPEG-1/2 video (ISO/IEC 11172-2, ITU-T H.262), MPEG-4 part 2 (ISO/IEC 14496-2), H.263 and JPEG."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from vidprep.containers.bits import BitReader, OutOfBitsError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_UNITS = 4096

#: H.262 table 6-4, frame_rate_code 1..8.
FRAME_RATES: tuple[Fraction, ...] = (
    Fraction(24000, 1001), Fraction(24), Fraction(25), Fraction(30000, 1001), Fraction(30), Fraction(50),
    Fraction(60000, 1001), Fraction(60),
)  # fmt: skip

#: H.262 table 6-3, aspect_ratio_information 2..4: the shape of the display.
DISPLAY_ASPECTS: dict[int, Fraction] = {2: Fraction(4, 3), 3: Fraction(16, 9), 4: Fraction(221, 100)}

#: ISO/IEC 11172-2, 2.4.3.2, pel_aspect_ratio 1..14: height over width, in ten-thousandths.
MPEG1_PEL_ASPECTS: tuple[int, ...] = (
    10000, 6735, 7031, 7615, 8055, 8437, 8935, 9157, 9815, 10255, 10695, 10950, 11575, 12015,
)  # fmt: skip

#: ISO/IEC 14496-2 table 6-12, aspect_ratio_info 1..5 (H.263 has the same); 15 is spelt out.
MPEG4_PEL_ASPECTS: tuple[tuple[int, int], ...] = ((1, 1), (12, 11), (10, 11), (16, 11), (40, 33))

#: H.263 table 1: source format -> width, height.
H263_SIZES: dict[int, tuple[int, int]] = {
    1: (128, 96), 2: (176, 144), 3: (352, 288), 4: (704, 576), 5: (1408, 1152),
}  # fmt: skip


def start_codes(data: bytes) -> Iterator[tuple[int, int]]:
    """(code, place of the byte after it) of each `00 00 01 code`."""
    at = data.find(b"\0\0\1")
    for _ in range(MAX_UNITS):
        if at < 0 or at + 3 >= len(data):
            return
        yield data[at + 3], at + 4
        at = data.find(b"\0\0\1", at + 3)


@dataclass(slots=True, kw_only=True)
class MpegSequence:
    """An MPEG-1/2 sequence header and its extensions, filled in as they are met."""

    width: int
    height: int
    aspect: int
    rate: Fraction | None
    mpeg2: bool = False
    profile_and_level: int = 0
    progressive: bool = True
    chroma_format: int = 1
    low_delay: bool = False
    primaries: int = 2
    transfer: int = 2
    matrix: int = 2
    display: tuple[int, int] | None = None

    @property
    def sar(self) -> tuple[int, int] | None:
        """Width over height of a sample."""
        if not self.mpeg2:
            if not 1 <= self.aspect <= len(MPEG1_PEL_ASPECTS):
                return None
            ratio = Fraction(10000, MPEG1_PEL_ASPECTS[self.aspect - 1])
            return ratio.numerator, ratio.denominator
        if self.aspect in DISPLAY_ASPECTS:
            width, height = self.display or (self.width, self.height)
            ratio = DISPLAY_ASPECTS[self.aspect] * height / width
            return ratio.numerator, ratio.denominator
        return (1, 1) if self.aspect == 1 else None


def mpeg_sequence_in(data: bytes) -> MpegSequence | None:
    """The first sequence header in `data`, with the extensions that follow it."""
    sequence: MpegSequence | None = None
    for code, at in start_codes(data):
        bits = BitReader(data[at : at + 64])
        try:
            if code == 0xB3 and sequence is None:
                sequence = _mpeg_sequence(bits)
            elif code == 0xB5 and sequence is not None:
                _extend(sequence, bits)
            elif code in (0x00, 0xB8) and sequence is not None:
                break
        except OutOfBitsError:
            continue
    return sequence


def _mpeg_sequence(bits: BitReader) -> MpegSequence:
    width, height, aspect, rate = bits.u(12), bits.u(12), bits.u(4), bits.u(4)
    if not width or not height:
        raise OutOfBitsError
    return MpegSequence(
        width=width, height=height, aspect=aspect, rate=FRAME_RATES[rate - 1] if 1 <= rate <= 8 else None
    )


def _extend(sequence: MpegSequence, bits: BitReader) -> None:
    """sequence_extension (H.262 6.2.2.3) and sequence_display_extension (6.2.2.4)."""
    kind = bits.u(4)
    if kind == 1:
        sequence.mpeg2 = True
        sequence.profile_and_level = bits.u(8)
        sequence.progressive = bool(bits.flag())
        sequence.chroma_format = bits.u(2)
        sequence.width |= bits.u(2) << 12
        sequence.height |= bits.u(2) << 12
        bits.skip(12 + 1 + 8)
        sequence.low_delay = bool(bits.flag())
        factor = Fraction(bits.u(2) + 1, bits.u(5) + 1)
        sequence.rate = sequence.rate and sequence.rate * factor
    elif kind == 2:
        bits.skip(3)
        if bits.flag():
            sequence.primaries, sequence.transfer, sequence.matrix = bits.u(8), bits.u(8), bits.u(8)
        width = bits.u(14)
        bits.skip(1)
        height = bits.u(14)
        if width and height:
            sequence.display = (width, height)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpeg4Layer:
    """An MPEG-4 part 2 video object layer."""

    profile_and_level: int | None
    width: int
    height: int
    sar: tuple[int, int] | None
    fps: float | None
    low_delay: bool | None
    interlaced: bool
    time_increment_bits: int


def mpeg4_layer_in(data: bytes) -> Mpeg4Layer | None:
    """The first video object layer in `data` (esds' decoder-specific info, or a sample with its headers)."""
    profile: int | None = None
    for code, at in start_codes(data):
        if code == 0xB0 and at < len(data):
            profile = data[at]
        elif 0x20 <= code <= 0x2F:
            try:
                return _mpeg4_layer(BitReader(data[at : at + 128]), profile)
            except OutOfBitsError:
                continue
    return None


def _mpeg4_layer(bits: BitReader, profile: int | None) -> Mpeg4Layer:
    """Clause 6.2.3."""
    bits.skip(9)
    version = 1
    if bits.flag():
        version = bits.u(4)
        bits.skip(3)
    sar = _mpeg4_aspect(bits)
    low_delay = _mpeg4_control(bits)
    shape = bits.u(2)
    if shape == 3 and version != 1:
        bits.skip(4)
    bits.skip(1)
    resolution = bits.u(16)
    if not resolution:
        raise OutOfBitsError
    bits.skip(1)
    time_bits = max((resolution - 1).bit_length(), 1)
    increment = bits.u(time_bits) if bits.flag() else 0
    if shape:
        raise OutOfBitsError  # no rectangular picture: no decoder at hand serves it
    bits.skip(1)
    width = bits.u(13)
    bits.skip(1)
    height = bits.u(13)
    bits.skip(1)
    interlaced = bool(bits.flag())
    bits.skip(1)
    if bits.u(1 if version == 1 else 2) == 1:
        raise OutOfBitsError  # static sprite
    return Mpeg4Layer(
        profile_and_level=profile, width=width, height=height, sar=sar, low_delay=low_delay,
        fps=resolution / increment if increment else None, interlaced=interlaced, time_increment_bits=time_bits,
    )  # fmt: skip


def _mpeg4_aspect(bits: BitReader) -> tuple[int, int] | None:
    code = bits.u(4)
    if code == 15:
        width, height = bits.u(8), bits.u(8)
        return (width, height) if width and height else None
    return MPEG4_PEL_ASPECTS[code - 1] if 1 <= code <= len(MPEG4_PEL_ASPECTS) else None


def _mpeg4_control(bits: BitReader) -> bool | None:
    """vol_control_parameters: low_delay, or None where it is not said."""
    if not bits.flag():
        return None
    bits.skip(2)
    low_delay = bool(bits.flag())
    if bits.flag():
        bits.skip(79)
    return low_delay


def h263_size(picture: bytes) -> tuple[int, int] | None:
    """Width and height of a picture header with a standard source format or a custom one (H.263 5.1)."""
    bits = BitReader(picture[:16])
    try:
        if bits.u(22) != 32:
            return None
        bits.skip(8 + 5)
        source = bits.u(3)
        if source != 7:
            return H263_SIZES.get(source)
        if bits.u(3) != 1:
            return None
        source = bits.u(3)
        if source != 6:
            return H263_SIZES.get(source)
        bits.skip(15 + 9 + 1)
        bits.skip(4)
        width = (bits.u(9) + 1) * 4
        bits.skip(1)
        return width, bits.u(9) * 4
    except OutOfBitsError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JpegFrame:
    """A JPEG start-of-frame segment (ITU-T T.81 B.2.2)."""

    marker: int
    bit_depth: int
    width: int
    height: int
    sampling: tuple[tuple[int, int], ...]
    """horizontal and vertical factors of each component"""
    adobe_rgb: bool


def jpeg_frame_in(data: bytes) -> JpegFrame | None:
    """The first start-of-frame segment of a JPEG picture."""
    at = data.find(b"\xff\xd8")
    at, adobe_rgb = at + 2, False
    for _ in range(256):
        if at < 2 or at + 4 > len(data) or data[at] != 0xFF:
            return None
        marker, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == 0xFF:
            at += 1
            continue
        body = data[at + 4 : at + 2 + size]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _jpeg_frame(marker, body, adobe_rgb=adobe_rgb)
        adobe_rgb = adobe_rgb or (marker == 0xEE and body[:5] == b"Adobe" and body[11:12] == b"\0")
        at += 2 + size
    return None


def _jpeg_frame(marker: int, body: bytes, *, adobe_rgb: bool) -> JpegFrame | None:
    if len(body) < 6 or len(body) < 6 + 3 * body[5]:
        return None
    factors = [body[7 + 3 * i] for i in range(body[5])]
    return JpegFrame(
        marker=marker,
        bit_depth=body[0],
        height=int.from_bytes(body[1:3], "big"),
        width=int.from_bytes(body[3:5], "big"),
        sampling=tuple((factor >> 4, factor & 15) for factor in factors),
        adobe_rgb=adobe_rgb,
    )
