"""The dali engine gives what the cpu engine gives, or refuses by name (codecs that DALI decodes without a GPU)."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from clips_made import make_paired_vp9

from vidprep.errors import DecodeError
from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.loaders.engines.dali import UNCERTAIN, DaliEngine
from vidprep.loaders.engines.superframes import SEVERAL_PICTURES
from vidprep.loaders.frames import as_video
from vidprep.loaders.packets import Packets

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dali, pytest.mark.timeout(120)]

#: Levels by which an engine may differ from swscale's conversion.
TOLERANCE = 2


def encode(path: Path, codec: str, *, num_frames=40, size=(96, 64), gop=10, matrix=None, full=False, picture=None):
    """A moving, coloured picture."""
    width, height = size
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.codec_context.thread_count = 1  # libvpx with threads may hang on a busy machine
        stream.width, stream.height = width, height
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.time_base = Fraction(1, 25)
        stream.options = {"g": str(gop), "crf": "20", "b": "1M", "deadline": "realtime", "cpu-used": "8"}
        if matrix is not None:
            stream.codec_context.colorspace = matrix
            stream.codec_context.color_range = 2 if full else 1
        for n in range(num_frames):
            stream_frame = av.VideoFrame.from_ndarray((picture or _picture)(n, width, height), format="rgb24")
            frame = stream_frame.reformat(
                format=stream.pix_fmt, dst_colorspace=matrix or 5, dst_color_range=2 if full else 1
            )
            frame.pts = n
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def _picture(n, width, height):
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / 9 + n / 4), np.sin(y / 7 + n / 5), np.sin((x + y) / 11 + n / 6)]
    return (128 + 60 * np.stack(np.broadcast_arrays(*waves), -1)).astype(np.uint8)


@pytest.fixture(scope="module")
def engine():
    return DaliEngine("cpu")


def both(engine, path, frames):
    video = as_video(str(path))
    with open_indexed(video) as source:
        cut = read_cut(video, source, np.asarray(frames))
    return engine.decode(cut), CpuEngine().decode(cut)


@pytest.mark.parametrize(("codec", "suffix"), [("libvpx", "webm"), ("libvpx-vp9", "webm"), ("mjpeg", "mkv"),
                                               ("libvpx-vp9", "mp4")])  # fmt: skip
@pytest.mark.parametrize("frames", [range(40), [0], [39], [13, 14, 15], [5, 25, 38]])
def test_frames_are_those_of_the_cpu_engine(engine, tmp_path, codec, suffix, frames):
    path = encode(tmp_path / f"a.{suffix}", codec)
    mine, theirs = both(engine, path, list(frames))
    assert np.abs(mine.astype(int) - theirs).max() <= TOLERANCE


def saturated(n, width, height):
    """Blocks of the purest colours, and waves that go far beyond what RGB can hold, with noise."""
    noise = np.random.default_rng(n)
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([np.sin(x / 9 + n), np.sin(y / 7 + n), np.sin((x + y) / 11)], -1)
    picture = 128 + 150 * waves + noise.normal(0, 15, (height, width, 3))
    blocks = noise.choice([0, 255], (-(-height // 8), -(-width // 8), 3)).repeat(8, 0).repeat(8, 1)
    picture[: height // 2] = blocks[: height // 2, :width]
    return np.clip(picture, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("codec", ["libvpx", "libvpx-vp9"])
@pytest.mark.parametrize("matrix", [1, 5])
def test_noisy_saturated_colours_are_right_or_decoded_elsewhere_and_counted(tmp_path, codec, matrix):
    path = encode(tmp_path / "a.webm", codec, matrix=matrix, num_frames=6, picture=saturated)
    engine = DaliEngine("cpu")
    mine, theirs = both(engine, path, range(6))
    assert np.abs(mine.astype(int) - theirs).max() <= TOLERANCE
    assert engine.num_fallbacks == sum(engine.fallbacks.values())


def test_noisy_clips_of_legal_colours_need_not_all_another_decoder(tmp_path):
    engine = DaliEngine("cpu")
    path = encode(tmp_path / "a.webm", "libvpx-vp9", num_frames=8, picture=lambda n, w, h: saturated(n, w, h) // 2 + 64)
    for frame in range(8):
        mine, theirs = both(engine, path, [frame])
        assert np.abs(mine.astype(int) - theirs).max() <= TOLERANCE
    assert engine.num_fallbacks < 8


def test_black_and_white_of_limited_range_need_no_other_decoder(tmp_path):
    def picture(n, width, height):
        return (
            np.where(np.arange(width) < width // 2, 0, 255)[None, :, None]
            .repeat(height, 0)
            .repeat(3, 2)
            .astype(np.uint8)
        )

    engine = DaliEngine("cpu")
    mine, theirs = both(engine, encode(tmp_path / "a.webm", "libvpx-vp9", num_frames=4, picture=picture), range(4))
    assert np.abs(mine.astype(int) - theirs).max() <= TOLERANCE
    assert engine.num_fallbacks == 0


def test_full_range_pictures_that_reach_its_ends_are_decoded_elsewhere_and_counted(tmp_path):
    path = encode(tmp_path / "a.mkv", "mjpeg", num_frames=4, picture=saturated)
    engine = DaliEngine("cpu")
    mine, theirs = both(engine, path, range(4))
    assert np.array_equal(mine, theirs)
    assert engine.fallbacks == {UNCERTAIN: 1}


@pytest.mark.parametrize("matrix", [1, 5, 9])
def test_colours_follow_the_streams_matrix(engine, tmp_path, matrix):
    path = encode(tmp_path / "a.webm", "libvpx-vp9", matrix=matrix)
    mine, theirs = both(engine, path, [0, 21])
    assert np.abs(mine.astype(int) - theirs).max() <= TOLERANCE


def test_odd_sizes(engine, tmp_path):
    mine, theirs = both(engine, encode(tmp_path / "a.webm", "libvpx-vp9", size=(97, 65)), [0, 21])
    assert np.abs(mine.astype(int) - theirs).max() <= TOLERANCE


def test_hidden_frames_do_not_shift_the_count(engine, cases):
    mine, theirs = both(engine, cases / "files" / "vp9_altref.webm", list(range(60)))
    assert np.abs(mine.astype(int) - theirs).max() <= TOLERANCE


def test_vp9_samples_that_show_several_pictures_are_decoded_elsewhere_and_counted(tmp_path):
    _, paired = make_paired_vp9(tmp_path)
    engine = DaliEngine("cpu")
    for frames in ([7], range(12), [0, 5, 11]):
        mine, theirs = both(engine, paired, frames)
        assert np.array_equal(mine, theirs)
    assert engine.fallbacks == {SEVERAL_PICTURES: 3}


def test_a_codec_that_dali_does_not_decode_is_refused_by_name(engine, cases):
    with pytest.raises(DecodeError, match=r"DALI on cpu decodes mjpeg, vp8, vp9, not h264"):
        both(engine, cases / "files" / "clip_window.mp4", [0])


def test_a_matrix_that_cannot_be_corrected_is_refused(engine, cases):
    video = as_video(str(cases / "files" / "vp9_altref.webm"))
    with open_indexed(video) as source:
        cut = read_cut(video, source, np.array([0]))
    cut = dataclasses.replace(cut, info=dataclasses.replace(cut.info, colour_matrix="ycgco"))
    with pytest.raises(DecodeError, match="ycgco"):
        engine.decode(cut)


def test_damage_is_an_error_and_the_next_clip_is_right(engine, tmp_path):
    path = encode(tmp_path / "a.webm", "libvpx-vp9")
    video = as_video(str(path))
    with open_indexed(video) as source:
        cut = read_cut(video, source, np.arange(20))
    want = engine.decode(cut)
    broken = Packets.of(
        packet._replace(payload=b"\xff" * len(packet.data)) if place == 3 else packet
        for place, packet in enumerate(cut.packets)
    )
    with pytest.raises(DecodeError, match=r"a\.webm: frame \d+: coded sample 3"):
        engine.decode(dataclasses.replace(cut, packets=broken))
    assert np.array_equal(engine.decode(cut), want)


def test_stale_pixels_of_an_earlier_clip_never_come_back(engine, tmp_path):
    """A packet that gives no picture must not be counted as one: DALI would return old memory for the last frame."""
    path = encode(tmp_path / "a.webm", "libvpx-vp9")
    video = as_video(str(path))
    with open_indexed(video) as source:
        cut = read_cut(video, source, np.arange(10))
    engine.decode(cut)
    short = dataclasses.replace(cut, packets=cut.packets[:-1], frames=cut.frames[:-1], frame_rows=cut.frame_rows[:-1])
    assert len(engine.decode(short)) == 9
