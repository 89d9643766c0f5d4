"""ISO base media files: sample tables, choice of track, stream facts, refusals. Edit lists, fragments: own files."""

from __future__ import annotations

import io
import json
import zlib
from fractions import Fraction
from pathlib import Path
from struct import pack

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isobmff_files import UNITY, Movie, box, full, large_box, read_from, table, visual_entry

from vidprep.containers import isobmff
from vidprep.errors import ContainerError, Reason
from vidprep.records import ParsedVideo, SampleFlag

CASES = Path(__file__).parent / "cases"
MP4_CASES = sorted(path.stem for path in (CASES / "files").glob("*.mp4"))
#: Cases whose right answer takes a look at the samples' own heads, which is not the container parser's work.
NEED_SAMPLE_HEADS = {"stts_zero_delta", "stss_absent", "fmp4_all_sync", "intra_refresh", "hevc_stss_first_only"}


def parse(data: bytes) -> ParsedVideo:
    return isobmff.parse(read_from(data), len(data))


def expected(name: str) -> dict:
    return (
        json.loads((CASES / "expected" / f"{name}.json").read_text())
        if (CASES / "expected" / f"{name}.json").exists()
        else {}
    )


@pytest.mark.parametrize("name", MP4_CASES)
def test_case_gives_its_frames_times_and_keys_or_its_error(name: str) -> None:
    want = expected(name)
    data = (CASES / "files" / f"{name}.mp4").read_bytes()
    if "displayable_frames" not in want and "may_recover" not in want:
        with pytest.raises(ContainerError):
            parse(data)
        return
    got = parse(data)
    if name in NEED_SAMPLE_HEADS:
        assert set(want["pts_ticks"]) == set(got.table.frame_pts.tolist())
        return
    assert got.table.num_frames == want.get("displayable_frames", len(want.get("may_recover", {}).get("frame_ids", [])))
    pts = want.get("pts_ticks") or want.get("literal_ticks")
    if pts:
        assert got.table.frame_pts.tolist() == pts
    if "key_indices" in want:
        assert got.table.keyframes.tolist() == want["key_indices"]
    assert str(got.info.time_base) == want.get("time_base", str(got.info.time_base))


def test_cases_that_promise_too_much_carry_a_warning(cases: Path) -> None:
    reasons = {
        name: {w.reason for w in parse((cases / "files" / f"{name}.mp4").read_bytes()).warnings}
        for name in ("tables_disagree", "trunc_faststart", "stsz_huge_count", "stts_delta_wrap", "one_frame")
    }
    assert reasons == {
        "tables_disagree": {"corrupt_table"},
        "trunc_faststart": {"truncated"},
        "stsz_huge_count": {"corrupt_table"},
        "stts_delta_wrap": {"corrupt_table"},
        "one_frame": set(),
    }


def is_isobmff(data: bytes) -> bool:
    return data[4:8] in (b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"wide", b"free", b"skip")


def test_real_files_agree_with_ffmpeg_row_by_row(corpus: Path) -> None:
    """Every row's place, size, time and flags, and the presentation times, against FFmpeg's packets."""
    compared = 0
    for line in (corpus / "manifest.jsonl").read_text().splitlines():
        name = json.loads(line)["name"]
        data = (corpus / "files" / name).read_bytes()
        if not is_isobmff(data) or name in KNOWN_DIFFERENCES:
            continue
        truth = json.loads((corpus / "truth" / f"{name}.json").read_text())
        packets = [p for p in truth.get("packets", []) if p[3] > 0]
        if not packets:
            continue
        got = parse(data)
        shown = sorted(p[0] for p in packets if not p[6])
        assert got.table.frame_pts.tolist() == shown, name
        rows = {(p[7], p[3], p[0], bool(p[4]), not p[6]) for p in packets}
        columns = got.table.offset, got.table.size, got.table.pts, got.table.flags & 1, got.table.flags & 2
        assert {
            (o, s, p, bool(k), bool(v)) for o, s, p, k, v in zip(*map(np.ndarray.tolist, columns), strict=True)
        } <= rows, name
        compared += 1
    assert compared > 50


#: name → why the row tables differ.
KNOWN_DIFFERENCES = {
    "DeepLabCut__speed_tensorflow.avif": "still image: refused by name",
    "mp4parse-rust__valid_with_garbage_byte.avif": "still image: refused by name",
    "libavif__colors-animated-12bpc-keyframes-0-2-3.avif": "FFmpeg reads the still item, here the sequence is read",
    "debian-thunderbird-gecko__1414444.mp4": "FFmpeg stops at a broken fragment, here the sound ones follow",
    "debian-thunderbird-gecko__gizmo-frag.mp4": "encrypted: refused by name",
    "gpac-testsuite__dolby_vision_cenc.ismv": "encrypted: refused by name",
    "debian-thunderbird-gecko__invalid-codec.mp4": "unknown codec: refused by name",
    "mediabunny__annex-b.mp4": "the last sample is cut in two: FFmpeg gives its first part",
    "mp4parser__test-pod.m4a": "pictures of chapters are not the film",
    "tika__testMP4_coverArt.m4a": "an attached picture is not the film",
}


