"""Reads of a least size, and a file over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from vidprep.containers import parse_container
from vidprep.containers.filelike import ReadAhead, ReadAtFile

if TYPE_CHECKING:
    from pathlib import Path

DATA = bytes(range(256)) * 8


@given(
    asked=st.lists(st.tuples(st.integers(0, len(DATA) + 9), st.integers(0, 600)), max_size=30),
    least=st.integers(1, 500),
)
def test_read_ahead_gives_the_bytes_that_the_file_has(asked: list[tuple[int, int]], least: int) -> None:
    def read_at(offset: int, size: int) -> bytes:
        assert 0 <= offset < offset + size <= len(DATA)
        return DATA[offset : offset + size]

    read = ReadAhead(read_at, len(DATA), least)
    for offset, size in asked:
        assert read(offset, size) == DATA[offset : offset + size]


def test_a_walk_over_small_blocks_takes_few_requests(cases: Path) -> None:
    data = (cases / "files" / "mkv_no_cues.mkv").read_bytes()
    requests: list[int] = []

    def read_at(offset: int, size: int) -> bytes:
        requests.append(size)
        return data[offset : offset + size]

    one_by_one = parse_container(read_at, len(data))
    many = len(requests)
    requests.clear()
    ahead = parse_container(read_at, len(data), min_read_bytes=4096)
    assert ahead.table.offset.tolist() == one_by_one.table.offset.tolist()
    assert len(requests) <= min(8, many // 4)


def test_a_file_over_read_at_seeks_and_reads() -> None:
    file = ReadAtFile(lambda offset, size: DATA[offset : offset + size], len(DATA))
    assert (file.seek(-6, 2), file.read()) == (len(DATA) - 6, DATA[-6:])
    assert (file.seek(-1), file.read(3)) == (0, DATA[:3])
