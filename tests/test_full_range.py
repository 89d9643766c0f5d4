"""vidprep.loaders.engines.full_range: the same pictures, said to use the full range."""

from __future__ import annotations

import dataclasses
import io

import av
import pytest
from clips_made import X264, cut_of, make_video

from vidprep.errors import DecodeError
from vidprep.loaders.engines.full_range import with_full_range
from vidprep.loaders.mp4_writer import cut_to_mp4

X265 = {"x265-params": "log-level=none"}
FAST = {"deadline": "realtime", "cpu-used": "8"}


def decoded(cut):
    """(bytes of the planes, stated ranges) of what the MP4 form shows."""
    data, _ = cut_to_mp4(cut)
    with av.open(io.BytesIO(data)) as container:
        frames = list(container.decode(video=0))
    return [bytes(plane) for frame in frames for plane in frame.planes], {int(frame.color_range) for frame in frames}


@pytest.mark.parametrize(
    ("codec", "suffix", "options"),
    [("libx264", "mp4", X264), ("libx264", "ts", X264), ("libx265", "mp4", X265), ("libx265", "ts", X265),
     ("libvpx", "webm", FAST), ("libvpx-vp9", "mp4", FAST)],
)  # fmt: skip
def test_pictures_stay_and_the_range_is_full(tmp_path, codec, suffix, options):
    cut = cut_of(make_video(tmp_path / f"a.{suffix}", codec=codec, frames=12, gop=5, options=options))
    (before, old), (after, new) = decoded(cut), decoded(with_full_range(cut))
    assert before == after
    assert 2 not in old
    assert new == {2}


@pytest.mark.parametrize("name", ["vp9_altref.webm", "vp8_altref.webm"])
def test_hidden_frames_and_superframes_stay_whole(cases, name):
    cut = cut_of(cases / "files" / name)
    (before, _), (after, new) = decoded(cut), decoded(with_full_range(cut))
    assert before == after
    assert new == {2}


def test_a_malformed_sequence_parameter_set_is_an_error(tmp_path):
    cut = cut_of(make_video(tmp_path / "a.mp4", frames=4, gop=4, options=X264))
    config = b"\0\0\0\1\x67\x64" + bytes(range(200, 205)) + b"\0\0\0\1\x68\xee"
    broken = dataclasses.replace(cut, info=dataclasses.replace(cut.info, codec_config=config))
    with pytest.raises(DecodeError, match="sequence parameter set cannot be read"):
        with_full_range(broken)