def test_real_streams_have_ffmpegs_facts(corpus: Path) -> None:
    compared = 0
    for line in (corpus / "manifest.jsonl").read_text().splitlines():
        row = json.loads(line)
        data = (corpus / "files" / row["name"]).read_bytes()
        if not is_isobmff(data) or row["name"] in KNOWN_DIFFERENCES or not row["n_packets"]:
            continue
        info = parse(data).info
        with av.open(io.BytesIO(data), metadata_errors="replace") as container:
            stream = container.streams.video[0]
            sar = stream.sample_aspect_ratio
            if info.codec_config:
                assert info.codec_config == stream.codec_context.extradata, row["name"]
            if sar:
                assert info.sar == (sar.numerator, sar.denominator), row["name"]
            assert info.stream_index == stream.index, row["name"]
            assert info.time_base == stream.time_base, row["name"]
        turned = -row["rotation"] % 360
        assert info.rotation == (turned if turned in (90, 180, 270) else 0), row["name"]
        assert (info.codec, info.codec_tag, info.has_audio) == (
            row["codec"],
            row["codec_tag"],
            row["n_audio_streams"] > 0,
        )
        assert (info.width, info.height) == (row["width"], row["height"]), row["name"]
        compared += 1
    assert compared > 50


def test_a_healthy_file_takes_few_reads_wherever_its_movie_box_is(cases: Path, corpus: Path) -> None:
    for path in [cases / "files" / "many_mdat_moov_end.mp4", corpus / "files" / "sleap__centered_pair_small.mp4"]:
        data = path.read_bytes()
        read_at = read_from(data)
        isobmff.parse(read_at, len(data))
        assert read_at.calls <= 4, path.name


def test_payload_is_not_read() -> None:
    movie = Movie(sizes=[1_000_000] * 8)
    data = movie.file()
    asked = []

    def read_at(offset: int, size: int) -> bytes:
        asked.append(size)
        return data[offset : offset + size]

    isobmff.parse(read_at, len(data))
    assert sum(asked) <= 128 * 1024


def test_samples_lie_where_a_plain_loop_over_the_tables_puts_them() -> None:
    movie = Movie(sizes=list(range(1, 30)), stsc=[(1, 2, 1), (3, 5, 1), (4, 1, 1), (6, 3, 1)], chunk_gap=7)
    got = parse(movie.file())
    assert got.table.offset.tolist() == movie.sample_offsets(movie.first())
    assert got.table.size.tolist() == movie.sizes
    assert not got.warnings


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=40),
    per_chunk=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    gap=st.integers(0, 20),
    co64=st.booleans(),
)
def test_any_chunking_is_read_as_the_plain_loop_does(
    sizes: list[int], per_chunk: list[int], gap: int, co64: bool
) -> None:
    needed, left = [], len(sizes)
    for count in per_chunk:
        if left > 0:
            needed.append(count)
            left -= count
    runs = [(chunk + 1, count, 1) for chunk, count in enumerate(needed)]
    movie = Movie(sizes=sizes, stsc=runs, chunk_gap=gap, co64=co64)
    assert parse(movie.file()).table.offset.tolist() == movie.sample_offsets(movie.first())


@pytest.mark.parametrize(
    ("bits", "sizes"), [(4, [1, 15, 7]), (8, [200, 1, 255]), (16, [40000, 2, 3])], ids=["4 bit", "8 bit", "16 bit"]
)
def test_compact_sample_sizes_are_read(bits: int, sizes: list[int]) -> None:
    packed = bytes([sizes[0] << 4 | sizes[1], sizes[2] << 4]) if bits == 4 else pack(f">3{'BH'[bits // 16]}", *sizes)
    movie = Movie(sizes=sizes, stsz=full(b"stz2", bytes(3), bytes([bits]), pack(">I", 3), packed))
    assert parse(movie.file()).table.size.tolist() == sizes


def test_a_constant_size_needs_no_table() -> None:
    movie = Movie(sizes=[64] * 9, stsz=full(b"stsz", pack(">II", 64, 9)))
    assert parse(movie.file()).table.size.tolist() == [64] * 9


