"""vidprep.loaders.packet_forms and mp4_writer: the same pictures come out of every form of a cut."""

from __future__ import annotations

import dataclasses
import io

import av
import numpy as np
import pytest
from clips_made import X264, make_video
from sequential import rgb

from vidprep.errors import DecodeError
from vidprep.loaders.cut import read_cut
from vidprep.loaders.frames import as_video, read_frames
from vidprep.loaders.mp4_writer import cut_to_mp4
from vidprep.loaders.packet_forms import av_packet
from vidprep.sources import open_source


def cut_of(path, frames):
    video = as_video(path)
    with open_source(str(path)) as source:
        return read_cut(video, source, np.asarray(frames))


@pytest.fixture(scope="module")
def h264(tmp_path_factory):
    return make_video(tmp_path_factory.mktemp("forms") / "a.mp4", frames=40, gop=12, options=X264)


def decoded(stream_format, data):
    with av.open(io.BytesIO(data), format=stream_format) as container:
        return [rgb(frame) for frame in container.decode(video=0)]


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
