"""vidprep.loaders.references: missing reference pictures are seen in frame_num."""

from __future__ import annotations

import dataclasses
import re

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
from vidprep.loaders.packets import Packets, Payloads
from vidprep.loaders.references import (
    OTHER_RULES,
    TOO_FAR,
    UNKNOWN,
    _first_gap,
    _frame_num,
    _sequence_parameters,
    _shifts,
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
    head=st.binary(min_size=3, max_size=3), zeros=st.integers(0, 3), frame_num_bits=st.integers(4, 16),
)  # fmt: skip
def test_frame_num_by_table_is_what_reading_bit_by_bit_gives(cut, head, zeros, frame_num_bits):
    sps = _sequence_parameters(cut.info, cut.packets)._replace(frame_num_bits=frame_num_bits, separate_planes=0)
    head = (bytes(zeros) + head)[:3]
    shift = _shifts(frame_num_bits)[head[0] << 8 | head[1]]
    number = int.from_bytes(head, "big") >> shift & (1 << frame_num_bits) - 1
    assert shift == TOO_FAR or number == frame_num_bit_by_bit(rbsp(head), sps)


def test_frame_nums_of_common_slices_are_found_by_table(cut):
    sps, length_size = _sequence_parameters(cut.info, cut.packets), nal_length_size(cut.info)
    for packet in cut.packets[1:]:
        _, *head = _slice_of(packet.data, length_size)[:4]
        number = int.from_bytes(head, "big") >> _shifts(sps.frame_num_bits)[head[0] << 8 | head[1]]
        assert number & (1 << sps.frame_num_bits) - 1 == first_slice(packet.data, length_size, sps).frame_num


def exp_golomb(value):
    bits = f"{value + 1:b}"
    return "0" * (len(bits) - 1) + bits


def slice_unit(header, frame_num, frame_num_bits, first_mb=0, slice_type=5, pps_id=0, tail="1"):
    """A slice's NAL unit up to frame_num, escaped."""
    bits = "".join(map(exp_golomb, (first_mb, slice_type, pps_id))) + f"{frame_num:0{frame_num_bits}b}" + tail
    body = int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8), "big")
    return bytes([header]) + re.sub(rb"\0\0(?=[\0-\3])", b"\0\0\3", body)


SLICES = st.builds(
    slice_unit,
    header=st.sampled_from([0x01, 0x01, 0x41, 0x41, 0x41, 0x65]),
    frame_num=st.integers(0, 15),
    frame_num_bits=st.just(8),
    first_mb=st.sampled_from([0, 0, 0, 0, 700, 1 << 16]),
    slice_type=st.integers(0, 9),
    pps_id=st.sampled_from([0, 0, 0, 1, 255]),
    tail=st.sampled_from(["1", "0" * 40 + "1"]),
)
OTHER_UNITS = st.sampled_from([b"\x09\xf0", b"\x06\x05\x01a\x80", b"\x68\xce", b"\x67\x42", b"\x02abc", b"\x41", b""])
SAMPLES = st.lists(OTHER_UNITS, max_size=2).flatmap(lambda units: SLICES.map(lambda unit: [*units, unit]))


def gap_one_by_one(payloads, length_size, sps):
    """Clause 7.4.3, in a few words."""
    previous = None
    for place, payload in enumerate(payloads):
        number, header = first_slice(payload, length_size, sps)
        if number == OTHER_RULES:
            return None
        if number == UNKNOWN:
            continue
        allowed = previous is None or number in (previous, (previous + 1) % (1 << sps.frame_num_bits), 1)
        if not allowed and header & 31 != 5:
            return place
        if previous is None or header & 0x60:
            previous = number
    return None


@given(samples=st.lists(st.one_of(SLICES.map(lambda unit: [unit]), SAMPLES, st.lists(OTHER_UNITS)), max_size=12),
       length_size=st.sampled_from([1, 2, 4, 4, 4]), step=st.integers(0, 1))  # fmt: skip
def test_gaps_are_those_of_a_walk_through_each_sample(cut, samples, length_size, step):
    sps = _sequence_parameters(cut.info, cut.packets)._replace(frame_num_bits=8)
    joined = [b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in units) for units in samples]
    rising = [slice_unit(0x41, number * step, 8) for number in range(len(samples))]
    healthy = [len(unit).to_bytes(length_size, "big") + unit for unit in rising]
    for payloads in (joined, healthy, healthy[:3] + joined[:2] + healthy[3:]):
        assert _first_gap(Payloads.of(payloads), length_size, sps) == gap_one_by_one(payloads, length_size, sps)


def _slice_of(sample, length_size):
    return next(unit for unit in annexb_units(sample, length_size) if unit[0] & 31 in (1, 5))


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
