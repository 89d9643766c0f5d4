"""Hostile input: any bytes give a table or a ContainerError, soon and in little memory."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from isobmff_files import Movie, box, fragment, full, init_segment, read_from, table

from vidprep.containers import isobmff, parse_container
from vidprep.errors import ContainerError

if TYPE_CHECKING:
    from vidprep.records import ParsedVideo

CASES = Path(__file__).parent / "cases" / "files"
SEEDS = [
    *((CASES / f"{name}.mp4").read_bytes() for name in ("elst_cut_middle", "fmp4_plain", "cover_first", "stz2_16")),
    Movie(ctts=[(2, 5), (4, -3)], stss=[1, 4], stsc=[(1, 2, 1), (2, 1, 1)], edits=[(100, 0, 65536), (50, 2, 0)]).file(),
    init_segment() + fragment(1, [(1, 5, 0, 2)] * 4, time=0, version=1),
]
#: The promise for any input below 1 MB. Processor time, because wall time also counts what else the machine does.
MAX_SECONDS, MAX_BYTES = 1.0, 200 << 20


def table_or_error(data: bytes) -> ParsedVideo | None:
    """Parse; check the laws that hold for every table."""
    try:
        got = isobmff.parse(read_from(data), len(data))
    except ContainerError:
        return None
    rows = got.table
    assert rows.num_frames > 0
    assert (rows.size > 0).all()
    assert (rows.offset >= 0).all()
    assert (rows.offset + rows.size <= len(data)).all()
    assert got.info.width >= 0
    assert got.info.last_duration_ticks >= 0
    assert got.timing.duration_seconds == got.timing.duration_seconds
    return got


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
@example(b"")
@example(b"\0\0\0\x08moov")
def test_any_bytes_give_a_table_or_an_error(data: bytes) -> None:
    table_or_error(data)
    table_or_error(box(b"ftyp", b"isom") + box(b"moov", data))


PATCHES = [b"\0", b"\xff", b"\x80", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\1"]


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.sampled_from(SEEDS),
    changes=st.lists(st.tuples(st.integers(0, 4000), st.sampled_from(PATCHES)), min_size=1, max_size=8),
    cut=st.integers(0, 6000),
)
def test_changed_headers_give_a_table_or_an_error(seed: bytes, changes: list[tuple[int, bytes]], cut: int) -> None:
    data = bytearray(seed)
    start = max(seed.find(b"moov") - 4, 0)
    for at, value in changes:
        place = start + at % max(len(seed) - start, 1)
        data[place : place + len(value)] = value
    table_or_error(bytes(data))
    table_or_error(bytes(data[:cut]))


def nested(depth: int) -> bytes:
    data = b""
    for level in range(depth):
        data = pack(">I4s", 8 + len(data), (b"moov", b"trak", b"mdia", b"udta")[level % 4]) + data
    return data


def long_trun(runs: int) -> bytes:
    init = init_segment(trex=(1, 1, 1, 1, 0))
    return init + box(b"moof", box(b"traf", full(b"tfhd", pack(">I", 1)), *[full(b"trun", pack(">I", 1 << 31))] * runs))


def many_small_runs(runs: int) -> bytes:
    init = init_segment(trex=(1, 1, 1, 1, 0))
    return init + box(b"moof", box(b"traf", full(b"tfhd", pack(">I", 1)), *[full(b"trun", pack(">I", 1))] * runs))


def covers(count: int) -> bytes:
    picture = box(b"data", pack(">II", 13, 0), b"x")
    return box(b"udta", full(b"meta", box(b"ilst", box(b"covr", *[picture] * count))))


def constant_size(size: int, count: int) -> bytes:
    return full(b"stsz", pack(">II", size, count))


EVERYTHING, ONE = 0xFFFFFFFF, 0x10000
TWENTY_THOUSAND = {"sizes": [1] * 20_000, "stts": [(20_000, 1)]}
HALF_BYTES = full(b"stz2", bytes(3), b"\4", pack(">I", 1_800_000), b"\x11" * 900_000)
RANDOM_ACCESS = full(b"sbgp", b"rap ", pack(">I", 90_000), pack(">II", EVERYTHING, 1) * 90_000)

HOSTILE = {
    "boxes nested 10,000 deep": nested(10_000),
    "a box of 2^63 bytes": box(b"ftyp", b"isom") + pack(">I4sQ", 1, b"moov", 1 << 63) + bytes(100),
    "a box of 2^63 bytes inside": Movie(extra_trak=pack(">I4sQ", 1, b"udta", 1 << 63)).file(),
    "100,000 boxes of 8 bytes": box(b"ftyp", b"isom") + box(b"free") * 100_000,
    "100,000 tracks of 8 bytes": box(b"ftyp", b"isom") + box(b"moov", box(b"trak") * 100_000),
    "4 billion samples of 1 byte": Movie(
        stsz=constant_size(1, EVERYTHING), stts=[(EVERYTHING, 1)], stsc=[(1, EVERYTHING, 1)]
    ).file()
    + bytes(900_000),
    "4 billion listed samples": Movie(stsz=constant_size(0, EVERYTHING) + bytes(900_000)).file(),
    "1,800,000 samples of 4 bits": Movie(stsz=HALF_BYTES, stsc=[(1, 1_800_000, 1)], stts=[(1_800_000, 1)]).file(),
    "run-length tables of billions": Movie(stts=[(EVERYTHING, 1)] * 50_000, ctts=[(0x7FFFFFFF, 1)] * 50_000).file(),
    "chunks of billions": Movie(stsc=[(1, EVERYTHING, 1), (2, EVERYTHING, 1)]).file(),
    "60,000 edits over 20,000 samples": Movie(**TWENTY_THOUSAND, edits=[(20_000, 0, ONE)] * 60_000).file(),
    "60,000 dwells over 20,000 samples": Movie(**TWENTY_THOUSAND, stss=[1], edits=[(9, 19_999, 0)] * 60_000).file(),
    "runs of 2 billion": long_trun(50_000),
    "40,000 runs": many_small_runs(40_000) + bytes(100_000),
    "a random access group of billions": Movie(stss=[1], extra_stbl=RANDOM_ACCESS).file(),
    "60,000 sample descriptions": Movie(entries=[box(b"avc1", bytes(8))] * 60_000).file(),
    "data references without end": Movie(dref=full(b"dref", pack(">I", EVERYTHING), bytes(900_000))).file(),
    "40,000 covers": Movie(before_trak=covers(40_000)).file(),
    "50,000 tracks beside 20,000 covers": Movie(extra_moov=covers(20_000) + box(b"trak") * 50_000).file(),
    "chapters that refer to everything": Movie(extra_trak=box(b"tref", box(b"chap", bytes(900_000)))).file(),
    "offsets that run over": Movie(stsc=[(1, 1, 1)], extra_stbl=table(b"co64", [((1 << 63) - 1,)] * 6, "Q")).file(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_takes_little_time_and_memory(name: str) -> None:
    data = HOSTILE[name]
    assert len(data) < 1 << 20
    started = time.process_time()
    table_or_error(data)
    taken = time.process_time() - started
    tracemalloc.start()
    try:
        table_or_error(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MAX_BYTES
    assert taken < 3 * MAX_SECONDS, "three times the promise: machines under test are slow"


def test_a_movie_box_that_is_cut_off_is_truncated_wherever_the_cut_is(cases: Path) -> None:
    data = (cases / "files" / "open_gop.mp4").read_bytes()
    start = data.index(b"moov") - 4
    end = start + int.from_bytes(data[start : start + 4], "big")
    for cut in range(start + 8, min(end, len(data)), 7):
        try:
            parsed = parse_container(lambda at, size, part=data[:cut]: part[at : at + size], cut)
            reasons = {finding.reason for finding in parsed.warnings}
        except ContainerError as refusal:
            reasons = {refusal.reason}
        assert "truncated" in reasons, cut