def test_samples_without_bytes_give_no_row_and_their_time_passes() -> None:
    got = parse(Movie(sizes=[10, 0, 10]).file())
    assert got.table.frame_pts.tolist() == [0, 200]
    assert got.info.header_num_frames == 3


def test_a_64_bit_mdat_of_unknown_end_and_several_mdat_are_walked() -> None:
    movie = Movie(sizes=[5, 6])
    head = box(b"ftyp", b"qt  ", bytes(4)) + large_box(b"mdat", bytes(11)) + box(b"mdat", b"xx")
    assert parse(head + movie.moov(32)).table.offset.tolist() == [32, 37]
    endless = (
        box(b"ftyp", b"qt  ", bytes(4)) + movie.moov(16 + len(movie.moov(0)) + 8) + pack(">I4s", 0, b"mdat") + bytes(11)
    )
    got = parse(endless)
    assert got.table.num_frames == 2
    assert got.info.container == "mov"


def test_a_compressed_movie_box_is_inflated() -> None:
    moov = Movie().moov(16)
    packed = box(b"cmvd", pack(">I", len(moov)), zlib.compress(moov))
    data = box(b"mdat", bytes(8 + 210)) + box(b"moov", box(b"cmov", box(b"dcom", b"zlib"), packed))
    assert parse(data).table.offset.tolist() == [16, 26, 46, 76, 116, 166]


def test_negative_composition_offsets_are_signed_in_version_0_too() -> None:
    got = parse(Movie(sizes=[9] * 3, ctts=[(1, 0), (1, 100), (1, -100)]).file())
    assert got.table.pts.tolist() == [0, 200, 100]
    assert got.table.frame_rows.tolist() == [0, 2, 1]


def test_sync_samples_partial_sync_samples_and_random_access_groups_are_keys() -> None:
    partial = table(b"stps", [(3,)], "I")
    group = full(b"sbgp", b"rap ", pack(">I", 2), pack(">IIII", 4, 0, 1, 1))
    got = parse(Movie(stss=[1], extra_stbl=partial + group).file())
    assert got.table.key_rows.tolist() == [0, 2, 4]


def test_no_sync_table_means_all_and_an_empty_one_only_the_first() -> None:
    assert parse(Movie().file()).table.key_rows.tolist() == list(range(6))
    got = parse(Movie(stss=[]).file())
    assert got.table.key_rows.tolist() == [0]
    assert [w.message for w in got.warnings] == ["the sync table is empty"]


def test_sdtp_names_samples_that_nothing_depends_on() -> None:
    got = parse(Movie(extra_stbl=full(b"sdtp", bytes([0x20, 0x18, 0x10, 0x08, 0x18, 0x04]))).file())
    assert np.flatnonzero(got.table.flags & SampleFlag.DISPOSABLE).tolist() == [1, 3, 4]


def test_a_hole_takes_what_may_refer_to_it_along() -> None:
    """Sample 2 lies outside the file: 3 depends on it, 5 is shown before key 4 and may refer to it, 6 is sound."""
    movie = Movie(
        sizes=[10] * 7, stss=[1, 5], stsc=[(1, 1, 1)], ctts=[(4, 100), (1, 300), (1, 0), (1, 0)],
    )  # fmt: skip
    data = bytearray(movie.file())
    at = data.find(b"stco") + 12
    data[at + 8 : at + 12] = pack(">I", len(data) + 5)
    got = parse(bytes(data))
    places = movie.sample_offsets(movie.first())
    assert got.table.offset[got.table.frame_rows].tolist() == [places[i] for i in (0, 1, 4)]
    assert got.table.offset.tolist() == [places[i] for i in (0, 1, 4, 5, 6)]  # what follows 4 may refer to them
    assert [w.reason for w in got.warnings] == ["truncated"]


@pytest.mark.parametrize(
    ("movie", "reason"),
    [
        (Movie(entries=[visual_entry(b"encv", box(b"sinf", box(b"frma", b"avc1")))]), Reason.ENCRYPTED),
        (Movie(dref=full(b"dref", pack(">I", 1), full(b"url ", b"file:///x\0"))), Reason.EXTERNAL_DATA),
        (Movie(dref=full(b"dref", pack(">I", 1), full(b"alis", bytes(60)))), Reason.EXTERNAL_DATA),
        (Movie(entries=[visual_entry(b"zzzz")]), Reason.UNSUPPORTED_CODEC),
        (Movie(handler=b"soun"), Reason.NO_VIDEO_STREAM),
        (Movie(sizes=[], stts=[], stsc=[]), Reason.NO_FRAMES),
        (Movie(stts=[]), Reason.CORRUPT_TABLE),
        (Movie(entries=[]), Reason.CORRUPT_TABLE),
    ],
    ids=["encrypted", "other file", "alias", "codec", "audio", "no samples", "no times", "no description"],
)
def test_what_cannot_be_read_is_refused_by_name(movie: Movie, reason: Reason) -> None:
    with pytest.raises(ContainerError) as caught:
        parse(movie.file())
    assert caught.value.reason == reason


