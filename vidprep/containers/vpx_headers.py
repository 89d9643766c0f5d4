"""Frame headers of VP8 (RFC 6386) and VP9 ("VP9 Bitstream & Decoding Process Specification", 6.2 and annex B)."""

from __future__ import annotations

from dataclasses import dataclass

from vidprep.containers.bits import BitReader, OutOfBitsError

VP8_START_CODE = b"\x9d\x01\x2a"
VP9_SYNC_CODE = 0x498342
VP9_MATRIX: dict[int, int] = {1: 5, 2: 1, 3: 6, 4: 7, 5: 9, 7: 0}
"""color_space (7.2.2) as a matrix code point of H.273"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vp8Header:
    """The start of a VP8 frame."""

    key: bool
    version: int
    shown: bool
    width: int = 0
    height: int = 0
    changes_nothing: bool | None = None
    """True: no reference, probability or segmentation state of later frames depends on it; None = cut off"""


class _BoolDecoder:
    """RFC 6386 section 7.3, for literals of probability 1/2 only (every flag that is read here)."""

    def __init__(self, data: bytes) -> None:
        self._data = data[:64]
        if len(self._data) < 2:
            raise OutOfBitsError
        self._value = int.from_bytes(self._data[:2], "big")
        self._at = 2
        self._range = 255
        self._shifts = 0

    def flag(self, probability: int = 128) -> int:
        split = 1 + (((self._range - 1) * probability) >> 8)
        if self._value >= split << 8:
            bit, self._range, self._value = 1, self._range - split, self._value - (split << 8)
        else:
            bit, self._range = 0, split
        while self._range < 128:
            self._range <<= 1
            self._value <<= 1
            self._shifts += 1
            if self._shifts == 8:
                self._shifts = 0
                if self._at >= len(self._data):
                    raise OutOfBitsError
                self._value |= self._data[self._at]
                self._at += 1
        return bit

    def u(self, count: int) -> int:
        value = 0
        for _ in range(count):
            value = value << 1 | self.flag()
        return value

    def optional(self, count: int) -> int:
        """A flag, and `count` bits where it is set; the flag."""
        present = self.flag()
        if present:
            self.u(count)
        return present


def parse_vp8(frame: bytes) -> Vp8Header:
    """A VP8 frame, or its first bytes (sections 9.1 to 9.7). Raises OutOfBitsError."""
    if len(frame) < 3:
        raise OutOfBitsError
    key = not frame[0] & 1
    version, shown = frame[0] >> 1 & 7, bool(frame[0] & 16)
    if not key:
        return Vp8Header(key=False, version=version, shown=shown, changes_nothing=_vp8_changes_nothing(frame[3:]))
    if frame[3:6] != VP8_START_CODE or len(frame) < 10:
        raise OutOfBitsError
    width = int.from_bytes(frame[6:8], "little") & 0x3FFF
    height = int.from_bytes(frame[8:10], "little") & 0x3FFF
    return Vp8Header(key=True, version=version, shown=shown, width=width, height=height, changes_nothing=False)


def _vp8_changes_nothing(partition: bytes) -> bool | None:
    """For an inter frame's first partition: it leaves every buffer and every persistent state as it was."""
    try:
        bits = _BoolDecoder(partition)
        segmentation_updated = _vp8_segmentation(bits)
        bits.u(1 + 6 + 3)
        deltas_updated = 0
        if bits.flag():
            deltas_updated = sum(bits.optional(7) for _ in range(8 if bits.flag() else 0))
        bits.u(2 + 7)
        for _ in range(5):
            bits.optional(5)
        golden, altref = bits.flag(), bits.flag()
        copies = (0 if golden else bits.u(2)) | (0 if altref else bits.u(2))
        bits.u(2)
        keeps_probabilities, last = bits.flag(), bits.flag()
    except OutOfBitsError:
        return None
    return not (segmentation_updated or deltas_updated or golden or altref or copies or keeps_probabilities or last)


def _vp8_segmentation(bits: _BoolDecoder) -> int:
    """Section 9.3; 1 where the map or the values that later frames go by are changed."""
    if not bits.flag():
        return 0
    update_map, update_data = bits.flag(), bits.flag()
    if update_data:
        bits.flag()
        for _ in range(4):
            bits.optional(8)
        for _ in range(4):
            bits.optional(7)
    for _ in range(3 if update_map else 0):
        bits.optional(8)
    return update_map | update_data


