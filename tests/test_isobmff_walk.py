"""The walk past damage at the top level: what is sound before and behind it is found, with few reads."""

from __future__ import annotations

from bisect import bisect_right
from struct import pack

import pytest
from isobmff_files import Movie, box, fragment, full, init_segment, read_from
from numbered_movies import coded, movie

from vidprep.containers import isobmff
from vidprep.errors import ContainerError
from vidprep.records import ParsedVideo, SampleFlag

SYNC, PREDICTED = 0x02000000, 0x01010000
COUNT = 4


def parse(data: bytes) -> ParsedVideo:
    return isobmff.parse(read_from(data), len(data))


def piece(number: int, *, size: int = 100, timed: bool = True) -> bytes:
    """Fragment `number`: a key and three predicted samples."""
    samples = [(100, size, SYNC if place == 0 else PREDICTED, 0) for place in range(COUNT)]
    return fragment(1, samples, time=number * COUNT * 100 if timed else None)


def times(*numbers: int) -> list[int]:
    return [COUNT * 100 * number + 100 * place for number in numbers for place in range(COUNT)]


JUNK = b"\0\0\0\2junk" + bytes(range(256)) * 9


def moof_bytes(number: int) -> int:
    return piece(number).index(b"mdat") - 4


DAMAGE = {
    "junk before it": (lambda data: JUNK + data, True),
    "zeros before it": (lambda data: bytes(4000) + data, True),
    "moof type": (lambda data: data[:4] + b"moox" + data[8:], False),
    "moof size 5": (lambda data: pack(">I", 5) + data[4:], False),
    "moof size 60": (lambda data: pack(">I", 60) + data[4:], False),
    "moof size 2^31": (lambda data: pack(">I", 0x7FFFFFFF) + data[4:], True),
    "mdat size 9": (lambda data: data[: moof_bytes(1)] + pack(">I", 9) + data[moof_bytes(1) + 4 :], True),
    "mdat size 2^31": (lambda data: data[: moof_bytes(1)] + pack(">I", 0x7FFFFFFF) + data[moof_bytes(1) + 4 :], True),
    "mdat size 2^63": (
        lambda data: data[: moof_bytes(1)] + pack(">I4sQ", 1, b"mdat", 1 << 63) + data[moof_bytes(1) + 16 :],
        True,
    ),
    "missing": (lambda data: data[:0] + JUNK, False),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_fragments_around_damage_are_found(name: str) -> None:
    change, survives = DAMAGE[name]
    data = init_segment() + piece(0) + change(piece(1)) + piece(2) + piece(3)
    got = parse(data)
    assert got.table.frame_pts.tolist() == (times(0, 1, 2, 3) if survives else times(0, 2, 3))
    if name != "moof type":  # a box of an unknown type is no damage that could be seen
        assert got.warnings
        assert got.warnings[0].offset is not None
        assert len(init_segment()) <= got.warnings[0].offset < len(data)


def test_samples_that_may_refer_to_a_lost_fragment_go_with_it() -> None:
    predicted = fragment(1, [(100, 9, PREDICTED, 0)] * COUNT, time=2 * COUNT * 100)
    got = parse(init_segment() + piece(0) + JUNK + predicted + piece(3))
    assert got.table.frame_pts.tolist() == times(0, 3)
    assert got.table.flags[COUNT] & SampleFlag.RESTART


def test_nothing_is_lost_where_the_clock_goes_on_behind_damage() -> None:
    predicted = fragment(1, [(100, 9, PREDICTED, 0)] * COUNT, time=COUNT * 100)
    got = parse(init_segment() + piece(0) + JUNK + predicted + piece(2))
    assert got.table.frame_pts.tolist() == times(0, 1, 2)
    assert not (got.table.flags & SampleFlag.RESTART).any()


@pytest.mark.parametrize("damage", [JUNK, pack(">I4s", 0x7FFFFFFF, b"junk"), pack(">I4s", 0, b"\0\0\0\0"), bytes(513)])
def test_a_movie_box_behind_damage_is_found(damage: bytes) -> None:
    made = movie(coded("libx264"))
    head = box(b"ftyp", b"isom", bytes(4))
    data = head + box(b"mdat", made.payload()) + damage + made.moov(len(head) + 8)
    got = parse(data)
    assert got.table.num_frames == 37
    assert got.warnings[0].offset == len(head) + 8


@pytest.mark.parametrize("size", [9, 40, 0, 100_000])
def test_a_movie_box_behind_media_data_of_a_false_size_is_found(size: int) -> None:
    made = movie(coded("libx264"))
    head = box(b"ftyp", b"isom", bytes(4))
    data = head + pack(">I4s", size, b"mdat") + made.payload() + made.moov(len(head) + 8)
    assert parse(data).table.num_frames == 37


class Sparse:
    """A file of small pieces in a sea of zeros; counts reads and bytes."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.pieces: list[bytes] = []
        self.size = self.reads = self.bytes = 0

    def add(self, piece: bytes, zeros: int = 0) -> None:
        self.places.append(self.size)
        self.pieces.append(piece)
        self.size += len(piece) + zeros

    def read_at(self, offset: int, size: int) -> bytes:
        size = max(min(size, self.size - offset), 0)
        self.reads += 1
        self.bytes += size
        out = bytearray(size)
        for at in range(max(bisect_right(self.places, offset) - 1, 0), bisect_right(self.places, offset + size)):
            piece, place = self.pieces[at], self.places[at] - offset
            begin, end = max(place, 0), min(place + len(piece), size)
            if begin < end:
                out[begin:end] = piece[begin - place : end - place]
        return bytes(out)


MEDIA = 1 << 20
NUM_FRAGMENTS = 300


def sparse_file(*, broken: int | None, index: str = "") -> Sparse:
    """Fragments of 4 MiB each; the media data of one of them claims to go on to the end of the file and beyond."""
    pieces = [piece(number, size=MEDIA // COUNT) for number in range(NUM_FRAGMENTS)]
    heads = [data[: data.index(b"mdat") + 4] for data in pieces]
    sizes = [len(head) + MEDIA for head in heads]
    file = Sparse()
    file.add(init_segment())
    if index == "sidx":
        references = b"".join(pack(">III", size, COUNT * 100, 0x90000000) for size in sizes)
        file.add(full(b"sidx", pack(">IIIIHH", 1, 1000, 0, 0, 0, len(sizes)), references))
    starts = []
    for number, head in enumerate(heads):
        starts.append(file.size)
        size = 0x7FFFFFFF if number == broken else MEDIA + 8
        file.add(head[:-8] + pack(">I", size) + b"mdat", MEDIA)
    if index == "mfra":
        entries = b"".join(pack(">II3B", 0, start, 1, 1, 1) for start in starts)
        tfra = full(b"tfra", pack(">III", 1, 0, len(starts)), entries)
        size = len(tfra) + 24
        file.add(box(b"mfra", tfra, full(b"mfro", pack(">I", size))))
    return file


def test_a_read_a_fragment_is_all_that_a_healthy_file_takes() -> None:
    file = sparse_file(broken=None)
    assert isobmff.parse(file.read_at, file.size).table.num_frames == COUNT * NUM_FRAGMENTS
    assert file.reads <= NUM_FRAGMENTS + 5
    assert file.bytes <= file.size // 50


@pytest.mark.parametrize("index", ["sidx", "mfra", ""])
def test_the_files_own_index_leads_past_damage(index: str) -> None:
    file = sparse_file(broken=100, index=index)
    got = isobmff.parse(file.read_at, file.size)
    assert got.table.num_frames == COUNT * NUM_FRAGMENTS
    assert file.reads <= NUM_FRAGMENTS + 20
    assert file.bytes <= file.size // 50 + MEDIA + (2 << 20)  # the bytes up to the indexed place are searched too


@pytest.mark.parametrize("index", ["sidx", "mfra"])
def test_an_index_that_lies_is_no_worse_than_none(index: str) -> None:
    file = sparse_file(broken=100, index=index)
    at = 1 if index == "sidx" else -1
    data = bytearray(file.pieces[at])
    first = data.index(index.replace("mfra", "tfra").encode()) + 20
    data[first:-16] = bytes(value ^ 0x55 for value in data[first:-16])
    file.pieces[at] = bytes(data)
    assert isobmff.parse(file.read_at, file.size).table.num_frames == COUNT * NUM_FRAGMENTS


def test_what_holds_no_movie_is_searched_within_bounds() -> None:
    file = Sparse()
    file.add(box(b"ftyp", b"isom", bytes(4)))
    file.add(pack(">I4sQ", 1, b"mdat", 1 << 40), 1 << 30)
    with pytest.raises(ContainerError):
        isobmff.parse(file.read_at, file.size)
    assert file.bytes <= 66 << 20


def test_a_media_segment_alone_is_not_searched_for_a_movie() -> None:
    file = Sparse()
    head = piece(0, size=MEDIA)
    file.add(head[: head.index(b"mdat") + 4], COUNT * MEDIA)
    with pytest.raises(ContainerError, match="initialisation segment"):
        isobmff.parse(file.read_at, file.size)
    assert file.bytes <= 128 << 10


def test_movies_without_fragments_are_not_walked_behind_their_movie_box() -> None:
    data = Movie().file()
    assert parse(data + JUNK).warnings == ()
