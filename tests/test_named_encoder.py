"""vidprep.containers.named_encoder: what an old x264 coded in its own way is decoded from the sample that names it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from clips_made import make_video
from sequential import rgb, sequential_frames

from vidprep.containers import parse_container
from vidprep.loaders import read_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vidprep.records import ParsedVideo


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
@pytest.mark.parametrize(
    ("pix_fmt", "build", "keys"),
    [("yuv444p", 150, [0]), ("yuv444p", 151, [0, 8, 16]), ("yuv420p", 150, [0, 8, 16])],
)
def test_old_x264_in_444_has_one_key(pix_fmt: str, build: int, keys: list[int], suffix: str, tmp_path: Path) -> None:
    options = {"x264-params": "keyint=8:bframes=0:scenecut=0"}
    path = make_video(tmp_path / f"a.{suffix}", frames=24, pix_fmt=pix_fmt, options=options)
    data, found = re.subn(rb"x264 - core \d{3}", b"x264 - core %d" % build, path.read_bytes())
    assert found == 1
    parsed = parse_container(lambda offset, size: data[offset : offset + size], len(data))
    assert parsed.table.key_rows.tolist() == keys
    assert parsed.table.num_frames == 24


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "avi"])
@pytest.mark.parametrize("name", [b"XviD0046", b"DivX503b1393"])
def test_films_of_encoders_named_once_are_exact_from_the_first_sample_on(
    name: bytes, suffix: str, tmp_path: Path
) -> None:
    source = make_video(tmp_path / f"a.{suffix}", codec="mpeg4", frames=24, gop=8, options={"flags": "+qpel"})
    unit = b"\0\0\1\xb2" + name + b"\0"
    once = _with_user_data(source, tmp_path / f"once.{suffix}", lambda place: unit if place == 0 else b"")
    truth = np.stack([rgb(frame) for frame in sequential_frames(once)])
    for frame in (23, 0, 8, 12, 19):
        assert np.array_equal(read_frames(once, [frame], engine="cpu")[0], truth[frame]), frame
    always = _with_user_data(source, tmp_path / f"always.{suffix}", lambda place: unit if place % 8 == 0 else b"")
    assert _parsed(once).table.key_rows.tolist() == [0]
    assert _parsed(always).table.key_rows.tolist() == [0, 8, 16]


def _parsed(path: Path) -> ParsedVideo:
    data = path.read_bytes()
    return parse_container(lambda offset, size: data[offset : offset + size], len(data))


def _with_user_data(source: Path, to: Path, unit: Callable[[int], bytes]) -> Path:
    """The video, before each of its samples what `unit` gives for its place."""
    with av.open(str(source)) as read, av.open(str(to), "w") as written:
        stream = read.streams.video[0]
        copy = written.add_stream_from_template(stream)
        for place, packet in enumerate(packet for packet in read.demux(stream) if packet.size):
            other = av.Packet(unit(place) + bytes(packet))
            other.stream, other.time_base, other.is_keyframe = copy, packet.time_base, packet.is_keyframe
            other.pts, other.dts = packet.pts, packet.dts
            written.mux(other)
    return to