@dataclass(frozen=True, slots=True, kw_only=True)
class Vp9Header:
    """The start of a VP9 frame's uncompressed header."""

    profile: int
    show_existing: bool = False
    key: bool = False
    intra_only: bool = False
    shown: bool = True
    error_resilient: bool = False
    refresh: int = 0
    """refresh_frame_flags"""
    width: int = 0
    height: int = 0
    bit_depth: int = 8
    color_space: int = 0
    full_range: int = 0
    subsampling: tuple[int, int] = (1, 1)


def vp9_frames(sample: bytes) -> list[bytes]:
    """The frames of a superframe (annex B), or the sample itself; a superframe needs the sample's end."""
    marker = sample[-1] if sample else 0
    if marker & 0xE0 != 0xC0:
        return [sample]
    count, size_bytes = (marker & 7) + 1, (marker >> 3 & 3) + 1
    index_bytes = 2 + count * size_bytes
    if len(sample) < index_bytes or sample[-index_bytes] != marker:
        return [sample]
    frames, at, table = [], 0, len(sample) - index_bytes + 1
    for place in range(count):
        size = int.from_bytes(sample[table + place * size_bytes : table + (place + 1) * size_bytes], "little")
        frame = sample[at : min(at + size, len(sample) - index_bytes)]
        if frame:
            frames.append(frame)
        at += size
    return frames or [sample]


def parse_vp9(frame: bytes) -> Vp9Header:
    """A VP9 frame or its first bytes. Raises OutOfBitsError."""
    bits = BitReader(frame[:32])
    if bits.u(2) != 2:
        raise OutOfBitsError
    profile = bits.flag() | bits.flag() << 1
    if profile == 3:
        bits.skip(1)
    if bits.flag():
        return Vp9Header(profile=profile, show_existing=True)
    key, shown, error_resilient = not bits.flag(), bool(bits.flag()), bool(bits.flag())
    if key:
        depth, color_space, full_range, subsampling = _vp9_color(bits, profile)
        return Vp9Header(
            profile=profile, key=True, shown=shown, error_resilient=error_resilient, refresh=255, width=bits.u(16) + 1,
            height=bits.u(16) + 1, bit_depth=depth, color_space=color_space, full_range=full_range,
            subsampling=subsampling,
        )  # fmt: skip
    intra_only = False if shown else bool(bits.flag())
    bits.skip(0 if error_resilient else 2)
    if intra_only:
        if profile:
            _vp9_color(bits, profile)
        elif bits.u(24) != VP9_SYNC_CODE:
            raise OutOfBitsError
    refresh = bits.u(8)
    width, height = _vp9_own_size(bits, intra_only=intra_only)
    return Vp9Header(
        profile=profile, intra_only=intra_only, shown=shown, error_resilient=error_resilient, refresh=refresh,
        width=width, height=height,
    )  # fmt: skip


def _vp9_own_size(bits: BitReader, *, intra_only: bool) -> tuple[int, int]:
    """The size that a frame which is no key frame states (6.2), or zeros: that of a reference, or cut off."""
    try:
        if not intra_only:
            bits.skip(12)
            if bits.flag() or bits.flag() or bits.flag():
                return 0, 0
        return bits.u(16) + 1, bits.u(16) + 1
    except OutOfBitsError:
        return 0, 0


def _vp9_color(bits: BitReader, profile: int) -> tuple[int, int, int, tuple[int, int]]:
    """frame_sync_code and color_config (6.2.2): bit depth, color_space, color_range, (subsampling_x, subsampling_y)."""
    if bits.u(24) != VP9_SYNC_CODE:
        raise OutOfBitsError
    depth = (12 if bits.flag() else 10) if profile >= 2 else 8
    color_space = bits.u(3)
    full_range, subsampling = 1, (0, 0)
    if color_space != 7:
        full_range = bits.flag()
        subsampling = (1, 1)
        if profile & 1:
            subsampling = (bits.flag(), bits.flag())
            bits.skip(1)
    elif profile & 1:
        bits.skip(1)
    else:
        raise OutOfBitsError
    return depth, color_space, full_range, subsampling
