"""VP9 samples that show several pictures, such as the spatial layers of a call: the last is the one to be seen.

libvpx gives that one alone. FFmpeg, and all that count its pictures, give each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.bits import OutOfBitsError
from vidprep.containers.vpx_headers import parse_vp9, vp9_frames

if TYPE_CHECKING:
    from vidprep.loaders.cut import Cut

#: Why a clip goes to an engine that can tell them apart.
SEVERAL_PICTURES = "a VP9 sample shows several pictures"


def several_reason(cut: Cut) -> str | None:
    """SEVERAL_PICTURES, or None where every sample of the cut shows one picture or none."""
    if cut.info.codec != "vp9":
        return None
    payloads = cut.packets.payloads
    last = np.frombuffer(payloads.block, np.uint8).take(payloads.begin + payloads.size - 1, mode="clip")
    superframes = ((last & 0xE0 == 0xC0) & (payloads.size > 0)).nonzero()[0].tolist()
    return SEVERAL_PICTURES if any(_num_shown(bytes(payloads[place])) > 1 for place in superframes) else None


def _num_shown(sample: bytes) -> int:
    try:
        return sum(parse_vp9(frame).shown for frame in vp9_frames(sample))
    except OutOfBitsError:
        return 0
