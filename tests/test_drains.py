"""Segments that begin with an IDR picture follow the one before without a drain; the first slice decides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.loaders.elementary import Pieces
from vidprep.loaders.engines.drains import begins_with_idr, drained_starts

#: First bytes of NAL units: H.264 7.3.1, H.265 7.3.1.2.
UNITS = {
    "h264": {"sets": (0x67, 0x68, 0x06), "idr": (0x65, 0x25), "other": (0x61, 0x41, 0x01)},
    "hevc": {"sets": (0x40, 0x42, 0x44, 0x4E), "idr": (0x26, 0x28), "other": (0x2A, 0x02, 0x10)},
}


def sample(*kinds: int) -> bytes:
    return b"".join(b"\0\0\0\1" + bytes((kind, 1, 0xAB, 0xCD)) for kind in kinds)


@pytest.mark.parametrize("codec", UNITS)
def test_the_first_slice_decides(codec):
    units = UNITS[codec]
    for kind in units["idr"]:
        assert begins_with_idr(codec, sample(*units["sets"], kind, units["other"][0]))
    for kind in units["other"]:
        assert not begins_with_idr(codec, sample(*units["sets"], kind, units["idr"][0]))


@pytest.mark.parametrize(
    ("codec", "data"),
    [("vp9", sample(0x65)), ("h264", b""), ("h264", sample(0x67, 0x68)), ("h264", b"\0\0\1"), ("hevc", b"\x26")],
)
def test_other_codecs_and_samples_without_slices_are_no_idr_pictures(codec, data):
    assert not begins_with_idr(codec, data)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=6))
def test_the_first_segment_and_those_without_an_idr_picture_are_drained_before(segments):
    samples, starts = [], []
    for is_idr, more in segments:
        starts.append(len(samples))
        samples += [sample(0x67, 0x65 if is_idr else 0x61), *[sample(0x41)] * more]
    leads, units = [data[:4] for data in samples], [memoryview(data)[4:] for data in samples]
    pieces = Pieces(leads, units, list(range(len(samples) + 1)), list(range(len(samples))), are_units=True)
    expected = [start for n, start in enumerate(starts) if n == 0 or not segments[n][0]]
    assert list(drained_starts("h264", pieces, starts)) == expected
