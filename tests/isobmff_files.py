"""A small writer of ISO base media files, for tests: every table can be given as it should (or should not) be."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack

UNITY = pack(">9i", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
#: avcC of a 160x144 High profile stream, as x264 writes it.
AVCC = bytes.fromhex("0164000bffe100176764000bacd94284e840000003004000190003c50a658001000668eba132c8b0fdf8f800")


def box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return pack(">I4s", 8 + len(body), kind) + body


def large_box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return pack(">I4sQ", 1, kind, 16 + len(body)) + body


def full(kind: bytes, *parts: bytes, version: int = 0, flags: int = 0) -> bytes:
    return box(kind, pack(">I", version << 24 | flags), *parts)


def table(
    kind: bytes, records: list[tuple[int, ...]], form: str, *, version: int = 0, count: int | None = None
) -> bytes:
    return full(
        kind,
        pack(">I", len(records) if count is None else count),
        b"".join(pack(">" + form, *record) for record in records),
        version=version,
    )


def read_from(data: bytes):
    """read_at over bytes; counts the calls in `.calls`."""

    def read_at(offset: int, size: int) -> bytes:
        read_at.calls += 1
        return data[offset : offset + size]

    read_at.calls = 0
    return read_at


@dataclass(kw_only=True)
class Movie:
    """One video track; `moov(first)` builds the movie box for a media that starts at file offset `first`."""

    sizes: list[int] = field(default_factory=lambda: [10, 20, 30, 40, 50, 60])
    stts: list[tuple[int, int]] | None = None
    ctts: list[tuple[int, int]] | None = None
    stss: list[int] | None = None
    stsc: list[tuple[int, int, int]] | None = None
    chunk_gap: int = 0
    stsz: bytes | None = None
    edits: list[tuple[int, int, int]] | None = None
    edit_version: int = 0
    movie_timescale: int = 1000
    timescale: int = 1000
    entries: list[bytes] | None = None
    dref: bytes = full(b"dref", pack(">I", 1), full(b"url ", flags=1))
    matrix: bytes = UNITY
    handler: bytes = b"vide"
    track_id: int = 1
    co64: bool = False
    extra_stbl: bytes = b""
    extra_trak: bytes = b""
    extra_moov: bytes = b""
    before_trak: bytes = b""

    def runs(self) -> list[tuple[int, int, int]]:
        return self.stsc if self.stsc is not None else [(1, max(len(self.sizes), 1), 1)]

    def chunk_counts(self) -> list[int]:
        """Samples in each chunk, by the naive reading of stsc."""
        counts, left, chunk = [], len(self.sizes), 1
        while left > 0:
            per = [r for r in self.runs() if r[0] <= chunk][-1][1]
            counts.append(min(per, left))
            left -= per
            chunk += 1
            if per == 0 and chunk > 1000:
                break
        return counts

    def chunks(self, first: int) -> list[int]:
        offsets, position, sample = [], first, 0
        for count in self.chunk_counts():
            offsets.append(position)
            position += sum(self.sizes[sample : sample + count]) + self.chunk_gap
            sample += count
        return offsets

    def sample_offsets(self, first: int) -> list[int]:
        """Where each sample lies, by a plain loop."""
        offsets, sample = [], 0
        for chunk, count in zip(self.chunks(first), self.chunk_counts(), strict=True):
            position = chunk
            for size in self.sizes[sample : sample + count]:
                offsets.append(position)
                position += size
            sample += count
        return offsets

    def stbl(self, first: int) -> bytes:
        chunks = [(offset,) for offset in self.chunks(first)]
        steps = self.stts if self.stts is not None else [(len(self.sizes), 100)]
        sizes = self.stsz or full(b"stsz", pack(">II", 0, len(self.sizes)), pack(f">{len(self.sizes)}I", *self.sizes))
        return box(
            b"stbl",
            full(b"stsd", pack(">I", len(self._entries())), *self._entries()),
            table(b"stts", steps, "II"),
            b"" if self.ctts is None else table(b"ctts", self.ctts, "Ii"),
            b"" if self.stss is None else table(b"stss", [(n,) for n in self.stss], "I"),
            table(b"stsc", self.runs(), "III"),
            sizes,
            table(b"co64", chunks, "Q") if self.co64 else table(b"stco", chunks, "I"),
            self.extra_stbl,
        )

    def _entries(self) -> list[bytes]:
        return self.entries if self.entries is not None else [visual_entry()]

    def trak(self, first: int) -> bytes:
        form = "QqI" if self.edit_version else "IiI"
        return box(
            b"trak",
            full(
                b"tkhd",
                pack(">IIIII", 0, 0, self.track_id, 0, 0),
                bytes(16),
                self.matrix,
                pack(">II", 160 << 16, 144 << 16),
                flags=3,
            ),
            box(b"edts", table(b"elst", self.edits, form, version=self.edit_version)) if self.edits else b"",
            self.extra_trak,
            box(
                b"mdia",
                full(b"mdhd", pack(">IIIIHH", 0, 0, self.timescale, 0, 0, 0)),
                full(b"hdlr", pack(">I4s", 0, self.handler), bytes(13)),
                box(b"minf", full(b"vmhd", bytes(8), flags=1), box(b"dinf", self.dref), self.stbl(first)),
            ),
        )

    def moov(self, first: int) -> bytes:
        mvhd = full(
            b"mvhd", pack(">IIIIIHH", 0, 0, self.movie_timescale, 0, 0x10000, 0x100, 0), bytes(8), UNITY, bytes(28)
        )
        return box(b"moov", mvhd, self.before_trak, self.trak(first), self.extra_moov)

    def payload(self) -> bytes:
        counts = self.chunk_counts()
        return bytes(sum(self.sizes) + self.chunk_gap * len(counts))

    def file(self) -> bytes:
        """moov first, then one mdat."""
        head = box(b"ftyp", b"isom", bytes(4))
        first = len(head) + len(self.moov(0)) + 8
        return head + self.moov(first) + box(b"mdat", self.payload())

    def first(self) -> int:
        """Offset of the first media byte in `file()`."""
        return 16 + len(self.moov(0)) + 8


def visual_entry(fourcc: bytes = b"avc1", *boxes: bytes, width: int = 160, height: int = 144, dref: int = 1) -> bytes:
    fixed = bytes(6) + pack(">H", dref) + bytes(16) + pack(">HH", width, height) + bytes(46) + pack(">Hh", 24, -1)
    return box(fourcc, fixed, *(boxes or (box(b"avcC", AVCC),)))


def fragment(track_id: int, samples: list[tuple[int, int, int, int]], *, time: int | None, version: int = 0) -> bytes:
    """moof + mdat; samples are (duration, size, flags, composition), all stated per sample."""

    def moof(offset: int) -> bytes:
        clock = b"" if time is None else full(b"tfdt", pack(">Q" if version else ">I", time), version=version)
        run = full(
            b"trun",
            pack(">Ii", len(samples), offset),
            b"".join(pack(">IIIi", *sample) for sample in samples),
            flags=0xF01,
            version=1,
        )
        traf = box(b"traf", full(b"tfhd", pack(">I", track_id), flags=0x20000), clock, run)
        return box(b"moof", full(b"mfhd", pack(">I", 1)), traf)

    return moof(len(moof(0)) + 8) + box(b"mdat", bytes(sum(sample[1] for sample in samples)))


def init_segment(*, edits: list[tuple[int, int, int]] | None = None, trex: tuple[int, ...] = (1, 1, 0, 0, 0)) -> bytes:
    mvex = box(b"mvex", full(b"trex", pack(">5I", *trex)))
    movie = Movie(sizes=[], stts=[], stsc=[], edits=edits, extra_moov=mvex)
    return box(b"ftyp", b"iso5", bytes(4)) + movie.moov(0)
