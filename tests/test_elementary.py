"""vidprep.loaders.elementary: every sample's bytes, in the form that NVDEC takes, against a walk through each of them."""

from __future__ import annotations

import dataclasses
import io
import itertools

import av
import numpy as np
import pytest
from clips_made import X264, cut_of, make_video
from hypothesis import given
from hypothesis import strategies as st
from sequential import rgb

from vidprep.errors import DecodeError
from vidprep.loaders.cut import Packet, Packets
from vidprep.loaders.elementary import elementary_packets, elementary_pieces
from vidprep.loaders.engines.tags import tag, tagged
from vidprep.loaders.frames import read_frames
from vidprep.loaders.packet_forms import START_CODE, annexb_units, configuration_units, nal_units

#: Slices, parameter sets, messages, delimiters, whatever else.
HEADERS = {"h264": b"\x65\x41\x01\x67\x68\x06\x09\x0c", "hevc": b"\x26\x02\x00\x40\x42\x44\x46\x4e"}
BODIES = st.binary(max_size=40).filter(lambda unit: b"\0\0" not in unit and unit[-1:] != b"\0")
CODECS = st.sampled_from(sorted(HEADERS))


@st.composite
def samples_of_units(draw, codec, min_units=1):
    units = st.builds(lambda header, body: bytes([header]) + body, st.sampled_from(list(HEADERS[codec])), BODIES)
    return draw(
        st.lists(st.lists(units.filter(lambda unit: unit[-1]), min_size=min_units, max_size=5), min_size=1, max_size=6)
    )


@pytest.fixture(scope="module")
def h264(tmp_path_factory):
    return make_video(tmp_path_factory.mktemp("elementary") / "a.mp4", frames=40, gop=12, options=X264)


@pytest.fixture(scope="module")
def h264_cut(h264):
    return cut_of(h264, [0])


def length_prefixed(cut, samples, length_size, codec="h264", config=None):
    """A cut of one segment whose samples have these units."""
    payloads = [b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in units) for units in samples]
    config = cut.info.codec_config if config is None else config
    info = dataclasses.replace(cut.info, codec=codec, codec_config=config, nal_length_size=length_size)
    packets = Packets.of(Packet(row, payload, key=row == 0) for row, payload in enumerate(payloads))
    return dataclasses.replace(cut, packets=packets, info=info, segment_starts=(0,))


def joined(units):
    return b"".join(START_CODE + unit for unit in units)


def is_delimiter(codec, unit):
    return unit[0] & 31 == 9 if codec == "h264" else unit[0] >> 1 & 63 == 35


def walked(codec, samples, header):
    """The stream unit by unit: each sample's number before all else, behind an access unit delimiter alone."""
    out = []
    for number, units in enumerate(samples):
        first = number == 0 and header
        place = 1 if len(units) > 1 and is_delimiter(codec, units[0]) and not first else 0
        out.append(joined(units[:place]) + tag(codec, number) + (header if first else b"") + joined(units[place:]))
    return out


@pytest.mark.parametrize("num_samples", [1, 15, 48])
@pytest.mark.parametrize("length_size", [1, 2, 3, 4])
@given(data=st.data(), codec=CODECS)
def test_the_pieces_are_what_a_walk_through_each_sample_gives(h264_cut, length_size, num_samples, data, codec):
    some = data.draw(samples_of_units(codec))
    samples = [some[place % len(some)] for place in range(num_samples)]
    config = data.draw(st.sampled_from([b"", joined([b"\x67\x42", b"\x68\x01"])]))
    cut = length_prefixed(h264_cut, samples, length_size, codec, config)
    pieces, want = elementary_pieces(cut), walked(codec, samples, config)
    assert [tagged(codec, pieces, n, n + 1, [n]) for n in range(num_samples)] == want
    assert tagged(codec, pieces, 0, num_samples, range(num_samples)) == b"".join(want)
    assert [data for _, data in elementary_packets(cut)] == [
        (config if n == 0 else b"") + joined(units) for n, units in enumerate(samples)
    ]


@pytest.mark.parametrize("num_samples", [1, 48])
@given(data=st.data(), codec=CODECS)
def test_samples_with_start_codes_are_tagged_as_those_with_lengths(h264_cut, num_samples, data, codec):
    some = data.draw(samples_of_units(codec))
    samples = [some[place % len(some)] for place in range(num_samples)]
    payloads = [joined(units) for units in samples]
    info = dataclasses.replace(h264_cut.info, codec=codec, codec_config=b"", nal_length_size=0)
    packets = Packets.of(Packet(row, payload, key=row == 0) for row, payload in enumerate(payloads))
    cut = dataclasses.replace(h264_cut, info=info, packets=packets, segment_starts=(0,))
    pieces, want = elementary_pieces(cut), walked(codec, samples, b"")
    got = [tagged(codec, pieces, n, n + 1, [n]) for n in range(num_samples)]
    assert [annexb_units(sample) for sample in got] == [annexb_units(sample) for sample in want]
    assert [data for _, data in elementary_packets(cut)] == payloads


