"""The plain movie's one pass beside the general reader: whatever it takes, both read alike."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from isobmff_files import Movie, box, full, read_from

from vidprep.containers.isobmff import parse
from vidprep.containers.isobmff.plain import read_plain
from vidprep.errors import ContainerError

if TYPE_CHECKING:
    from vidprep.records import ParsedVideo

CASES = Path(__file__).parent / "cases" / "files"
PARSE = import_module("vidprep.containers.isobmff.parse")
REORDERED = {"ctts": [(1, 200), (1, 400), (1, 100), (1, 100), (1, 300), (1, 100)], "edits": [(700, 100, 65536)]}
SIZES = full(b"stsz", bytes([0, 0, 0, 0, 0, 0, 0, 6, *(byte for size in range(5, 11) for byte in (0, 0, 0, size))]))
PLAIN = {
    "smallest": Movie(),
    "keys": Movie(stss=[1, 4]),
    "reordered": Movie(**REORDERED, stss=[1]),
    "one edit": Movie(edits=[(600, 0, 65536)], movie_timescale=600),
    "endless edit": Movie(edits=[(0, 0, 65536)]),
    "runs of times": Movie(stts=[(2, 100), (3, 50), (1, 10)], ctts=[(3, 100), (3, 0)]),
    "runs of chunks": Movie(stsc=[(1, 2, 1), (2, 1, 1), (4, 2, 1)]),
    "many runs of chunks": Movie(sizes=[7] * 30, stsc=[(n + 1, 1 + n % 2, 1) for n in range(20)]),
    "apart": Movie(stsc=[(1, 3, 1)], chunk_gap=5),
    "two of one time": Movie(stts=[(3, 0), (3, 5)]),
    "many keys": Movie(sizes=[7] * 90, stss=list(range(1, 90, 2))),
    "64-bit offsets": Movie(co64=True, stsc=[(1, 2, 1)]),
    "some not depended on": Movie(extra_stbl=full(b"sdtp", b"\x20\x18\x08\0\x04\x0c")),
    "a table of odd size in front": Movie(**REORDERED, stsz=full(b"sdtp", b"\x08\0\x08\0\x08\0\0") + SIZES),
    "64-bit offsets behind one": Movie(co64=True, stsz=full(b"sdtp", b"\x08\0\x08\0\x08\0\0") + SIZES),
    "too few dependencies": Movie(extra_stbl=full(b"sdtp", b"\x08\x08\x08\x08\x08")),
    "tied to other tracks": Movie(extra_trak=box(b"tref", box(b"tmcd", b"\0\0\0\2"))),
}
NOT_PLAIN = {
    "constant size": Movie(stsz=full(b"stsz", b"\0\0\0\x0a\0\0\0\x05")),
    "fragmented": Movie(extra_moov=box(b"mvex")),
    "negative offsets": Movie(ctts=[(3, -1), (3, 0)]),
    "two edits": Movie(edits=[(100, 0, 65536), (100, 300, 65536)]),
    "cut by its edit": Movie(edits=[(300, 0, 65536)]),
    "an empty sample": Movie(sizes=[10, 0, 10]),
    "too many times": Movie(stts=[(7, 100)]),
    "too few offsets": Movie(ctts=[(5, 0)]),
    "partial keys": Movie(stss=[1], extra_stbl=full(b"stps", b"\0\0\0\1\0\0\0\3")),
    "a key beyond": Movie(stss=[1, 9]),
    "keys from 0": Movie(stss=[0, 3]),
    "chunks that come short": Movie(stsc=[(1, 2, 1), (3, 1, 1)], sizes=[5] * 6, extra_stbl=box(b"stz2")),
    "a tool's own box": Movie(extra_trak=box(b"tool")),
    "with chapters": Movie(extra_trak=box(b"tref", box(b"chap", b"\0\0\0\1"))),
    "chunks beyond": Movie(stsz=SIZES, extra_stbl=full(b"co64", b"\0\0\0\1" + b"\x80" + bytes(7))),
}


def taken(data: bytes) -> ParsedVideo | None:
    """What the one pass makes of a file."""
    return read_plain(read_from(data), len(data), data[:4096])


def generally(data: bytes) -> ParsedVideo:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PARSE, "read_plain", lambda *_: None)
        return parse(read_from(data), len(data))


def outcome(read, data: bytes) -> tuple:
    try:
        got = read(data)
    except ContainerError as error:
        return type(error), error.reason, error.offset, error.message
    table = got.table
    arrays = table.offset, table.size, table.pts, table.flags, table.frame_rows, table.frame_pts, table.key_rows
    columns = [(array.dtype, array.tolist()) for array in arrays]
    return got.info, got.timing, columns, table.order, got.method, got.access, got.keys_verified, got.warnings


def assert_alike(data: bytes) -> None:
    assert outcome(lambda data: parse(read_from(data), len(data)), data) == outcome(generally, data)


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_movie_is_taken_and_read_as_the_general_reader_does(name: str) -> None:
    data = PLAIN[name].file()
    assert taken(data) is not None
    assert_alike(data)


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_general_reader(name: str) -> None:
    data = NOT_PLAIN[name].file()
    assert taken(data) is None
    assert_alike(data)


def test_cases_are_read_alike(cases: Path) -> None:
    for path in sorted((cases / "files").glob("*.mp4")):
        assert_alike(path.read_bytes())


def test_real_files_are_read_alike_and_many_are_plain(corpus: Path) -> None:
    plain = 0
    for path in sorted((corpus / "files").iterdir()):
        if path.suffix in (".mp4", ".mov", ".m4v", ".3gp") and path.stat().st_size < 1 << 21:
            data = path.read_bytes()
            plain += taken(data) is not None
            assert_alike(data)
    assert plain > 10


SEEDS = [movie.file() for movie in (*PLAIN.values(), *NOT_PLAIN.values())]
VALUES = [
    b"\0",
    b"\1",
    b"\2",
    b"\x80",
    b"\xff",
    b"\0\0\0\0",
    b"\0\0\0\1",
    b"\0\0\0\3",
    b"\x7f\xff\xff\xff",
    b"\xff" * 4,
]


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.sampled_from(SEEDS),
    changes=st.lists(st.tuples(st.integers(0, 1200), st.sampled_from(VALUES)), min_size=1, max_size=3),
)
@example(seed=SEEDS[0], changes=[])
def test_changed_headers_are_read_alike(seed: bytes, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(seed)
    start = seed.find(b"moov") - 4
    for at, value in changes:
        place = start + at % (len(seed) - start)
        data[place : place + len(value)] = value
    assert_alike(bytes(data[: len(seed)]))
