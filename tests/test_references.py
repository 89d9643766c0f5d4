"""vidprep.loaders.references: missing reference pictures are seen in frame_num."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from clips_made import X264, make_video
from hypothesis import given
from hypothesis import strategies as st

from vidprep.containers.bits import BitReader, OutOfBitsError, rbsp
from vidprep.containers.bitstream import sample_facts
from vidprep.errors import DecodeError
from vidprep.loaders.cut import read_cut
from vidprep.loaders.frames import as_video, read_frames
from vidprep.loaders.packet_forms import annexb_units, nal_length_size
from vidprep.loaders.packets import Packets
from vidprep.loaders.references import (
    UNKNOWN,
    _frame_num,
    _frame_nums_at_once,
    _sequence_parameters,
    first_gaps,
    first_slice,
)
from vidprep.records import SampleTable
from vidprep.sources import open_source


@pytest.fixture(scope="module", params=["mp4", "ts"])
def made(request, tmp_path_factory):
    """40 frames in one GOP, NAL units behind lengths and behind start codes."""
    path = tmp_path_factory.mktemp("references") / f"a.{request.param}"
    return make_video(path, frames=40, gop=40, options=X264)


@pytest.fixture(scope="module")
def cut(made):
    video = as_video(made)
    with open_source(str(made)) as source:
        return read_cut(video, source, np.arange(40))


def without(packets, places):
    return packets[np.delete(np.arange(len(packets)), places)]


def is_reference(cut, packet):
    return sample_facts(cut.info, packet.data).disposable is False


def test_a_whole_stream_has_no_gap(cut):
    assert len(cut.packets) == 40
    assert first_gaps(cut.info, cut.packets) == []


def test_the_packet_after_a_missing_reference_is_named(cut):
    references = [place for place, packet in enumerate(cut.packets) if is_reference(cut, packet)]
    assert 10 < len(references) < 40
    sps, found = _sequence_parameters(cut.info, cut.packets), 0
    for place in references[1:-1]:
        packets = without(cut.packets, place)
        after = cut.packets[place + 1]
        if first_slice(after.data, nal_length_size(cut.info), sps).frame_num == 1:  # may follow anything
            continue
        assert first_gaps(cut.info, packets) == [after.row]
        found += 1
    assert found > 10


def test_unreferenced_pictures_may_be_left_out(cut):
    packets = Packets.of(packet for packet in cut.packets if is_reference(cut, packet))
    assert first_gaps(cut.info, packets) == []


def test_other_codecs_and_streams_that_allow_gaps_are_not_judged(cut):
    packets = without(cut.packets, range(1, 20))
    assert first_gaps(cut.info, packets) != []
    assert first_gaps(dataclasses.replace(cut.info, codec="hevc"), packets) == []
    assert first_gaps(cut.info, Packets.of(())) == []


@pytest.mark.parametrize("made", ["mp4"], indirect=True)
def test_a_clip_whose_references_are_missing_fails_naming_video_and_frame(cut, made):
    video, table = as_video(made), as_video(made).table
    lost = next(p.row for p in cut.packets[12:] if is_reference(cut, p))
    keep = np.arange(len(table)) != lost
    columns = {name: getattr(table, name)[keep] for name in ("offset", "size", "pts", "flags")}
    holed = dataclasses.replace(video, parsed=dataclasses.replace(video.parsed, table=SampleTable(**columns)))
    last = holed.table.num_frames - 1
    with pytest.raises(DecodeError, match="reference pictures are missing before coded sample") as error:
        read_frames(holed, [last])
    assert (error.value.uri, error.value.frame_index) == (str(made), last)
    assert read_frames(holed, [0, 3]).shape[0] == 2


def frame_num_bit_by_bit(head, sps):
    bits = BitReader(head)
    try:
        for _ in range(3):
            bits.ue()
        bits.skip(2 * sps.separate_planes)
        return bits.u(sps.frame_num_bits)
    except OutOfBitsError:
        return None


@given(
    head=st.binary(max_size=24), zeros=st.integers(0, 6), frame_num_bits=st.integers(4, 16), separate=st.integers(0, 1)
)
def test_frame_num_is_what_reading_bit_by_bit_gives(cut, head, zeros, frame_num_bits, separate):
    sps = _sequence_parameters(cut.info, cut.packets)
    sps = sps._replace(frame_num_bits=frame_num_bits, separate_planes=separate)
    head = (bytes(zeros) + head)[:24]
    assert _frame_num(head, sps) == frame_num_bit_by_bit(head, sps)


@given(
    heads=st.lists(st.binary(min_size=4, max_size=4), min_size=1, max_size=20),
    header=st.sampled_from([0x01, 0x21, 0x41, 0x65, 0x06, 0x67, 0x02]),
    zeros=st.integers(0, 3),
    frame_num_bits=st.integers(4, 16),
)
def test_many_frame_nums_at_once_are_those_read_one_by_one_or_unknown(cut, heads, header, zeros, frame_num_bits):
    sps = _sequence_parameters(cut.info, cut.packets)._replace(frame_num_bits=frame_num_bits, separate_planes=0)
    heads = [(bytes(zeros) + head)[:4] for head in heads]
    first = np.frombuffer(b"".join(b"1234" + bytes([header]) + head for head in heads), np.uint8)
    for head, number in zip(heads, _frame_nums_at_once(first.reshape(-1, 9), sps).tolist(), strict=True):
        assert number == UNKNOWN or (number == frame_num_bit_by_bit(rbsp(head), sps) and header & 31 in (1, 5))


def test_frame_nums_of_common_slices_are_read_at_once(cut):
    sps, length_size = _sequence_parameters(cut.info, cut.packets), nal_length_size(cut.info)
    packets = cut.packets[1:]
    payloads = [packet.data if length_size else bytes(4) + _slice_of(packet.data) for packet in packets]
    heads = np.frombuffer(b"".join(payload[:9] for payload in payloads), np.uint8).reshape(-1, 9)
    want = [first_slice(packet.data, length_size, sps).frame_num for packet in packets]
    assert _frame_nums_at_once(heads, sps).tolist() == want


def _slice_of(sample):
    return next(unit for unit in annexb_units(sample) if unit[0] & 31 in (1, 5))


def test_each_segment_is_judged_from_its_own_start(cut):
    packets, middle = cut.packets, 20
    assert first_gaps(cut.info, without(packets, range(10, middle))) != []
    assert first_gaps(cut.info, without(packets, range(10, middle)), (0, 10)) == []
    gaps = {place: first_gaps(cut.info, without(packets, place)) for place in range(1, 39)}
    early = next(place for place in range(2, 10) if gaps[place])
    late = next(place for place in range(middle + 2, 38) if gaps[place])
    holed = without(packets, (early, late))
    assert first_gaps(cut.info, holed) == gaps[early]
    assert first_gaps(cut.info, holed, (0, middle - 1)) == gaps[early] + gaps[late]
