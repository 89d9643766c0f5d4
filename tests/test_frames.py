"""Laws of the frame table's two stored forms: the index's columns and the cache's blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from vidprep.indexes.cache import frame_lists
from vidprep.indexes.frames import pack, unpack
from vidprep.indexes.rows import table_of
from vidprep.indexes.schema import FRAME_NAMES
from vidprep.indexes.write import frame_arrays
from vidprep.records import SampleTable

INT64 = np.iinfo(np.int64)


def _column(n: int, low: int, high: int) -> st.SearchStrategy[np.ndarray]:
    """Values of one narrow range within [low, high], so that every width comes up."""
    bits = st.integers(0, 63)
    return bits.flatmap(
        lambda width: npst.arrays(
            np.int64, n, elements=st.integers(max(low, -(1 << width)), min(high, (1 << width) - 1)), fill=st.nothing()
        )
    )


@st.composite
def tables(draw: st.DrawFn) -> SampleTable:
    n = draw(st.integers(0, 40))
    order = draw(st.none() | st.permutations(range(n)).map(lambda rows: np.array(rows, np.int64)))
    return SampleTable(
        offset=draw(_column(n, 0, 1 << 50)),
        size=draw(_column(n, 0, 1 << 40)),
        pts=draw(_column(n, INT64.min, INT64.max)),
        flags=draw(npst.arrays(np.uint8, n, elements=st.integers(0, 7))),
        order=order,
        crc32=draw(st.none() | npst.arrays(np.uint32, n)),
    )


def _equal(left: SampleTable, right: SampleTable) -> bool:
    pairs = [
        (getattr(left, name), getattr(right, name)) for name in ("offset", "size", "pts", "flags", "order", "crc32")
    ]
    return all((a is None) == (b is None) and (a is None or np.array_equal(a, b)) for a, b in pairs)


def _lists(many: list[SampleTable | None]) -> list[list[np.ndarray | None]]:
    columns = [array.to_pylist() for array in frame_arrays(many)]
    dtypes = [np.int64, np.int64, np.int64, np.uint8, np.int64, np.uint32]
    return [
        [None if values is None else np.array(values, dtype) for values, dtype in zip(row, dtypes, strict=True)]
        for row in zip(*columns, strict=True)
    ]


@settings(deadline=None)
@given(st.lists(st.none() | tables(), max_size=4))
def test_any_table_comes_back_from_the_columns(many: list[SampleTable | None]) -> None:
    for table, row in zip(many, _lists(many), strict=True):
        if table is None:
            assert len(row[0]) == 0
        else:
            assert _equal(table_of(*row), table)


def _blocks(many: list[SampleTable | None], skip: int = 0) -> list[bytes]:
    columns = pa.Table.from_arrays(frame_arrays(many), list(FRAME_NAMES))
    return pack(frame_lists(columns.slice(skip)))


@settings(deadline=None)
@given(st.lists(st.none() | tables(), max_size=5), st.integers(0, 2))
def test_any_tables_come_back_from_the_cache(many: list[SampleTable | None], skip: int) -> None:
    blocks = _blocks(many, skip)
    assert len(blocks) == len(many[skip:])
    for table, block in zip(many[skip:], blocks, strict=True):
        if table is None or not len(table):
            assert block == b""
            assert len(unpack(memoryview(b"next block"), 0)) == 0
        else:
            assert _equal(unpack(memoryview(block + b"next block"), len(table)), table)


@pytest.mark.parametrize(("audio_gap", "limit"), [(0, 6.1), (700, 8.0)])
def test_a_block_of_a_usual_video_takes_at_most_eight_bytes_a_frame(audio_gap: int, limit: float) -> None:
    rng = np.random.default_rng(0)
    n = 3000
    size = rng.integers(200, 90_000, n)
    gaps = rng.integers(0, audio_gap + 1, n)
    table = SampleTable(
        offset=np.cumsum(size + gaps) - size,
        size=size,
        pts=np.arange(n)[np.lexsort((np.arange(n) % 4 == 0, np.arange(n) // 4))] * 512,
        flags=np.full(n, 2, np.uint8),
    )
    assert len(_blocks([table])[0]) / n <= limit
