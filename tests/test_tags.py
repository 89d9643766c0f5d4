"""Numbers in SEI messages: they survive a decoder, and do no harm to the pictures."""

import io

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.loaders.cut import Cut
from vidprep.loaders.elementary import elementary_pieces
from vidprep.loaders.engines.tags import MAX_NUMBER, SEI_HEADER, number_of, tag, tagged
from vidprep.loaders.packets import Packet, Packets
from vidprep.records import StreamInfo


def tagged_sample(codec, sample, number):
    """One of many, which has the same place in all of them."""
    info = StreamInfo(container="", codec=codec)
    packets = Packets.of(Packet(row, sample, key=True) for row in range(number + 2))
    cut = Cut(uri="", info=info, frames=[], frame_rows=[], packets=packets, num_reads=0, num_bytes_read=0,
              num_bytes_candidates=0)  # fmt: skip
    return tagged(codec, elementary_pieces(cut), number, number + 1, [number])


START = b"\0\0\0\1"


def messages(sei):
    """A picture's messages as PyNvVideoCodec gives them, of one SEI NAL unit of one message."""
    body = sei[len(START) + (1 if sei[4] == 6 else 2) :]
    return ({"sei_type": body[0], "sei_uncompressed": 0}, list(body[2 : 2 + body[1]]))


@given(st.integers(0, MAX_NUMBER), st.sampled_from(sorted(SEI_HEADER)))
def test_a_number_comes_back_and_needs_no_emulation_prevention(number, codec):
    sei = tag(codec, number)
    assert number_of([messages(sei)]) == number
    assert 0 not in sei[len(START) :]


@pytest.mark.parametrize("number", [-1, MAX_NUMBER + 1])
def test_a_number_out_of_range_is_refused(number):
    with pytest.raises(ValueError, match="is not within"):
        tag("h264", number)


def test_none_or_two_numbers_are_no_number():
    one, other = messages(tag("h264", 1)), messages(tag("h264", 2))
    foreign = ({"sei_type": 5, "sei_uncompressed": 0}, list(b"x264 - core 164 twenty by" * 9))
    assert number_of([]) is None
    assert number_of([foreign, one]) == 1
    assert number_of([one, other]) is None
    assert number_of([({"sei_type": 4}, one[1])]) is None


@pytest.mark.parametrize(
    ("codec", "delimiter", "slice_unit"),
    [("h264", b"\x09\xf0", b"\x65\x88\x84"), ("hevc", b"\x46\x01\x50", b"\x26\x01\xaf")],
)
@pytest.mark.parametrize("start", [b"\0\0\1", START])
def test_the_number_follows_an_access_unit_delimiter_and_precedes_all_else(codec, delimiter, slice_unit, start):
    sei = tag(codec, 7)
    assert tagged_sample(codec, start + slice_unit, 7) == sei + start + slice_unit
    whole = tagged_sample(codec, start + delimiter + START + slice_unit, 7)
    assert whole.startswith(start + delimiter)
    assert whole.count(sei) == 1
    assert whole.index(sei) < whole.index(slice_unit)


def samples_of(encoder, options):
    """Annex B samples of a short encode, in decode order."""
    out = io.BytesIO()
    with av.open(out, "w", format="h264" if encoder == "libx264" else "hevc") as container:
        stream = container.add_stream(encoder, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.thread_count = 1
        packets = []
        for n in range(24):
            picture = np.full((48, 64, 3), 10 * n, np.uint8)
            packets += stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24"))
        packets += stream.encode()
    return [bytes(packet) for packet in packets]


def decoded(codec, samples):
    """(presentation order of pts = place in decode order, luma) of every picture, by FFmpeg."""
    context = av.CodecContext.create(codec, "r")
    frames = []
    for number, sample in enumerate(samples):
        packet = av.Packet(sample)
        packet.pts = number
        frames += context.decode(packet)
    frames += context.decode(None)
    return [(frame.pts, frame.to_ndarray(format="gray")[0, 0]) for frame in frames]


@pytest.mark.parametrize(
    ("codec", "encoder", "options"),
    [
        ("h264", "libx264", {"g": "12", "bf": "2", "aud": "1"}),
        ("h264", "libx264", {"g": "12", "bf": "2"}),
        ("hevc", "libx265", {"x265-params": "log-level=none:keyint=12:bframes=2:pools=1:frame-threads=1"}),
    ],
)
def test_tagged_samples_decode_to_the_same_pictures(codec, encoder, options):
    samples = samples_of(encoder, options)
    marked = [tagged_sample(codec, sample, number) for number, sample in enumerate(samples)]
    assert len(samples) == 24
    assert decoded(codec, marked) == decoded(codec, samples)
