"""Movie fragments: every flag, defaults, clocks, hybrids; and FFmpeg's reading of what FFmpeg wrote."""

from __future__ import annotations

import io
from struct import pack

import av
import numpy as np
import pytest
from isobmff_files import Movie, box, fragment, full, init_segment, read_from, visual_entry

from vidprep.containers import isobmff
from vidprep.errors import ContainerError
from vidprep.records import ParsedVideo, SampleFlag

SYNC, NOT_SYNC, DISPOSABLE = 0x02000000, 0x01010000, 0x01810000
ONE = 0x10000


def parse(data: bytes) -> ParsedVideo:
    return isobmff.parse(read_from(data), len(data))


def test_init_and_media_segments_in_one_file_are_read() -> None:
    init = init_segment()
    one = fragment(1, [(100, 5, SYNC, 100), (100, 6, NOT_SYNC, 200), (100, 7, DISPOSABLE, 0)], time=0)
    two = fragment(1, [(100, 8, SYNC, 100)], time=300, version=1)
    got = parse(init + one + two)
    assert got.method == "scan"
    assert got.table.pts.tolist() == [100, 300, 200, 400]
    assert got.table.size.tolist() == [5, 6, 7, 8]
    assert got.table.key_rows.tolist() == [0, 3]
    assert np.flatnonzero(got.table.flags & SampleFlag.DISPOSABLE).tolist() == [2]
    first = len(init) + len(one) - 18
    assert got.table.offset.tolist() == [first, first + 5, first + 11, len(init) + len(one) + len(two) - 8]
    assert got.info.header_num_frames is None
    assert got.info.last_duration_ticks == 100


def test_the_edit_list_moves_the_times_of_fragments() -> None:
    init = init_segment(edits=[(250, -1, ONE), (0, 100, ONE)])
    assert parse(init + fragment(1, [(100, 5, SYNC, 100)] * 2, time=0)).table.frame_pts.tolist() == [250, 350]


def test_without_tfdt_the_clock_goes_on() -> None:
    init = init_segment()
    run = [(100, 5, SYNC, 0)] * 2
    data = init + fragment(1, run, time=1000) + fragment(1, run, time=None)
    assert parse(data).table.frame_pts.tolist() == [1000, 1100, 1200, 1300]


def test_samples_that_overlap_the_fragment_before_are_not_shown() -> None:
    run = [(100, 5, SYNC, 0)] * 3
    got = parse(init_segment() + fragment(1, run, time=0) + fragment(1, run, time=100))
    assert (got.table.flags & SampleFlag.SHOWN).tolist() == [2, 2, 2, 0, 0, 2]


def test_defaults_come_from_trex_then_tfhd_and_the_first_flags_from_trun() -> None:
    init = init_segment(trex=(1, 1, 40, 9, NOT_SYNC))
    plain = full(b"trun", pack(">I", 3))
    own = full(b"trun", pack(">III", 2, 0, SYNC), flags=0x5)
    header = full(b"tfhd", pack(">I", 1))
    sized = full(b"tfhd", pack(">IIII", 1, 70, 11, NOT_SYNC), flags=0x38)
    data = init + box(b"moof", box(b"traf", header, plain), box(b"traf", sized, own)) + box(b"mdat", bytes(49))
    got = parse(data)
    start = len(init)
    assert got.table.pts.tolist() == [0, 40, 80, 120, 190]
    assert got.table.size.tolist() == [9, 9, 9, 11, 11]
    assert got.table.key_rows.tolist() == [3]
    # the first traf's data starts at the moof, the second's where the first's ended (8.8.7)
    assert (got.table.offset - start).tolist() == [0, 9, 18, 27, 38]


def test_a_second_run_without_offset_follows_the_first() -> None:
    """8.8.8.3: "if the data-offset is not present, then the data for this run starts immediately after the data of
    the previous run"."""
    init = init_segment(trex=(1, 1, 40, 9, 0))
    runs = full(b"trun", pack(">Ii", 2, 500), flags=1) + full(b"trun", pack(">I", 1))
    traf = box(b"traf", full(b"tfhd", pack(">IQ", 1, 100), flags=1), runs)
    got = parse(init + box(b"moof", traf) + box(b"mdat", bytes(1000)))
    assert got.table.offset.tolist() == [600, 609, 618]


