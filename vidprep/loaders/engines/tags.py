"""Numbers that ride along with coded pictures through a decoder, in SEI messages: they tell its pictures apart.

NVDEC's parser hands time stamps out anew, in ascending order, to pictures in display order; whose picture it is cannot
be seen from them. An unregistered user data message belongs to the picture that follows it (H.264, 7.4.1.2.3 and D.2.7;
H.265, 7.4.2.4.4 and D.3.7) and comes out with it, whatever the order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from vidprep.loaders.elementary import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vidprep.loaders.elementary import Pieces

#: payloadType of user_data_unregistered.
USER_DATA_UNREGISTERED = 5

#: uuid_iso_iec_11578 of our messages; no byte of a message is zero, so that none needs emulation prevention.
UUID = b"vidprep-number-1"

#: Bits of a number, seven a byte.
SHIFTS = (21, 14, 7, 0)
MAX_NUMBER = (1 << 28) - 1

MESSAGE_BYTES = len(UUID) + len(SHIFTS)

#: NAL unit header of an SEI message.
SEI_HEADER = {"h264": b"\x06", "hevc": b"\x4e\x01"}


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


def tagged(codec: str, pieces: Pieces, first: int, last: int, numbers: Iterable[int]) -> bytes:
    """The packets [first, last) in one piece, each of those whose numbers are given with its number."""
    start, stop, places = pieces.starts[first], pieces.starts[last], pieces.tag_places
    leads = pieces.leads[start:stop]
    for number in numbers:
        place = places[number] - start
        leads[place] = tag(codec, number) + leads[place]
    return joined(leads, pieces.units[start:stop])


def number_of(messages: Iterable[tuple[dict[str, int], Sequence[int]]]) -> int | None:
    """The number among a picture's SEI messages, as PyNvVideoCodec gives them; None where there is not exactly one."""
    found = None
    for kind, payload in messages:
        if kind["sei_type"] == USER_DATA_UNREGISTERED and len(payload) == MESSAGE_BYTES:
            number = _number_in(bytes(payload))
            if number is not None and found is not None:
                return None
            found = found if number is None else number
    return found


@lru_cache(maxsize=4096)
def _number_in(message: bytes) -> int | None:
    if not message.startswith(UUID):
        return None
    digits = message[len(UUID) :]
    return sum((digit & 0x7F) << shift for digit, shift in zip(digits, SHIFTS, strict=True))
