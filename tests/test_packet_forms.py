"""vidprep.loaders.packet_forms and mp4_writer: the same pictures come out of every form of a cut."""

from __future__ import annotations

import dataclasses
import io
import itertools

import av
import numpy as np
import pytest
from clips_made import X264, make_video
from hypothesis import given
from hypothesis import strategies as st
from sequential import rgb

from vidprep.errors import DecodeError
from vidprep.loaders.cut import Packet, read_cut
from vidprep.loaders.frames import as_video, read_frames
from vidprep.loaders.mp4_writer import cut_to_mp4
from vidprep.loaders.packet_forms import (
    FEW_SAMPLES,
    annexb,
    annexb_units,
    av_packet,
    elementary_packets,
    elementary_runs,
)
from vidprep.sources import open_source

UNITS = st.lists(st.binary(min_size=1, max_size=40).filter(lambda unit: unit[-1] and b"\0\0" not in unit), max_size=6)


def cut_of(path, frames):
    video = as_video(path)
    with open_source(str(path)) as source:
        return read_cut(video, source, np.asarray(frames))


@given(UNITS, st.integers(1, 4))
def test_length_prefixes_become_start_codes(units, length_size):
    sample = b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in units)
    converted = annexb(sample, length_size)
    assert annexb_units(converted) == units
    assert annexb(converted, 0) == converted


@pytest.mark.parametrize("length_size", [1, 2, 4])
def test_a_unit_that_runs_past_the_end_is_an_error(length_size):
    with pytest.raises(ValueError, match="past the end"):
        annexb((9).to_bytes(length_size, "big") + b"12345", length_size)


@pytest.fixture(scope="module")
def h264(tmp_path_factory):
    return make_video(tmp_path_factory.mktemp("forms") / "a.mp4", frames=40, gop=12, options=X264)


@pytest.fixture(scope="module")
def h264_cut(h264):
    return cut_of(h264, [0])


def decoded(stream_format, data):
    with av.open(io.BytesIO(data), format=stream_format) as container:
        return [rgb(frame) for frame in container.decode(video=0)]


def test_annex_b_packets_alone_are_a_decodable_stream(h264):
    cut = cut_of(h264, range(12, 24))
    stream = b"".join(data for _, data in elementary_packets(cut))
    assert np.array_equal(decoded("h264", stream)[-12:], read_frames(h264, range(12, 24), engine="cpu"))


@pytest.mark.parametrize("num_samples", [1, FEW_SAMPLES - 1, 3 * FEW_SAMPLES])
@pytest.mark.parametrize("length_size", [1, 2, 3, 4])
@given(some=st.lists(UNITS.filter(bool), min_size=1, max_size=5))
def test_runs_hold_the_units_of_every_sample_behind_start_codes(h264_cut, length_size, num_samples, some):
    samples = [some[place % len(some)] for place in range(num_samples)]
    (run,) = elementary_runs(length_prefixed(h264_cut, samples, length_size))
    sets, *rest = (bytes(run.buffer[a:b]) for a, b in itertools.pairwise(run.offsets))
    assert [annexb_units(sample) for sample in rest] == samples[1:]
    assert annexb_units(sets)[2:] == samples[0]
    assert run.rows.tolist() == list(range(num_samples))
    assert run.offsets[-1] == len(run.buffer)


@pytest.mark.parametrize("num_samples", [1, 3 * FEW_SAMPLES])
@pytest.mark.parametrize("tail", [b"\0\0\0\x09abc", b"\0\0", b"\0\0\0\x01a\xff\xff\xff\xff"])
def test_a_unit_that_runs_past_its_sample_is_an_error_though_another_sample_follows(h264_cut, num_samples, tail):
    cut = length_prefixed(h264_cut, [[b"whole", b"units"]] * num_samples, 4)
    place = num_samples // 2
    packets = [*cut.packets[:place], cut.packets[place]._replace(payload=tail), *cut.packets[place + 1 :]]
    with pytest.raises(DecodeError, match=rf"coded sample {place}: a NAL unit runs past the end"):
        elementary_runs(dataclasses.replace(cut, packets=tuple(packets)))


def length_prefixed(cut, samples, length_size):
    """A cut of one segment whose samples have these units."""
    payloads = [b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in units) for units in samples]
    packets = tuple(Packet(row, memoryview(payload), key=row == 0) for row, payload in enumerate(payloads))
    info = dataclasses.replace(cut.info, nal_length_size=length_size)
    return dataclasses.replace(cut, packets=packets, info=info, segment_starts=(0,))


def test_parameter_sets_stand_before_each_segment(h264):
    cut = cut_of(h264, [1, 30])
    packets = elementary_packets(cut)
    assert len(cut.segment_starts) == 2
    for place in cut.segment_starts:
        assert [unit[0] & 31 for unit in annexb_units(packets[place][1])][:2] == [7, 8]
    assert [row for row, _ in packets] == [packet.row for packet in cut.packets]


@pytest.mark.parametrize(
    "name",
    ["open_gop.mp4", "hevc_stss_first_only.mp4", "vp9_altref.webm", "vp8_altref.webm", "odd_size.webm", "h264_10bit.mp4",
     "mkv_no_cues.mkv", "mkv_lacing_ebml.mkv", "avi_no_idx1.avi", "ts_wrap33.ts", "rotate90.mp4", "nonzero_start.mkv"],
)  # fmt: skip
def test_the_mp4_form_shows_the_wanted_frames_where_it_says(cases, name):
    path = cases / "files" / name
    video = as_video(path)
    wanted = np.unique([0, video.table.num_frames // 3, video.table.num_frames // 2, video.table.num_frames - 1])
    data, places = cut_to_mp4(cut_of(path, wanted))
    pictures = decoded("mp4", data)
    assert np.array_equal(np.stack([pictures[place] for place in places]), read_frames(path, wanted, engine="cpu"))


def test_the_mp4_form_of_av1_is_decodable(tmp_path):
    path = make_video(tmp_path / "a.mkv", codec="libsvtav1", frames=12, gop=6, options={"preset": "12"})
    data, places = cut_to_mp4(cut_of(path, [7, 9]))
    pictures = decoded("mp4", data)
    assert np.array_equal(np.stack([pictures[place] for place in places]), read_frames(path, [7, 9], engine="cpu"))


def test_a_malformed_packet_is_an_error_naming_video_and_frame(h264):
    cut = cut_of(h264, [3, 5])
    packets = list(cut.packets)
    packets[2] = packets[2]._replace(payload=b"\xff\xff\xff\xff" + packets[2].data[4:])
    with pytest.raises(DecodeError, match="past the end") as error:
        elementary_packets(dataclasses.replace(cut, packets=tuple(packets)))
    assert error.value.uri == str(h264)
    assert error.value.frame_index in (3, 5)


def test_a_codec_without_an_mp4_form_is_refused(h264):
    cut = cut_of(h264, [0])
    with pytest.raises(DecodeError, match="theora has no MP4 form"):
        cut_to_mp4(dataclasses.replace(cut, info=dataclasses.replace(cut.info, codec="theora")))


def test_packets_for_ffmpeg_are_followed_by_zeros(h264):
    packet = cut_of(h264, [0]).packets[0]
    converted = av_packet(packet)
    assert bytes(converted) == packet.data
    assert converted.pts == packet.row
    assert converted.buffer_ptr != av.Packet(packet.data).buffer_ptr