def test_tracks_of_others_are_passed_over_and_count_for_implicit_offsets() -> None:
    init = init_segment(trex=(1, 1, 40, 9, 0))
    other = box(b"traf", full(b"tfhd", pack(">II", 2, 100), flags=0x10), full(b"trun", pack(">I", 3)))
    mine = box(b"traf", full(b"tfhd", pack(">I", 1)), full(b"trun", pack(">I", 1)))
    got = parse(init + box(b"moof", other, mine) + box(b"mdat", bytes(400)))
    assert got.table.offset.tolist() == [len(init) + 300]


def test_a_hybrid_file_gives_the_tables_samples_then_the_fragments() -> None:
    mvex = box(b"mvex", full(b"trex", pack(">5I", 1, 1, 0, 0, 0)))
    movie = Movie(sizes=[3, 4], stss=[1], extra_moov=mvex)
    got = parse(movie.file() + fragment(1, [(100, 5, SYNC, 0)], time=None))
    assert got.table.frame_pts.tolist() == [0, 100, 200]
    assert got.table.size.tolist() == [3, 4, 5]
    assert (got.method, got.info.header_num_frames) == ("scan", 2)


def test_a_hybrid_file_without_fragments_is_read_from_its_header() -> None:
    mvex = box(b"mvex", full(b"trex", pack(">5I", 1, 1, 0, 0, 0)))
    assert parse(Movie(extra_moov=mvex).file()).method == "header"


def test_a_run_that_its_box_cannot_hold_is_left_out_and_the_others_stay() -> None:
    good = fragment(1, [(100, 5, SYNC, 0)], time=0)
    bad = bytearray(fragment(1, [(100, 5, SYNC, 0)], time=100))
    at = bad.find(b"trun") + 8
    bad[at : at + 4] = pack(">I", 1 << 31)
    got = parse(init_segment() + good + bytes(bad) + fragment(1, [(100, 5, SYNC, 0)], time=200))
    assert got.table.frame_pts.tolist() == [0, 200]
    assert "trun claims 2147483648" in got.warnings[0].message


def test_encrypted_samples_are_refused_though_a_clear_description_comes_first() -> None:
    entries = [visual_entry(), visual_entry(b"encv", box(b"sinf", box(b"frma", b"avc1")))]
    mvex = box(b"mvex", full(b"trex", pack(">5I", 1, 2, 0, 0, 0)))
    movie = Movie(sizes=[], stts=[], stsc=[], entries=entries, extra_moov=mvex)
    data = box(b"ftyp", b"iso5", bytes(4)) + movie.moov(0) + fragment(1, [(100, 5, SYNC, 0)], time=0)
    with pytest.raises(ContainerError, match="encrypted"):
        parse(data)


#: Ticks that FFmpeg adds to all times of fragments with negative composition offsets (see docs/disagreements.md).
SHIFTED_BY_FFMPEG = {"cmaf": 512}


@pytest.mark.parametrize(
    "flags", ["frag_keyframe+empty_moov", "frag_keyframe", "dash+frag_every_frame", "cmaf", "hybrid_fragmented"]
)
def test_what_ffmpeg_writes_is_read_as_ffmpeg_reads_it(flags: str) -> None:
    data = encode(flags)
    shift = SHIFTED_BY_FFMPEG.get(flags, 0)
    with av.open(io.BytesIO(data)) as container:
        want = [(p.pos, p.size, p.pts - shift, p.is_keyframe) for p in container.demux(video=0) if p.size]
    table = parse(data).table
    key = (table.flags & SampleFlag.KEY) != 0
    assert list(zip(table.offset.tolist(), table.size.tolist(), table.pts.tolist(), key.tolist(), strict=True)) == want
    assert flags not in SHIFTED_BY_FFMPEG or int(table.frame_pts[0]) == 0


def encode(movflags: str, frames: int = 30) -> bytes:
    target = io.BytesIO()
    with av.open(target, "w", format="mp4", options={"movflags": movflags}) as container:
        stream = container.add_stream("libx264", rate=25, options={"g": "10", "bf": "2", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 8 * number, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return target.getvalue()
