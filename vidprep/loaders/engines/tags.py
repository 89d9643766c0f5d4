"""Numbers that ride along with coded pictures through a decoder, in SEI messages: they tell its pictures apart.

NVDEC's parser hands time stamps out anew, in ascending order, to pictures in display order; whose picture it is cannot
be seen from them. An unregistered user data message belongs to the picture that follows it (H.264, 7.4.1.2.3 and D.2.7;
H.265, 7.4.2.4.4 and D.3.7) and comes out with it, whatever the order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: payloadType of user_data_unregistered.
USER_DATA_UNREGISTERED = 5

#: uuid_iso_iec_11578 of our messages; no byte of a message is zero, so that none needs emulation prevention.
UUID = b"vidprep-number-1"

#: Bits of a number, seven a byte.
SHIFTS = (21, 14, 7, 0)
MAX_NUMBER = (1 << 28) - 1

#: NAL unit header of an SEI message, and first byte (masked) of an access unit delimiter, which nothing may precede.
SEI_HEADER = {"h264": b"\x06", "hevc": b"\x4e\x01"}
DELIMITER = {"h264": (0x1F, 9), "hevc": (0x7E, 35 << 1)}


@lru_cache(maxsize=4096)
def tag(codec: str, number: int) -> bytes:
    """An SEI NAL unit in Annex B that carries the number, 0 to MAX_NUMBER.

    Raises:
        ValueError: the number is out of range.
    """
    if not 0 <= number <= MAX_NUMBER:
        raise ValueError(f"{number} is not within 0..{MAX_NUMBER}")
    digits = bytes(0x80 | number >> shift & 0x7F for shift in SHIFTS)
    payload = UUID + digits
    message = bytes((USER_DATA_UNREGISTERED, len(payload))) + payload
    return b"\0\0\0\1" + SEI_HEADER[codec] + message + b"\x80"  # rbsp_trailing_bits


def place_of_tag(codec: str, buffer: bytes | bytearray, start: int, end: int) -> int:
    """Where in a coded sample in Annex B, `buffer[start:end]`, a number goes: behind its delimiter, or before it all."""
    mask, delimiter = DELIMITER[codec]
    first = buffer.find(b"\1", start, min(start + 8, end)) + 1
    if first == 0 or first >= end or buffer[first] & mask != delimiter:
        return start
    behind = buffer.find(b"\0\0\1", first, end)
    return behind if behind > 0 else start


def number_of(messages: Iterable[tuple[dict[str, int], Sequence[int]]]) -> int | None:
    """The number among a picture's SEI messages, as PyNvVideoCodec gives them; None where there is not exactly one."""
    found = None
    for kind, payload in messages:
        if kind["sei_type"] == USER_DATA_UNREGISTERED and len(payload) == len(UUID) + len(SHIFTS):
            message = bytes(payload)
            if message.startswith(UUID):
                if found is not None:
                    return None
                digits = message[len(UUID) :]
                found = sum((digit & 0x7F) << shift for digit, shift in zip(digits, SHIFTS, strict=True))
    return found