def test_samples_of_the_stream_itself_are_walked_alike(h264):
    cut = cut_of(h264, range(40))
    pieces = elementary_pieces(cut)
    samples = [list(_units(packet.data)) for packet in cut.packets]
    header = joined(configuration_units(cut.info))
    want = [
        b"".join((tag("h264", n), header * (n in cut.segment_starts), joined(units))) for n, units in enumerate(samples)
    ]
    assert [tagged("h264", pieces, n, n + 1, [n]) for n in range(len(want))] == want


def _units(sample):
    at = 0
    while at < len(sample):
        size = int.from_bytes(sample[at : at + 4], "big")
        yield sample[at + 4 : at + 4 + size]
        at += 4 + size


@pytest.mark.parametrize("num_samples", [1, 48])
@pytest.mark.parametrize(
    "tail", [b"\0\0\0\x09abc", b"\0\0\0\x04abc", b"\0\0", b"\0\0\0\x01a\xff\xff\xff\xff", b"\xff\xff\xff\xff"]
)
@pytest.mark.parametrize("is_last", [False, True])
def test_a_unit_that_runs_past_its_sample_is_an_error_whatever_follows(h264_cut, num_samples, tail, is_last):
    cut = length_prefixed(h264_cut, [[b"whole", b"units"]] * num_samples, 4)
    place = num_samples - 1 if is_last else num_samples // 2
    packets = list(cut.packets)
    packets[place] = packets[place]._replace(payload=tail)
    with pytest.raises(DecodeError, match=rf"coded sample {place}: a NAL unit runs past the end"):
        elementary_pieces(dataclasses.replace(cut, packets=Packets.of(packets)))


@given(
    samples=st.lists(st.one_of(st.lists(st.binary(max_size=9), max_size=4), st.binary(max_size=12)), max_size=5),
    length_size=st.integers(1, 4),
    codec=CODECS,
)
def test_any_bytes_are_the_units_of_a_walk_or_the_error_of_the_first_sample_that_has_none(
    h264_cut, samples, length_size, codec
):
    payloads = [
        sample
        if isinstance(sample, bytes)
        else b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in sample)
        for sample in samples
    ]
    info = dataclasses.replace(h264_cut.info, codec=codec, codec_config=b"", nal_length_size=length_size)
    packets = Packets.of(Packet(row, payload, key=row == 0) for row, payload in enumerate(payloads))
    cut = dataclasses.replace(h264_cut, packets=packets, info=info, segment_starts=(0,))
    try:
        expected = [[bytes(unit) for unit in nal_units(payload, length_size)] for payload in payloads]
    except ValueError:
        wrong = next(row for row, payload in enumerate(payloads) if not is_whole(payload, length_size))
        with pytest.raises(DecodeError, match=rf"coded sample {wrong}: a NAL unit runs past the end"):
            elementary_pieces(cut)
        return
    pieces = elementary_pieces(cut)
    assert [list(map(bytes, pieces.units[a:b])) for a, b in itertools.pairwise(pieces.starts)] == expected
    assert [data for _, data in elementary_packets(cut)] == [joined(units) for units in expected]


def is_whole(payload, length_size):
    try:
        return list(nal_units(payload, length_size)) is not None
    except ValueError:
        return False


@pytest.mark.parametrize("length_size", [0, 1, 2, 4])
def test_empty_samples_and_no_samples_give_nothing(h264_cut, length_size):
    info = dataclasses.replace(h264_cut.info, nal_length_size=length_size, codec_config=b"")
    for packets in ([], [Packet(0, b"", key=True)], [Packet(row, b"", key=False) for row in range(48)]):
        cut = dataclasses.replace(h264_cut, info=info, packets=Packets.of(packets))
        assert b"".join(data for _, data in elementary_packets(cut)) == b""


def decoded(stream_format, data):
    with av.open(io.BytesIO(data), format=stream_format) as container:
        return [rgb(frame) for frame in container.decode(video=0)]


def test_annex_b_packets_alone_are_a_decodable_stream(h264):
    cut = cut_of(h264, range(12, 24))
    stream = b"".join(data for _, data in elementary_packets(cut))
    assert np.array_equal(decoded("h264", stream)[-12:], read_frames(h264, range(12, 24), engine="cpu"))


def test_parameter_sets_stand_before_each_segment(h264):
    cut = cut_of(h264, [1, 30])
    packets = elementary_packets(cut)
    assert len(cut.segment_starts) == 2
    for place in cut.segment_starts:
        assert [unit[0] & 31 for unit in annexb_units(packets[place][1])][:2] == [7, 8]
    assert [row for row, _ in packets] == [packet.row for packet in cut.packets]


def test_a_malformed_packet_is_an_error_naming_video_and_frame(h264):
    cut = cut_of(h264, [3, 5])
    packets = list(cut.packets)
    packets[2] = packets[2]._replace(payload=b"\xff\xff\xff\xff" + packets[2].data[4:])
    with pytest.raises(DecodeError, match="past the end") as error:
        elementary_packets(dataclasses.replace(cut, packets=Packets.of(packets)))
    assert error.value.uri == str(h264)
    assert error.value.frame_index in (3, 5)
