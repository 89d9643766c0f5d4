"""vidprep.loaders.engines.messages: SEI that FFmpeg refuses costs no picture, and hides no damage."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from clips_made import cut_of, make_video
from sequential import rgb, sequential_frames

from vidprep.errors import DecodeError
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.loaders.engines.messages import without_messages
from vidprep.loaders.packets import Packets

if TYPE_CHECKING:
    from pathlib import Path

ENCODERS = {
    "h264": ("libx264", {"x264-params": "keyint=8:bframes=2"}, b"\x06"),
    "hevc": ("libx265", {"x265-params": "log-level=none:keyint=8:bframes=2"}, b"\x4e\x01"),
}

#: Messages behind the header of an SEI unit.
REFUSED = {
    "user data cut short": b"\x05\x40abcdefgh\x80",
    "picture timing cut short": b"\x01\x08\x11\x80",
    "captions cut short": b"\x04\x05\xb5\x00\x31\x47\x80",
    "a mastering display of two bytes": b"\x89\x02\x00\x00\x80",
}


def with_unit(source: Path, to: Path, unit: bytes, length_bytes: int = 4) -> Path:
    """The video with a NAL unit before those of every sample."""
    with av.open(str(source)) as read, av.open(str(to), "w") as written:
        stream = read.streams.video[0]
        copy = written.add_stream_from_template(stream)
        for packet in read.demux(stream):
            if packet.size:
                other = av.Packet(len(unit).to_bytes(length_bytes, "big") + unit + bytes(packet))
                other.stream, other.time_base, other.is_keyframe = copy, packet.time_base, packet.is_keyframe
                other.pts, other.dts = packet.pts, packet.dts
                written.mux(other)
    return to


@pytest.fixture(scope="module", params=ENCODERS)
def plain(request, tmp_path_factory):
    encoder, options, header = ENCODERS[request.param]
    path = tmp_path_factory.mktemp(request.param) / "a.mp4"
    return make_video(path, codec=encoder, frames=16, gop=8, options=options), header


@pytest.mark.parametrize("message", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_file_with_refused_messages_is_frame_exact(plain, message, suffix, tmp_path):
    source, header = plain
    path = with_unit(source, tmp_path / f"b.{suffix}", header + message)
    truth = np.stack([rgb(frame) for frame in sequential_frames(path)])
    assert len(truth) == 16
    assert np.array_equal(CpuEngine().decode(cut_of(path)), truth)
    for frame in (15, 0, 9, 4):
        assert np.array_equal(CpuEngine().decode(cut_of(path, [frame]))[0], truth[frame]), frame


def test_a_file_without_such_messages_is_left_as_it_is(plain):
    assert without_messages(cut_of(plain[0])) is None


def test_damage_beside_them_is_an_error_all_the_same(plain, tmp_path):
    source, header = plain
    path = with_unit(source, tmp_path / "b.mp4", header + REFUSED["captions cut short"])
    cut = cut_of(path, range(8))
    for place in (0, 3):
        packets = list(cut.packets)
        packets[place] = packets[place]._replace(payload=packets[place].data[: -len(packets[place].data) // 2])
        with pytest.raises(DecodeError):
            CpuEngine().decode(dataclasses.replace(cut, packets=Packets.of(packets)))


def test_samples_whose_lengths_lie_are_not_put_right(plain, tmp_path):
    source, header = plain
    cut = cut_of(with_unit(source, tmp_path / "b.mp4", header + REFUSED["captions cut short"]), [0])
    damaged = [packet._replace(payload=packet.data[:-1]) for packet in cut.packets]
    assert without_messages(cut) is not None
    assert without_messages(dataclasses.replace(cut, packets=Packets.of(damaged))) is None
