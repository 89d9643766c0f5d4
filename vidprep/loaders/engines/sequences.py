"""What the coded samples of a clip say of size, cropping, chroma and buffers, where NVDEC would follow without a word.

Seen on an H200 with PyNvVideoCodec 2.2.4: a session that meets a smaller size goes on giving surfaces of its first
size, scaled; one that meets a sequence parameter set with more reference pictures keeps its few buffers and overwrites
pictures that are still referred to; cropping at the left and the top is not applied. So a session serves one `Sequence`
alone, and a clip that holds two goes elsewhere.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from vidprep.containers.bits import OutOfBitsError
from vidprep.containers.parameter_sets import NO_VUI, H264Sps, HevcSps, Vui, parse_h264_sps, parse_hevc_sps
from vidprep.containers.remembered import remembered
from vidprep.containers.vpx_headers import parse_vp8, parse_vp9, vp9_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vidprep.loaders.packet_forms import Run

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


def sequences(codec: str, samples: Iterable[bytes]) -> frozenset[Sequence]:
    """The distinct ones in coded samples (Annex B for H.264 and HEVC); headers that cannot be read count as another."""
    return frozenset(
        sequence for sample in samples for sequence in _of_buffer(codec, sample, ((0, len(sample)),))
    )  # fmt: skip


def sequences_of_runs(codec: str, runs: Iterable[Run]) -> frozenset[Sequence]:
    """The same of samples that stand one behind the other."""
    return frozenset(
        sequence for run in runs for sequence in _of_buffer(codec, run.buffer, pairwise(run.offsets.tolist()))
    )  # fmt: skip


def _of_buffer(codec: str, buffer: bytes | bytearray, edges: Iterable[tuple[int, int]]) -> Iterator[Sequence]:
    """Those of the samples `buffer[start:end]`, with repeats."""
    if codec not in SPS:
        for start, end in edges:
            for size in _stated_sizes(codec, buffer, start, end):
                yield Sequence(*size)
        return
    first_bytes = SPS_FIRST_BYTES[codec]
    for start, end in edges:
        end_of_head = min(end, start + HEAD_BYTES)
        if _may_hold(buffer, start, end_of_head, first_bytes):
            for unit in SPS[codec].findall(bytes(buffer[start:end_of_head])):
                yield _of_sps(codec, unit)


def _may_hold(buffer: bytes | bytearray, start: int, end: int, first_bytes: frozenset[int]) -> bool:
    """Whether a NAL unit within [start, end) starts with one of these bytes."""
    at = buffer.find(START_CODE, start, end)
    while 0 <= at < end - 3:
        if buffer[at + 3] in first_bytes:
            return True
        at = buffer.find(START_CODE, at + 3, end)
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


def _stated_sizes(codec: str, buffer: bytes | bytearray, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Sizes that VP8 and VP9 frames state, rather than take from the frame before."""
    if codec == "vp9" and _takes_its_size(buffer, start, end):
        return
    sample = bytes(buffer[start:end])
    try:
        headers = [parse_vp8(sample)] if codec == "vp8" else [parse_vp9(frame) for frame in vp9_frames(sample)]
    except OutOfBitsError:
        yield 0, 0
        return
    for header in headers:
        if header.width:
            yield header.width, header.height


def _takes_its_size(buffer: bytes | bytearray, start: int, end: int) -> bool:
    """Whether a sample is one shown VP9 inter frame whose size is its first reference's, as nearly all are (6.2).

    frame_marker 2, two bits of profile, show_existing_frame 0, frame_type 1, show_frame 1, error_resilient_mode 0;
    reset_frame_context, refresh_frame_flags and three references in 22 bits; found_ref. The last byte would tell a
    superframe.
    """
    if end - start < 4 or buffer[end - 1] & 0xE0 == 0xC0 or buffer[start] & 0x30 == 0x30:
        return False
    return buffer[start] & 0xCF == 0x86 and buffer[start + 3] & 2 != 0
