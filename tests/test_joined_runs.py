"""Segments that begin with an IDR picture are joined, others are not, and nothing is lost or moved on the way."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.loaders.engines.joined_runs import begins_with_idr, joined
from vidprep.loaders.packet_forms import Run

#: First bytes of NAL units: H.264 7.3.1, H.265 7.3.1.2.
UNITS = {
    "h264": {"sets": (0x67, 0x68, 0x06), "idr": (0x65, 0x25), "other": (0x61, 0x41, 0x01)},
    "hevc": {"sets": (0x40, 0x42, 0x44, 0x4E), "idr": (0x26, 0x28), "other": (0x2A, 0x02, 0x10)},
}


def sample(*kinds: int) -> bytes:
    return b"".join(b"\0\0\0\1" + bytes((kind, 1, 0xAB, 0xCD)) for kind in kinds)


def run_of(samples: list[bytes], first_row: int = 0) -> Run:
    offsets = np.cumsum([0, *map(len, samples)])
    return Run(bytearray(b"".join(samples)), offsets, np.arange(first_row, first_row + len(samples)))


@pytest.mark.parametrize("codec", UNITS)
def test_the_first_slice_decides(codec):
    units = UNITS[codec]
    for kind in units["idr"]:
        assert begins_with_idr(codec, run_of([sample(*units["sets"], kind), sample(units["other"][0])]))
    for kind in units["other"]:
        assert not begins_with_idr(codec, run_of([sample(*units["sets"], kind), sample(units["idr"][0])]))


def test_other_codecs_empty_runs_and_runs_without_slices_are_not_joined():
    assert not begins_with_idr("vp9", run_of([sample(0x65)]))
    assert not begins_with_idr("h264", Run(bytearray(), np.zeros(1, np.int64), np.zeros(0, np.int64)))
    assert not begins_with_idr("h264", run_of([sample(0x67, 0x68), sample(0x65)]))
    assert not begins_with_idr("h264", run_of([b"\0\0\1"]))


segments = st.lists(
    st.tuples(st.booleans(), st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=4)), max_size=6
)


@given(segments)
def test_joining_keeps_every_sample_in_its_place(drawn):
    runs, row = [], 0
    for is_idr, payloads in drawn:
        head = sample(0x67, 0x65 if is_idr else 0x61)
        runs.append(run_of([head, *payloads], row))
        row += len(runs[-1].rows) + 3
    out = list(joined("h264", runs))
    assert sum(count for _, count in out) == len(runs)
    starts = np.cumsum([0, *(count for _, count in out)])[:-1].tolist()
    assert starts == [n for n, (is_idr, _) in enumerate(drawn) if n == 0 or not is_idr]
    assert [s for run, _ in out for s in samples_of(run)] == [s for run in runs for s in samples_of(run)]


def samples_of(run: Run) -> list[tuple[int, bytes]]:
    edges = pairwise(run.offsets.tolist())
    return [(row, bytes(run.buffer[a:b])) for row, (a, b) in zip(run.rows.tolist(), edges, strict=True)]
