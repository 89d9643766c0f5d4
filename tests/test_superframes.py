"""vidprep.loaders.engines.superframes: the same VP9 frames in fewer pieces."""

from __future__ import annotations

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.containers.vpx_headers import vp9_frames
from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.engines.superframes import MAX_FRAMES, superframes
from vidprep.loaders.frames import as_video

FRAMES = st.binary(min_size=1, max_size=400).filter(lambda frame: frame[-1] & 0xE0 != 0xC0)


@given(st.lists(FRAMES, max_size=30))
def test_every_frame_is_there_in_its_order(frames):
    joined = superframes([memoryview(frame) for frame in frames])
    assert [frame for superframe in joined for frame in vp9_frames(bytes(superframe))] == frames
    assert len(joined) == -(-len(frames) // MAX_FRAMES)
    again = superframes(joined)
    assert list(again) == list(joined)


def decoded(samples):
    context = av.CodecContext.create("vp9", "r")
    frames = [frame for sample in samples for frame in context.decode(av.Packet(bytes(sample)))]
    return np.stack([frame.to_ndarray() for frame in (*frames, *context.decode(None))])


@pytest.mark.parametrize("name", ["vp9_altref.webm"])
def test_ffmpeg_shows_the_same_pictures(cases, name):
    video = as_video(str(cases / "files" / name))
    with open_indexed(video) as source:
        samples = read_cut(video, source, np.arange(video.table.num_frames)).packets.payloads
    joined = superframes(samples)
    assert len(joined) < len(samples) / 4
    assert np.array_equal(decoded(joined), decoded(samples))
