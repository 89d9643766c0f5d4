"""vidprep.loaders.packet_forms: packets as FFmpeg takes them."""

from __future__ import annotations

import av
from clips_made import X264, cut_of, make_video

from vidprep.loaders.packet_forms import av_packet


def test_packets_for_ffmpeg_are_followed_by_zeros(tmp_path):
    packet = cut_of(make_video(tmp_path / "a.mp4", frames=6, options=X264), [0]).packets[0]
    converted = av_packet(packet)
    assert bytes(converted) == packet.data
    assert converted.pts == packet.row
    assert converted.buffer_ptr != av.Packet(packet.data).buffer_ptr
