"""vidprep.containers.coded_order: files whose times rise in coded order show their pictures as a decoder gives them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from clips_made import make_video
from sequential import rgb, sequential_frames

from vidprep.containers import isobmff, parse_container
from vidprep.containers.coded_order import in_shown_order
from vidprep.errors import Reason
from vidprep.loaders import read_frames
from vidprep.records import SampleFlag, SampleTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vidprep.records import ParsedVideo

B_FRAMES = {
    "libx264": {"x264-params": "keyint=8:bframes=3"},
    "libx265": {"x265-params": "log-level=none:keyint=8:bframes=3"},
    "mpeg4": {"bf": "2"},
    "mpeg2video": {"bf": "2"},
}


def untimed(source: Path, to: Path, pack: Callable[[Sequence[bytes]], Sequence[bytes]] = list) -> Path:
    """The samples of a video in coded order, at times that rise in it: a copy from a container without times."""
    with av.open(str(source)) as read, av.open(str(to), "w") as written:
        stream = read.streams.video[0]
        packets = [packet for packet in read.demux(stream) if packet.size]
        copy = written.add_stream_from_template(stream)
        for place, payload in enumerate(pack([bytes(packet) for packet in packets])):
            packet = av.Packet(payload)
            packet.stream, packet.pts, packet.dts, packet.time_base = copy, place, place, Fraction(1, 30)
            packet.is_keyframe = packets[place].is_keyframe
            written.mux(packet)
    return to


def packed(vops: Sequence[bytes]) -> list[bytes]:
    """As DivX does: a B-VOP stands in the sample of the P-VOP before it; one that is not coded takes its place."""
    kinds = [vop[vop.index(b"\0\0\1\xb6") + 4] >> 6 for vop in vops]
    samples = [b"\0\0\1\xb2DivX503b1393p\0" + vops[0]]
    for place in range(1, len(vops)):
        follower = vops[place + 1] if kinds[place + 1 : place + 2] == [2] else b""
        samples.append(b"\0\0\1\xb6\x50" if kinds[place] == 2 else vops[place] + follower)
    return samples


def parsed(path: Path, **options: bool) -> ParsedVideo:
    data = path.read_bytes()
    return parse_container(lambda offset, size: data[offset : offset + size], len(data), **options)


def assert_exact(path: Path, count: int) -> None:
    truth = [rgb(frame) for frame in sequential_frames(path)]
    assert len(truth) == count
    assert np.array_equal(read_frames(path, range(count), engine="cpu"), np.stack(truth))
    for frame in range(count):
        assert np.array_equal(read_frames(path, [frame], engine="cpu")[0], truth[frame]), frame


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize("codec", B_FRAMES)
def test_frames_are_in_the_decoders_order_at_even_times(codec: str, suffix: str, tmp_path: Path) -> None:
    source = make_video(tmp_path / "a.mp4", codec=codec, frames=24, gop=8, options=B_FRAMES[codec])
    path = untimed(source, tmp_path / f"b.{suffix}")
    assert_exact(path, 24)
    video = parsed(path)
    assert [warning.reason for warning in video.warnings] == [Reason.CORRUPT_TABLE]
    steps = np.diff(video.timeline.pts_seconds)
    assert steps == pytest.approx(1 / 30, abs=0.002)


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize("flags", ["", "+ildct+ilme"], ids=["progressive", "interlaced"])
def test_packed_b_frames_are_decoded_from_the_first_sample_on(flags: str, suffix: str, tmp_path: Path) -> None:
    options = {"bf": "1"} | ({"flags": flags} if flags else {})
    source = make_video(tmp_path / "a.avi", codec="mpeg4", frames=24, gop=8, options=options)
    path = untimed(source, tmp_path / f"b.{suffix}", packed)
    assert_exact(path, 24)
    assert parsed(path, verify_keys=True).table.key_rows.tolist() == [0]


@pytest.mark.parametrize("codec", B_FRAMES)
def test_streams_that_reorder_nothing_keep_their_times(codec: str, tmp_path: Path) -> None:
    options = {"bf": "0", "x265-params": "log-level=none:bframes=0"}
    path = make_video(tmp_path / "a.mp4", codec=codec, frames=24, gop=8, options=options)
    video = parsed(path)
    assert video.warnings == ()
    assert video.table.frame_rows.tolist() == list(range(24))
    assert (video.table.flags & SampleFlag.SHOWN).all()


def test_beyond_the_budget_times_are_believed_and_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vidprep.containers.demux.pictures._BASE_PIXELS", 0)
    monkeypatch.setattr("vidprep.containers.demux.pictures._PIXELS_PER_BYTE", 0)
    source = make_video(tmp_path / "a.mp4", frames=24, gop=8, options=B_FRAMES["libx264"])
    video = parsed(untimed(source, tmp_path / "b.mp4"))
    assert [warning.reason for warning in video.warnings] == [Reason.TIMEOUT]
    assert video.table.frame_rows.tolist() == list(range(24))


def test_rows_that_name_the_same_bytes_over_and_over_are_not_decoded(tmp_path: Path) -> None:
    """Each may hold thousands of pictures: a small file would be decoded for hours."""
    source = make_video(tmp_path / "a.mp4", frames=24, gop=8, options=B_FRAMES["libx264"])
    data = untimed(source, tmp_path / "b.mp4").read_bytes()

    def read_at(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    video = isobmff.parse(read_at, len(data), data[:4096])
    table, again = video.table, np.arange(24 * 20) % 24
    rows = SampleTable(
        offset=table.offset[again], size=table.size[again], pts=np.arange(len(again)), flags=table.flags[again]
    )
    found = in_shown_order(replace(video, table=rows), read_at, len(data))
    assert [warning.reason for warning in found.warnings] == [Reason.TIMEOUT]
