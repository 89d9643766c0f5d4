"""The little MP4 of a cut, decoded by FFmpeg: the wanted pictures are where it says."""

from __future__ import annotations

import dataclasses
import io

import av
import numpy as np
import pytest
from clips_made import X264, cut_of, make_video
from sequential import rgb

from vidprep.errors import DecodeError
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.loaders.engines.leading import without_leading
from vidprep.loaders.frames import as_video
from vidprep.loaders.mp4_writer import cut_to_mp4

#: Times that jump back, what edit lists hide, open groups of pictures, B-frames, hidden frames, sizes, depths, lacing.
CASES = [
    "mkv_rel_time_wrap.mkv", "elst_trim_mid_gop.mp4", "elst_cut_middle.mp4", "open_gop.mp4", "avi_h264_b.avi",
    "clip_window.mp4", "vp8_altref.webm", "vp9_altref.webm", "hevc_stss_first_only.mp4", "ts_wrap33.ts",
    "odd_size.webm", "h264_10bit.mp4", "mkv_no_cues.mkv", "mkv_lacing_ebml.mkv", "avi_no_idx1.avi", "rotate90.mp4",
    "nonzero_start.mkv",
]  # fmt: skip


def pictures_at_their_places(cut):
    file, places = cut_to_mp4(cut)
    with av.open(io.BytesIO(file), format="mp4") as container:
        pictures = [rgb(frame) for frame in container.decode(video=0)]
    return np.stack([pictures[place] for place in places.tolist()])


@pytest.mark.parametrize("name", CASES)
def test_each_wanted_picture_is_the_one_at_its_place(cases, name):
    path = cases / "files" / name
    num_frames = as_video(path).table.num_frames
    for frames in [[0], [num_frames - 1], [num_frames // 2], list(range(0, num_frames, 5))]:
        cut = without_leading(cut_of(path, frames))
        assert np.array_equal(pictures_at_their_places(cut), CpuEngine().decode(cut))


def test_av1_is_decodable(tmp_path):
    path = make_video(tmp_path / "a.mkv", codec="libsvtav1", frames=12, gop=6, options={"preset": "12"})
    cut = cut_of(path, [7, 9])
    assert np.array_equal(pictures_at_their_places(cut), CpuEngine().decode(cut))


def test_a_codec_without_an_mp4_form_is_refused(tmp_path):
    cut = cut_of(make_video(tmp_path / "a.mp4", frames=6, options=X264), [0])
    with pytest.raises(DecodeError, match="theora has no MP4 form"):
        cut_to_mp4(dataclasses.replace(cut, info=dataclasses.replace(cut.info, codec="theora")))
