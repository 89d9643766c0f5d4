"""The little MP4 of a cut, decoded by FFmpeg: the wanted pictures are where it says."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest

from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.engines.colour import RgbConverter
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.loaders.engines.leading import without_leading
from vidprep.loaders.frames import as_video
from vidprep.loaders.mp4_writer import cut_to_mp4

#: Times that jump back, what edit lists hide, open groups of pictures, B-frames, hidden frames.
CASES = [
    "mkv_rel_time_wrap.mkv", "elst_trim_mid_gop.mp4", "elst_cut_middle.mp4", "open_gop.mp4", "avi_h264_b.avi",
    "clip_window.mp4", "vp8_altref.webm", "vp9_altref.webm", "hevc_stss_first_only.mp4", "ts_wrap33.ts",
]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_wanted_picture_is_the_one_at_its_place(cases, name):
    video = as_video(cases / "files" / name)
    num_frames = video.table.num_frames
    for frames in [[0], [num_frames - 1], [num_frames // 2], list(range(0, num_frames, 5))]:
        with open_indexed(video) as source:
            cut = without_leading(read_cut(video, source, np.array(frames)))
        file, places = cut_to_mp4(cut)
        with av.open(io.BytesIO(file)) as container:
            convert = RgbConverter()
            pictures = [convert(frame) for frame in container.decode(video=0)]
        want = CpuEngine().decode(cut)
        got = np.stack([pictures[place] for place in places.tolist()])
        assert np.abs(got.astype(int) - want).max() <= 2
