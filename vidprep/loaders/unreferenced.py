"""Which coded samples of a cut no other picture refers to: what need not be decoded unless it is wanted.

The samples alone say so. Tables lie: FFmpeg's libsvtav1 marks temporal units as disposable whose last frame is, though
a frame hidden before it is what the next units show.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.bitstream import sample_facts
from vidprep.containers.nal_pictures import hevc_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from vidprep.loaders.packets import BoolArray, Payloads
    from vidprep.records import StreamInfo
    from vidprep.timebase import IntArray

    Answers = npt.NDArray[np.uint8]

#: What the first bytes of a sample's first NAL unit say of its picture.
REFERENCE, UNREFERENCED, UNSURE = 0, 1, 2

#: By the first byte of an H.264 NAL unit: slices are types 1 to 5.
_H264_ANSWERS = np.array(
    [(REFERENCE if header & 0x60 else UNREFERENCED) if 1 <= header & 0x1F <= 5 else UNSURE for header in range(256)],
    np.uint8,
)


def are_unreferenced(info: StreamInfo, payloads: Payloads, needed: Iterable[IntArray | int]) -> BoolArray:
    """bool[p]: which samples' pictures no other refers to; False at the places that are needed anyway.

    Progressive H.264, by far the commonest, says so in the first byte of any slice: nal_ref_idc is 0 (ITU-T H.264,
    7.4.1). With fields a sample may be half a wanted frame. HEVC says so in the first two bytes (ITU-T H.265, 7.4.2.2)
    where all its sequences have the same number of sub-layers. VP9 never does: `sample_facts` says why.
    """
    if info.codec == "vp9":
        return np.zeros(len(payloads), bool)
    said, test = _said_and_test(info, payloads)
    for places in needed:
        said[places] = REFERENCE
    if UNSURE in said.tobytes():
        for place in (said == UNSURE).nonzero()[0].tolist():
            said[place] = UNREFERENCED if test(payloads[place]) else REFERENCE
    return said.view(np.bool_)  # REFERENCE or UNREFERENCED now: False or True


def _said_and_test(info: StreamInfo, payloads: Payloads) -> tuple[Answers, Callable[[memoryview], bool]]:
    """What the header of each sample's first NAL unit says, and a test of the whole sample where that is unsure."""
    if info.codec == "h264" and info.nal_length_size == 4 and info.interlaced is False:
        return _H264_ANSWERS[payloads.heads[:, 4]], is_unreferenced_h264
    if info.codec == "hevc" and info.nal_length_size == 4 and not info.later_configs:
        sub_layers = set(hevc_sets(info.codec_config).max_sub_layers.values())
        if len(sub_layers) == 1:
            highest = sub_layers.pop()
            said = _hevc_answers(highest)[payloads.heads[:, 4], payloads.heads[:, 5]]
            return said, partial(is_unreferenced_hevc, sub_layers=highest)
    unsure = np.full(len(payloads), UNSURE, np.uint8)
    return unsure, lambda payload: sample_facts(info, bytes(payload)).disposable is True


@lru_cache(maxsize=8)
def _hevc_answers(sub_layers: int) -> Answers:
    """(256, 256), by the first two bytes of a NAL unit.

    Slices are types up to 31, of the base layer; those of even types up to 14 in the highest sub-layer stand alone.
    """
    header = np.arange(1 << 16).reshape(256, 256)
    kind, layer = header >> 9 & 0x3F, header >> 3 & 0x3F
    unreferenced = (kind <= 14) & (kind % 2 == 0) & (header & 7 == sub_layers)
    return np.where((kind < 32) & (layer == 0), unreferenced, UNSURE).astype(np.uint8)


def is_unreferenced_h264(payload: bytes | memoryview) -> bool:
    """Of a sample whose NAL units stand behind four-byte lengths: slices are types 1 to 5, parameter sets 7 and 8."""
    at, end = 4, len(payload)
    while at < end:
        header = payload[at]
        if 1 <= header & 0x1F <= 5:
            return header & 0x60 == 0
        if header & 0x1F in (7, 8):
            return False
        at += int.from_bytes(payload[at - 4 : at], "big") + 4
    return False


def is_unreferenced_hevc(payload: bytes | memoryview, sub_layers: int) -> bool:
    """As of H.264: an even type up to 14, in the highest sub-layer; parameter sets are types 32 to 34."""
    at, end = 4, len(payload)
    while at + 2 < end:
        kind, layer = payload[at] >> 1 & 0x3F, (payload[at] & 1) << 5 | payload[at + 1] >> 3
        if layer == 0 and 32 <= kind <= 34:
            return False
        if layer == 0 and kind < 32:
            return kind <= 14 and kind % 2 == 0 and payload[at + 1] & 7 == sub_layers
        at += int.from_bytes(payload[at - 4 : at], "big") + 4
    return False
