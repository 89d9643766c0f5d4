"""What a clip's samples say of sequences: one kind, or several, with size, cropping and chroma location."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.containers.bits import OutOfBitsError
from vidprep.containers.vpx_headers import parse_vp9
from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.elementary import elementary_packets, elementary_pieces
from vidprep.loaders.engines.sequences import Sequence, _take_their_size, sequences, sequences_of_cut
from vidprep.loaders.frames import as_video
from vidprep.loaders.packets import Payloads

START = b"\x00\x00\x00\x01"


def found(path):
    video = as_video(str(path))
    with open_indexed(video) as source:
        cut = read_cut(video, source, np.arange(video.table.num_frames))
    kinds = sequences(video.info.codec, [data for _, data in elementary_packets(cut)])
    assert sequences_of_cut(cut, elementary_pieces(cut) if video.info.codec in ("h264", "hevc") else None) == kinds
    return video.info, kinds


@pytest.mark.parametrize(
    "name", ["clip_window.mp4", "hevc_stss_first_only.mp4", "vp8_altref.webm", "vp9_altref.webm", "ts_wrap33.ts"]
)
def test_a_plain_stream_is_one_sequence_of_its_size(cases, name):
    info, kinds = found(cases / "files" / name)
    assert [(kind.width, kind.height) for kind in kinds] == [(info.width, info.height)]


def test_a_stream_whose_size_changes_is_two(cases):
    _, kinds = found(cases / "files" / "res_change.ts")
    assert {(kind.width, kind.height) for kind in kinds} == {(160, 144), (192, 160)}


def test_streams_with_other_reference_counts_are_not_the_same(cases):
    _, plain = found(cases / "files" / "clip_window.mp4")
    (kind,) = plain
    other = kind._replace(parameters=kind.parameters._replace(max_ref_frames=kind.parameters.max_ref_frames + 1))
    assert other != kind


@pytest.mark.parametrize("codec", ["h264", "hevc", "vp8", "vp9"])
def test_what_cannot_be_read_counts_as_a_sequence_without_a_size(codec):
    start = {"h264": START + b"\x67", "hevc": START + b"\x42\x01"}.get(codec, b"")
    assert sequences(codec, [start]) == {Sequence()}


def test_samples_without_headers_say_nothing():
    assert sequences("h264", [START + b"\x65" + bytes(40)]) == frozenset()


@given(st.integers(0, 255), st.binary(min_size=3, max_size=12))
def test_a_vp9_frame_said_to_take_its_size_states_none(first, rest):
    sample = bytes([first]) + rest
    if not _take_their_size("vp9", Payloads.of([sample]))[0]:
        return
    try:
        header = parse_vp9(bytes([first]) + rest)
    except OutOfBitsError:
        pytest.fail("what cannot be read is passed over")
    assert (header.key, header.width, header.shown) == (False, 0, True)


def test_most_vp9_frames_take_their_size_from_the_one_before(cases):
    video = as_video(str(cases / "files" / "vp9_altref.webm"))
    with open_indexed(video) as source:
        packets = read_cut(video, source, np.arange(video.table.num_frames)).packets
    assert _take_their_size("vp9", packets.payloads).sum() > len(packets) / 2


@pytest.mark.parametrize("first", [0x67, 0x27, 0x47, 0x07])
def test_a_sequence_header_behind_other_units_is_found(first):
    sample = START + b"\x09\xf0" + START + b"\x06\x05" + START[1:] + bytes([first])
    assert sequences("h264", [sample]) == {Sequence()}