def test_a_still_image_and_a_lone_media_segment_are_refused_by_name() -> None:
    with pytest.raises(ContainerError, match="still image"):
        parse(box(b"ftyp", b"avif", bytes(4)) + full(b"meta") + box(b"mdat", b"x"))
    with pytest.raises(ContainerError, match="initialisation"):
        parse(box(b"styp", b"msdh", bytes(4)) + box(b"moof") + box(b"mdat", b"x"))


def test_the_film_is_the_first_video_track_that_is_no_chapter_picture() -> None:
    chapters = Movie(track_id=7, entries=[visual_entry(b"jpeg")])
    reference = box(b"tref", box(b"chap", pack(">I", 7)))
    sound = Movie(handler=b"soun", track_id=3, extra_trak=reference)
    second = Movie(track_id=2, entries=[visual_entry(width=64, height=48)])
    movie = Movie(before_trak=chapters.trak(0), extra_moov=sound.trak(0) + second.trak(0))
    got = parse(movie.file())
    assert (got.info.track_id, got.info.stream_index, got.info.has_audio) == (1, 1, True)
    assert got.info.other_streams == ("stream 0: mjpeg 160x144", "stream 3: h264 64x48")


def test_cover_art_before_the_track_counts_as_a_stream(cases: Path) -> None:
    info = parse((cases / "files" / "cover_first.mp4").read_bytes()).info
    assert (info.stream_index, info.other_streams) == (1, ("attached picture",))


def test_samples_of_another_description_are_left_out_with_a_warning() -> None:
    other = visual_entry(b"avc1", box(b"avcC", b"\1other"))
    got = parse(Movie(entries=[visual_entry(), other], stsc=[(1, 4, 1), (2, 2, 2)]).file())
    assert len(got.table) == 4
    assert "another decoder set-up" in got.warnings[0].message
    same = parse(Movie(entries=[visual_entry(), visual_entry()], stsc=[(1, 4, 1), (2, 2, 2)]).file())
    assert len(same.table) == 6
    assert not same.warnings


@pytest.mark.parametrize(
    ("matrix", "rotation"),
    [
        (UNITY, 0),
        (pack(">9i", 0, 0x10000, 0, -0x10000, 0, 0, 0, 0, 1 << 30), 90),
        (pack(">9i", -0x10000, 0, 0, 0, -0x10000, 0, 0, 0, 1 << 30), 180),
        (pack(">9i", 0, -0x10000, 0, 0x10000, 0, 0, 0, 0, 1 << 30), 270),
        (bytes(36), 0),
    ],
)
def test_the_display_matrix_gives_clockwise_rotation(matrix: bytes, rotation: int) -> None:
    info = parse(Movie(matrix=matrix).file()).info
    assert info.rotation == rotation
    assert (info.display_width, info.display_height) == ((144, 160) if rotation in (90, 270) else (160, 144))


def test_the_sample_entry_gives_shape_and_colour() -> None:
    colour = box(b"colr", b"nclx", pack(">HHHB", 9, 16, 9, 0x80))
    entry = visual_entry(b"apcn", box(b"pasp", pack(">II", 8, 6)), colour)
    info = parse(Movie(entries=[entry]).file()).info
    assert (info.codec, info.codec_tag, info.sar, info.display_width) == ("prores", "apcn", (4, 3), 213)
    assert (info.colour_primaries, info.colour_transfer, info.colour_matrix, info.colour_range) == (
        "bt2020", "smpte2084", "bt2020", "full",
    )  # fmt: skip


def test_object_types_and_configurations_of_mp4v_entries() -> None:
    config = bytes.fromhex("000001b001")
    decoder = bytes([4, 13 + 2 + len(config), 0x20]) + bytes(12) + bytes([5, len(config)]) + config
    stream = bytes([3, 0x80, 0x80, 0x80, 3 + len(decoder), 0, 1, 0]) + decoder
    info = parse(Movie(entries=[visual_entry(b"mp4v", full(b"esds", stream))]).file()).info
    assert (info.codec, info.codec_config) == ("mpeg4", config)


def test_time_base_and_last_duration_come_from_the_tables() -> None:
    got = parse(Movie(timescale=90000, stts=[(5, 3003), (1, 1)]).file())
    assert got.info.time_base == Fraction(1, 90000)
    assert got.info.last_duration_ticks == 1
    assert got.method == "header"
