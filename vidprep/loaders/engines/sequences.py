"""What the coded samples of a clip say of size, cropping, chroma and buffers, where NVDEC would follow without a word.

Seen on an H200 with PyNvVideoCodec 2.2.4: a session that meets a smaller size goes on giving surfaces of its first
size, scaled; one that meets a sequence parameter set with more reference pictures keeps its few buffers and overwrites
pictures that are still referred to; cropping at the left and the top is not applied. So a session serves one `Sequence`
alone, and a clip that holds two goes elsewhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vidprep.containers.bits import OutOfBitsError
from vidprep.containers.parameter_sets import NO_VUI, H264Sps, HevcSps, Vui, parse_h264_sps, parse_hevc_sps
from vidprep.containers.remembered import remembered
from vidprep.containers.vpx_headers import parse_vp8, parse_vp9, vp9_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vidprep.loaders.cut import Cut
    from vidprep.loaders.elementary import Pieces
    from vidprep.loaders.packets import BoolArray, Payloads

#: A sequence parameter set behind its start code: NAL unit type 7 (H.264), 33 in the base layer (HEVC).
SPS = {
    "h264": re.compile(rb"\x00\x00\x01([\x07\x27\x47\x67].*?)(?=\x00\x00\x01|\x00\x00\x00|\Z)", re.DOTALL),
    "hevc": re.compile(rb"\x00\x00\x01(\x42\x01.*?)(?=\x00\x00\x01|\x00\x00\x00|\Z)", re.DOTALL),
}

START_CODE = b"\x00\x00\x01"

#: First bytes of such a unit: looking for them is an order faster than for the expression, and most samples have none.
SPS_FIRST_BYTES = {"h264": frozenset(b"\x67\x27\x47\x07"), "hevc": frozenset(b"\x42")}

#: Parameter sets stand before the first slice; this much of a sample is searched for them.
HEAD_BYTES = 4096

#: chroma_sample_loc_type of samples in the middle of their pixels.
CENTRE_LOCATION = 1


class Sequence(NamedTuple):
    """What a decoder session depends on. Zeros = the samples do not say."""

    width: int = 0
    """after cropping"""
    height: int = 0
    crop: tuple[int, int] = (0, 0)
    """columns and rows cut off at the left and the top"""
    chroma_location: int | None = None
    """chroma_sample_loc_type of H.264 and HEVC"""
    parameters: H264Sps | HevcSps | None = None
    """all that may decide how many pictures are kept"""


def sequences(codec: str, samples: Iterable[bytes | memoryview]) -> frozenset[Sequence]:
    """The distinct ones in coded samples (Annex B for H.264 and HEVC); headers that cannot be read count as another."""
    if codec in SPS:
        return frozenset().union(*(_in_annexb(codec, bytes(sample[:HEAD_BYTES])) for sample in samples))
    return frozenset(Sequence(*size) for sample in samples for size in _stated_sizes(codec, bytes(sample)))


def sequences_of_cut(cut: Cut, pieces: Pieces | None) -> frozenset[Sequence]:
    """The same of a cut's packets; `pieces` are theirs where the codec is H.264 or HEVC."""
    codec = cut.info.codec
    if pieces is None:
        payloads = cut.packets.payloads
        return sequences(codec, payloads[~_take_their_size(codec, payloads)])
    leads = set(pieces.leads)
    if not pieces.are_units:
        return sequences(codec, [*leads, *pieces.units])
    first_bytes = SPS_FIRST_BYTES[codec]
    units = [unit for unit in pieces.units if len(unit) and unit[0] in first_bytes]
    return sequences(codec, [*leads, *(b"".join((START_CODE, unit)) for unit in units)])


def _in_annexb(codec: str, head: bytes) -> frozenset[Sequence]:
    if not _may_hold(head, SPS_FIRST_BYTES[codec]):
        return frozenset()
    return frozenset(_of_sps(codec, unit) for unit in SPS[codec].findall(head))


def _may_hold(head: bytes, first_bytes: frozenset[int]) -> bool:
    """Whether a NAL unit starts with one of these bytes."""
    at = head.find(START_CODE)
    while 0 <= at < len(head) - 3:
        if head[at + 3] in first_bytes:
            return True
        at = head.find(START_CODE, at + 3)
    return False


@remembered(1024)
def _of_sps(codec: str, unit: bytes) -> Sequence:
    try:
        sps = parse_h264_sps(unit) if codec == "h264" else parse_hevc_sps(unit)
    except OutOfBitsError:
        return Sequence()
    # FFmpeg takes H.264 without video usability information to be sited in the centre, HEVC to the left.
    location = CENTRE_LOCATION if codec == "h264" and sps.vui is NO_VUI else sps.vui.chroma_location
    kept = Vui(reorder=sps.vui.reorder, max_dec_frame_buffering=sps.vui.max_dec_frame_buffering)
    return Sequence(sps.width, sps.height, sps.crop, location, sps._replace(sps_id=0, vui=kept))


def _stated_sizes(codec: str, sample: bytes) -> Iterator[tuple[int, int]]:
    """Sizes that VP8 and VP9 frames state, rather than take from the frame before."""
    try:
        headers = [parse_vp8(sample)] if codec == "vp8" else [parse_vp9(frame) for frame in vp9_frames(sample)]
    except OutOfBitsError:
        yield 0, 0
        return
    for header in headers:
        if header.width:
            yield header.width, header.height


def _take_their_size(codec: str, payloads: Payloads) -> BoolArray:
    """Whether each sample is one inter frame, of VP9 a shown one whose size is its first reference's, as nearly all are.

    VP8 (RFC 6386, 9.1): the first bit. VP9 (6.2): frame_marker 2, two bits of profile, show_existing_frame 0,
    frame_type 1, show_frame 1, error_resilient_mode 0; reset_frame_context, refresh_frame_flags and three references in
    22 bits; found_ref. The last byte would tell a superframe.
    """
    heads = payloads.heads
    takes: BoolArray = payloads.size >= 4
    if codec == "vp8":
        takes &= heads[:, 0] & 1 == 1
        return takes
    last = np.frombuffer(payloads.block, np.uint8).take(payloads.begin + payloads.size - 1, mode="clip")
    takes &= (last & 0xE0 != 0xC0) & (heads[:, 3] & 2 != 0)
    takes &= (heads[:, 0] & 0xCF == 0x86) & (heads[:, 0] & 0x30 != 0x30)
    return takes
