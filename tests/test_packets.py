"""vidprep.loaders.packets: columns are the same as a list of packets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vidprep.loaders.packets import FIRST_BYTES, Packet, Packets, Payloads

PACKETS = st.lists(
    st.builds(Packet, st.integers(0, 99), st.binary(max_size=30), st.booleans(), st.integers(-9, 9), st.booleans())
)


@given(PACKETS)
def test_columns_give_back_the_packets_they_were_made_of(packets):
    columns = Packets.of(packets)
    assert list(columns) == packets
    assert [columns[place] for place in range(len(columns))] == packets
    assert [packet.data for packet in columns] == [packet.payload for packet in packets]


@given(PACKETS, st.data())
def test_some_of_them_are_taken_as_from_a_list(packets, data):
    columns = Packets.of(packets)
    is_kept = data.draw(st.lists(st.booleans(), min_size=len(packets), max_size=len(packets)))
    kept = [place for place, keep in enumerate(is_kept) if keep]
    want = [packets[place] for place in kept]
    assert list(columns[np.array(is_kept, bool)]) == want
    assert list(columns[np.array(kept, int)]) == want
    start = data.draw(st.integers(0, len(packets)))
    assert list(columns[start:]) == packets[start:]


@given(block=st.binary(max_size=40), edges=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30)), max_size=8))
def test_heads_of_samples_anywhere_in_a_block_end_where_the_samples_do(block, edges):
    begin = np.array([begin for begin, _ in edges], np.int64)
    size = np.array([min(size, max(len(block) - begin, 0)) for begin, size in edges], np.int64)
    payloads = Payloads(memoryview(block), begin, size)
    expected = [sample[:FIRST_BYTES].tobytes().ljust(FIRST_BYTES, b"\0") for sample in payloads]
    assert [bytes(head) for head in payloads.heads] == expected
    assert [bytes(head) for head in payloads[1:].heads] == expected[1:]


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_heads_are_the_first_bytes_of_samples(samples):
    payloads = Payloads.of(samples)
    assert list(payloads) == samples
    assert [bytes(head) for head in payloads.heads] == [
        sample[:FIRST_BYTES].ljust(FIRST_BYTES, b"\0") for sample in samples
    ]
