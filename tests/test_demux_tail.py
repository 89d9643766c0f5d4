"""Files of the demux path that were cut off, and times that are not the frames' own."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from drawn import draw_number, drawn_number
from numbered_movies import OPTIONS

from vidprep.containers import parse_container
from vidprep.containers.not_media import not_media
from vidprep.indexes import probe
from vidprep.loaders import read_frames

if TYPE_CHECKING:
    from pathlib import Path

    from vidprep.records import ParsedVideo


def parse(data: bytes) -> ParsedVideo:
    return parse_container(lambda offset, size: data[offset : offset + size], len(data))


def encoded_into(container: str, encoder: str, count: int = 30) -> bytes:
    file, noise = io.BytesIO(), np.random.default_rng(1)
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(encoder, rate=25)
        stream.width, stream.height, stream.pix_fmt = 160, 144, "rgb24" if encoder == "apng" else "yuv420p"
        stream.codec_context.thread_count, stream.codec_context.gop_size = 1, 12
        stream.codec_context.options = OPTIONS.get(encoder, {})
        for index in range(count):
            picture = draw_number(index)
            picture[64:80] = noise.integers(40, 200, (16, 160, 3), dtype=np.uint8)  # bytes to be cut off
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=stream.pix_fmt)
            frame.pts, frame.time_base = index, Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


@pytest.mark.parametrize(
    ("container", "encoder"),
    [
        ("avi", "libx264"),
        ("avi", "mpeg4"),
        ("avi", "libvpx"),
        ("mpegts", "libx264"),
        ("mpegts", "libx265"),
        ("mpegts", "mpeg2video"),
        ("mpeg", "mpeg2video"),
        ("flv", "libx264"),
        ("flv", "flv"),
        ("asf", "libx264"),
        ("asf", "wmv2"),
        ("ivf", "libvpx"),
        ("ivf", "libvpx-vp9"),
        ("h264", "libx264"),
        ("hevc", "libx265"),
        ("m4v", "mpeg4"),
        ("nut", "libx264"),
    ],
)
def test_all_frames_of_a_file_that_was_cut_off_are_sound(container: str, encoder: str, tmp_path: Path) -> None:
    data = encoded_into(container, encoder)
    path = tmp_path / "a"
    for part in (0.5, 0.61, 0.9) if container == "avi" else (0.4, 0.61, 0.9):
        path.write_bytes(data[: int(len(data) * part)])
        video = probe(str(path))
        count = video.timeline.num_frames
        assert 0 < count < 30
        seen = [drawn_number(picture) for picture in read_frames(str(path), list(range(count)), engine="cpu")]
        assert -1 not in seen
        assert seen == sorted(set(seen))
        if container in ("avi", "mpegts", "ivf"):
            assert any(finding.reason == "truncated" for finding in video.parsed.warnings)


@pytest.mark.parametrize(("container", "encoder"), [("hevc", "libx265"), ("mpegts", "libx265"), ("h264", "libx264")])
def test_a_picture_that_misses_its_last_bytes_is_not_offered(container: str, encoder: str, tmp_path: Path) -> None:
    """No decoder tells: it reads on behind the slice's end, and paints what it finds there."""
    data = encoded_into(container, encoder, 12)
    whole, path = tmp_path / "whole", tmp_path / "cut"
    whole.write_bytes(data)
    want = read_frames(str(whole), list(range(12)), engine="cpu")
    counts = []
    for missing in (188, 376) if container == "mpegts" else (1, 2, 3, 8, 40, 200):
        path.write_bytes(data[:-missing])
        count = probe(str(path)).timeline.num_frames
        got = read_frames(str(path), list(range(count)), engine="cpu")
        ways = [want] if count == 12 else [np.delete(want, place, 0) for place in range(12)]  # which one was coded last
        assert any(np.array_equal(got, way) for way in ways)
        counts.append(count)
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 11


@pytest.mark.parametrize("options", ["hash=1", "slices=3", "lossless=1", "keyint=1"])
def test_a_whole_last_picture_is_offered(options: str) -> None:
    """Also with a checksum of it behind it."""
    options = f"log-level=none:{options}"
    file = io.BytesIO()
    with av.open(file, "w", format="hevc") as output:
        stream = output.add_stream("libx265", rate=25, options={"x265-params": options})
        stream.width, stream.height, stream.pix_fmt = 160, 144, "yuv420p"
        for index in range(5):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(draw_number(index), format="rgb24")))
        output.mux(stream.encode(None))
    parsed = parse(file.getvalue())
    assert (parsed.table.num_frames, parsed.warnings) == (5, ())


@pytest.mark.parametrize(("container", "encoder"), [("mxf", "libx264"), ("asf", "libx264"), ("mxf", "mpeg2video")])
def test_times_that_rise_in_coded_order_are_given_to_the_frames_in_theirs(container: str, encoder: str) -> None:
    pts = parse(encoded_into(container, encoder)).table.frame_pts
    assert len(pts) == 30
    assert len(set(np.diff(pts).tolist())) == 1


def test_streams_without_times_are_no_cause_for_a_warning() -> None:
    assert parse(encoded_into("h264", "libx264")).warnings == ()


def test_an_animated_png_is_a_video_and_a_still_one_is_not() -> None:
    data = encoded_into("apng", "apng", 5)
    assert parse(data).table.num_frames == 5
    assert not_media(data[:64]) is None
    assert not_media(data[:33]) == "a single picture (PNG)"
