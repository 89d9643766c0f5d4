"""Matroska and WebM: files written here, cases with known values, real files, and PyAV as the other reader."""

from __future__ import annotations

import io
import json
import random
import tracemalloc
from fractions import Fraction
from pathlib import Path

import av
import ebml_writer as w
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidprep.containers import demux, matroska, parse_container
from vidprep.containers.matroska.lacing import lace_sizes
from vidprep.errors import ContainerError, MediaError, Reason
from vidprep.records import ParsedVideo, SampleFlag

CASES = Path(__file__).parent / "cases"
MATROSKA_CASES = sorted(
    path.stem for path in (CASES / "files").iterdir() if path.suffix in (".mkv", ".webm")
)  # fmt: skip


def reader(data: bytes):
    return lambda offset, size: data[offset : offset + size]


def parse(data: bytes) -> ParsedVideo:
    return matroska.parse(reader(data), len(data))


def rows(parsed: ParsedVideo) -> list[tuple[int, int, bool]]:
    table = parsed.table
    return list(zip(table.pts.tolist(), table.size.tolist(), (table.flags & 1 > 0).tolist(), strict=True))


def pyav_rows(data: bytes) -> list[tuple[int | None, int, bool]]:
    with av.open(io.BytesIO(data), metadata_errors="replace") as container:
        return [(p.pts, p.size, p.is_keyframe) for p in container.demux(video=0) if p.size]


def payloads(parsed: ParsedVideo, data: bytes) -> list[bytes]:
    table = parsed.table
    return [data[o : o + s] for o, s in zip(table.offset.tolist(), table.size.tolist(), strict=True)]


FRAMES = [bytes([0xFF, 0xD8, i]) + bytes(range(i * 30 % 251)) * 2 for i in range(1, 7)]


# Cases and real files


@pytest.mark.parametrize("name", MATROSKA_CASES)
def test_cases_have_their_frames_and_times(cases: Path, name: str) -> None:
    expected = json.loads((cases / "expected" / f"{name}.json").read_text())
    data = (cases / expected["file"]).read_bytes()
    parsed = parse_container(reader(data), len(data))
    assert parsed.table.num_frames == expected["displayable_frames"]
    pts = expected["pts_ticks"] or expected["stored_ticks"]
    assert parsed.table.frame_pts.tolist() == pts
    assert parsed.info.time_base == Fraction(expected["time_base"])
    assert parsed.method == "scan"
    if "is_vfr" in expected:
        assert parsed.timing.is_vfr == expected["is_vfr"]
    if expected["key_indices"] is not None:
        assert parsed.table.keyframes.tolist() == expected["key_indices"]


#: FFmpeg gives an error, or other frames for a reason that the specification decides.
DAMAGED = {
    "debian-thunderbird-gecko__1257700.webm",
    "debian-thunderbird-gecko__1530897.webm",
    "debian-thunderbird-gecko__1905231.webm",
    "libwebm__invalid_vp9_bitstream-bug_1416.webm",
}


def matroska_files(corpus: Path) -> list[Path]:
    return [path for path in sorted((corpus / "files").iterdir()) if path.read_bytes()[:4] == w.EBML_HEAD[:4]]


def test_real_files_have_ffmpegs_packets_and_frames(corpus: Path) -> None:
    for path in matroska_files(corpus):
        truth = json.loads((corpus / "truth" / f"{path.name}.json").read_text())
        data = path.read_bytes()
        if path.name in DAMAGED:
            continue
        if not truth.get("frames"):
            with pytest.raises(ContainerError):
                parse(data)
            continue
        parsed = parse(data)
        packets = [(packet[0], packet[3], bool(packet[4])) for packet in truth["packets"]]
        assert rows(parsed) == packets, path.name
        assert sorted(parsed.table.frame_pts.tolist()) == sorted(frame[0] for frame in truth["frames"]), path.name


def test_stream_facts_agree_with_pyav_on_real_files(corpus: Path) -> None:
    for path in matroska_files(corpus):
        truth = json.loads((corpus / "truth" / f"{path.name}.json").read_text())
        if not truth.get("frames") or path.name in DAMAGED:
            continue
        data = path.read_bytes()
        info = parse(data).info
        with av.open(io.BytesIO(data)) as container:
            stream = container.streams.video[0]
            context = stream.codec_context
            assert info.codec == context.codec.canonical_name
            assert info.time_base == stream.time_base
            assert info.stream_index == stream.index
            assert info.has_audio == bool(container.streams.audio)
            if info.codec_config:
                assert info.codec_config == context.extradata, path.name


def test_truncated_anywhere_the_whole_blocks_stay_as_in_ffmpeg(cases: Path) -> None:
    chooser = random.Random(0)
    for name in ("mkv_no_cues.mkv", "webm_live_unknown.webm", "mkv_lacing_ebml.mkv", "vp8_altref.webm"):
        whole = (cases / "files" / name).read_bytes()
        for _ in range(12):
            data = whole[: chooser.randrange(len(whole) // 2, len(whole) - 1)]
            parsed = parse(data)
            assert rows(parsed) == pyav_rows(data)
            assert Reason.TRUNCATED in {finding.reason for finding in parsed.warnings} or name.startswith("webm_live")


# Structure


@pytest.mark.parametrize("kind", [1, 2, 3], ids=["xiph", "fixed", "ebml"])
def test_laced_blocks_give_each_frame_its_bytes_and_time(kind: int) -> None:
    frames = [frame[:40].ljust(40, b"x") for frame in FRAMES] if kind == 2 else FRAMES
    body = w.laced(frames, kind)
    default = w.uint(0x23E383, 40_000_000)
    blocks = [w.simple(body, 0, flags=0x80 | kind << 1), w.simple(body, 240, flags=kind << 1)]
    data = w.segment(w.header(w.track(more=default)), w.cluster(0, *blocks))
    parsed = parse(data)
    assert payloads(parsed, data) == frames * 2
    assert parsed.table.pts.tolist() == [40 * i for i in range(12)]
    assert rows(parsed) == pyav_rows(data)


def test_laces_without_a_duration_divide_the_way_to_the_next_block() -> None:
    body = w.laced(FRAMES[:4], 3)
    data = w.segment(w.header(), w.cluster(0, w.simple(body, 0, flags=0x86), w.simple(FRAMES[0], 200)))
    assert parse(data).table.pts.tolist() == [0, 50, 100, 150, 200]


def test_lace_sizes_that_do_not_fit_drop_the_block_with_a_warning() -> None:
    data = w.segment(w.header(), w.cluster(0, w.simple(b"\x05\xff\xff\xff", 0, flags=0x82), w.simple(FRAMES[0], 40)))
    parsed = parse(data)
    assert parsed.table.pts.tolist() == [40]
    assert "lace" in parsed.warnings[0].message


@given(st.lists(st.binary(max_size=700), min_size=1, max_size=40), st.sampled_from([1, 3]))
def test_lace_sizes_read_what_was_written(frames: list[bytes], kind: int) -> None:
    body = w.laced(frames, kind)
    skip, sizes = lace_sizes(kind, body, len(body)) or (0, [])
    assert sizes == [len(frame) for frame in frames]
    assert skip + sum(sizes) == len(body)


@given(st.binary(max_size=300), st.integers(1, 3), st.integers(0, 300))
def test_lace_sizes_of_any_bytes_fit_or_are_refused(data: bytes, kind: int, total: int) -> None:
    found = lace_sizes(kind, data[:total], total)
    assert found is None or (min(found[1]) >= 0 and found[0] + sum(found[1]) <= total)


@pytest.mark.parametrize("size", [w.UNKNOWN_8, w.UNKNOWN_1], ids=["8 bytes", "1 byte"])
def test_unknown_sizes_are_walked_to_the_end(size: bytes) -> None:
    clusters = [w.cluster(100 * i, w.simple(FRAMES[i], 0), w.simple(FRAMES[i], 40), size=size) for i in range(3)]
    data = w.segment(w.header(), *clusters, size=size)
    assert parse(data).table.pts.tolist() == [0, 40, 100, 140, 200, 240]
    assert rows(parse(data)) == pyav_rows(data)


def test_void_and_crc_are_passed_everywhere() -> None:
    void, crc = w.element(0xEC, bytes(300)), w.element(0xBF, b"abcd")
    block = w.element(0xA0, crc + void + w.element(0xA1, w.block_body(FRAMES[0], 0, flags=0)) + void)
    inside = w.element(0x1F43B675, crc + w.uint(0xE7, 7) + void + block + void + w.simple(FRAMES[1], 40))
    data = w.segment(crc, void, w.header(), void, inside, void, w.cluster(100, w.simple(FRAMES[2], 0)))
    parsed = parse(data)
    assert parsed.table.pts.tolist() == [7, 47, 100]
    assert payloads(parsed, data) == FRAMES[:3]
    assert not parsed.warnings


def test_a_cue_table_that_points_nowhere_does_no_harm() -> None:
    point = w.element(0xBB, w.uint(0xB3, 0) + w.element(0xB7, w.uint(0xF7, 1) + w.uint(0xF1, 1 << 40)))
    data = w.segment(w.header(), w.element(0x1C53BB6B, point * 9), w.cluster(0, w.simple(FRAMES[0], 0)))
    assert parse(data).table.num_frames == 1


def test_tracks_behind_the_clusters_are_found() -> None:
    data = w.segment(w.cluster(0, w.simple(FRAMES[0], 0)), w.header())
    assert parse(data).table.num_frames == 1


def test_block_groups_are_keys_if_they_refer_to_nothing() -> None:
    groups = [w.group(FRAMES[0], 0), w.group(FRAMES[1], 40, reference=True), w.group(FRAMES[2], 80, duration=25)]
    data = w.segment(w.header(w.track(b"V_MPEG4/MS/V3")), w.cluster(0, *groups))
    parsed = parse(data)
    assert parsed.table.key_rows.tolist() == [0, 2]
    assert parsed.info.last_duration_ticks == 25
    assert rows(parsed) == pyav_rows(data)


def test_a_damaged_group_is_no_key_since_its_references_are_not_known() -> None:
    block = w.element(0xA1, w.block_body(FRAMES[0], 0, flags=0))
    damaged = w.element(0xA0, block + b"\x00\xff\xff\xff")
    data = w.segment(w.header(w.track(b"V_MPEG4/MS/V3")), w.cluster(0, damaged, w.group(FRAMES[1], 40)))
    parsed = parse(data)
    assert parsed.table.key_rows.tolist() == [1]
    assert parsed.warnings[0].reason == Reason.CORRUPT_TABLE


@pytest.mark.parametrize("size", [None, w.UNKNOWN_8])
def test_after_damage_in_a_giant_cluster_the_next_key_frame_is_found(size: bytes | None) -> None:
    payloads = [bytes([number]) * 60 for number in range(12)]
    blocks = [w.simple(payload, 40 * i, flags=0 if i % 4 else 0x80) for i, payload in enumerate(payloads)]
    whole = w.segment(w.header(), w.cluster(0, *blocks, size=size))
    place = whole.index(blocks[5])
    parsed = parse(whole[:place] + b"\xfe" * 8 + whole[place + 8 :])
    assert (parsed.table.pts // 40).tolist() == [0, 1, 2, 3, 4, 8, 9, 10, 11]
    assert "passed over" in parsed.warnings[0].message


def test_the_last_frame_lasts_as_long_as_the_default_or_the_median_delta() -> None:
    blocks = w.cluster(0, *(w.simple(FRAMES[0], 40 * i) for i in range(4)))
    assert parse(w.segment(w.header(), blocks)).info.last_duration_ticks == 40
    default = w.track(more=w.uint(0x23E383, 33_000_000))
    assert parse(w.segment(w.header(default), blocks)).info.last_duration_ticks == 33
    lie = w.track(more=w.uint(0x23E383, 10_000_000))
    parsed = parse(w.segment(w.header(lie), blocks))
    assert parsed.info.last_duration_ticks == 40
    assert "DefaultDuration" in parsed.warnings[0].message
    assert parsed.info.header_fps == 100


def test_codec_delay_is_taken_off() -> None:
    data = w.segment(w.header(w.track(more=w.uint(0x56AA, 80_000_000))), w.cluster(100, w.simple(FRAMES[0], 0)))
    assert rows(parse(data)) == pyav_rows(data) == [(20, len(FRAMES[0]), True)]


def test_any_timestamp_scale_gives_its_time_base() -> None:
    data = w.segment(w.header(scale=250_001), w.cluster(8, w.simple(FRAMES[0], -3)))
    parsed = parse(data)
    assert parsed.info.time_base == Fraction(250_001, 1_000_000_000)
    assert parsed.table.pts.tolist() == [5]


def test_relative_times_that_wrap_keep_the_file_order() -> None:
    times = [0, 20_000, 32_000, 44_000 - 65_536, 43_000 - 65_536, 60_000 - 65_536]
    h264 = w.track(b"V_MPEG4/ISO/AVC")
    data = w.segment(w.header(h264), w.cluster(1000, *(w.simple(FRAMES[0], time) for time in times)))
    table = parse(data).table
    assert table.pts.tolist() == [1000 + time for time in times]
    assert table.order is not None
    assert table.frame_rows.tolist() == [0, 1, 2, 4, 3, 5]  # B-frames are put in order all the same


def test_sparse_clusters_are_not_taken_for_wrapped_ones() -> None:
    data = w.segment(w.header(), w.cluster(40_000, *(w.simple(FRAMES[0], time) for time in (-32_000, 0, 32_000))))
    table = parse(data).table
    assert table.frame_pts.tolist() == [8000, 40_000, 72_000]
    assert table.order is None


def test_joined_recordings_stay_one_after_the_other() -> None:
    part = [w.cluster(0, *(w.simple(FRAMES[0], 40 * t, flags=0x80 * (t == 0)) for t in (0, 3, 1, 2)))]
    part += [w.cluster(4000, *(w.simple(FRAMES[0], 40 * t, flags=0x80 * (t == 0)) for t in (0, 3, 1, 2)))]
    data = w.segment(w.header(w.track(b"V_MPEG4/ISO/AVC")), *part, *part)
    assert parse(data).table.frame_rows.tolist() == [0, 2, 3, 1, 4, 6, 7, 5, 8, 10, 11, 9, 12, 14, 15, 13]


def test_garbage_between_clusters_is_passed_over_with_a_warning() -> None:
    garbage = bytes(random.Random(5).randbytes(5000)).replace(b"\x1f\x43\xb6\x75", b"....")
    clusters = [w.cluster(100 * i, w.simple(FRAMES[i], 0)) for i in range(3)]
    data = w.segment(w.header(), clusters[0], b"\x00" + garbage, clusters[1], clusters[2], size=w.UNKNOWN_8)
    parsed = parse(data)
    assert parsed.table.pts.tolist() == [0, 100, 200]
    assert parsed.warnings[0].reason == Reason.CORRUPT_TABLE
    assert parsed.warnings[0].offset == data.index(b"\x00" + garbage)


def test_a_block_that_ends_behind_its_cluster_is_left_out() -> None:
    bad = b"\xa3" + w.vint(3000) + w.block_body(FRAMES[1], 40)
    data = w.segment(w.header(), w.cluster(0, w.simple(FRAMES[0], 0), bad), w.cluster(100, w.simple(FRAMES[2], 0)))
    assert parse(data).table.pts.tolist() == [0, 100]


# What is not walked


def test_a_stripped_header_goes_through_the_demuxer(cases: Path) -> None:
    compression = w.element(0x5034, w.uint(0x4254, 3) + w.element(0x4255, b"\xff\xd8\xff"))
    encoding = w.element(0x6D80, w.element(0x6240, w.uint(0x5031, 0) + w.uint(0x5032, 1) + compression))
    source = (cases / "files" / "mkv_lacing_ebml.mkv").read_bytes()
    jpegs = payloads(parse(source), source)[:3]
    assert all(jpeg.startswith(b"\xff\xd8\xff") for jpeg in jpegs)
    blocks = [w.simple(jpeg[3:], 40 * i) for i, jpeg in enumerate(jpegs)]
    data = w.segment(w.header(w.track(more=encoding)), w.cluster(0, *blocks))
    parsed = parse(data)
    assert parsed.access == "demux"
    assert parsed.info.container == "matroska"
    assert parsed.table.frame_pts.tolist() == [0, 40, 80]
    assert [packet.data for packet in demux.iter_packets(reader(data), len(data))] == jpegs


def test_encryption_is_refused_by_name() -> None:
    encoding = w.element(0x6D80, w.element(0x6240, w.uint(0x5033, 1) + w.element(0x5035, w.uint(0x47E1, 5))))
    data = w.segment(w.header(w.track(more=encoding)), w.cluster(0, w.simple(FRAMES[0], 0)))
    with pytest.raises(ContainerError) as caught:
        parse(data)
    assert caught.value.reason == Reason.ENCRYPTED


def test_unknown_codecs_are_refused_by_name() -> None:
    data = w.segment(w.header(w.track(b"V_NONSENSE")), w.cluster(0, w.simple(FRAMES[0], 0)))
    with pytest.raises(ContainerError) as caught:
        parse(data)
    assert caught.value.reason == Reason.UNSUPPORTED_CODEC


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (w.segment(w.header(w.track(b"A_OPUS", kind=2)), w.cluster(0, w.simple(b"abc", 0))), Reason.NO_VIDEO_STREAM),
        (w.segment(w.header()), Reason.NO_FRAMES),
        (w.EBML_HEAD, Reason.TRUNCATED),
        (w.EBML_HEAD.replace(b"matroska", b"mysterio"), Reason.NOT_MEDIA),
        (w.segment(w.header())[:60], Reason.TRUNCATED),
    ],
    ids=["audio only", "no cluster", "only a head", "other DocType", "cut in the header"],
)
def test_files_without_frames_say_why(data: bytes, reason: Reason) -> None:
    with pytest.raises(ContainerError) as caught:
        parse(data)
    assert caught.value.reason == reason


# Stream facts


def test_audio_beside_video_and_other_tracks_are_reported() -> None:
    tracks = [w.track(b"A_OPUS", number=2, kind=2), w.track(), w.track(b"V_VP8", number=3)]
    blocks = [w.simple(b"abc", 20 * i, number=2) for i in range(6)] + [w.simple(FRAMES[0], 0)]
    info = parse(w.segment(w.header(*tracks), w.cluster(0, *blocks))).info
    assert (info.has_audio, info.audio_duration_seconds, info.stream_index, info.track_id) == (True, 0.1, 1, 1)
    assert info.other_streams == ("track 3: vp8 160x144",)


def test_display_size_crop_rotation_and_colours() -> None:
    colour = w.element(0x55B0, w.uint(0x55B1, 1) + w.uint(0x55B9, 2) + w.uint(0x55BA, 1) + w.uint(0x55BB, 9))
    roll = w.element(0x7670, w.uint(0x7671, 0) + w.real(0x7675, 90.0))
    shape = w.uint(0x54B0, 320) + w.uint(0x54BA, 144)
    data = w.segment(w.header(w.track(video=shape + colour + roll)), w.cluster(0, w.simple(FRAMES[0], 0)))
    info = parse(data).info
    assert (info.width, info.height, info.sar) == (160, 144, (2, 1))
    assert (info.display_width, info.display_height) == (144, 320)
    assert (info.colour_matrix, info.colour_range) == ("bt709", "full")
    assert (info.colour_transfer, info.colour_primaries) == ("bt709", "bt2020")
    assert info.rotation == 270


@pytest.mark.parametrize("roll", [90.0, 180.0, -90.0, 0.0])
def test_rotation_is_the_one_ffmpeg_gives(cases: Path, roll: float) -> None:
    source = (cases / "files" / "mkv_lacing_ebml.mkv").read_bytes()
    jpeg = payloads(parse(source), source)[0]
    projection = w.element(0x7670, w.uint(0x7671, 0) + w.real(0x7675, roll))
    data = w.segment(w.header(w.track(video=projection)), w.cluster(0, w.simple(jpeg, 0)))
    with av.open(io.BytesIO(data)) as container:
        frame = next(container.decode(video=0))
    assert parse(data).info.rotation == -frame.rotation % 360


def test_vfw_tracks_take_codec_and_configuration_from_the_bitmap_header() -> None:
    header = (40).to_bytes(4, "little") + bytes(12) + b"XVID" + bytes(20)
    private = w.element(0x63A2, header + b"\x00\x00\x01\xb0config")
    data = w.segment(w.header(w.track(b"V_MS/VFW/FOURCC", more=private)), w.cluster(0, w.simple(FRAMES[0], 0)))
    info = parse(data).info
    assert (info.codec, info.codec_tag, info.codec_config) == ("mpeg4", "XVID", b"\x00\x00\x01\xb0config")


def test_hidden_frames_are_rows_that_are_not_shown(cases: Path) -> None:
    data = (cases / "files" / "vp8_altref.webm").read_bytes()
    table = parse(data).table
    assert len(table) == 62
    assert int((table.flags & SampleFlag.SHOWN == 0).sum()) == 2


def test_a_hidden_vp9_block_without_a_superframe_is_not_shown() -> None:
    hidden, shown = b"\x84\x49\x83\x42\x00", b"\x86\x00\x40\x92\x9c"
    index = bytes([0xC1, len(hidden), len(shown), 0xC1])
    blocks = [w.simple(hidden, 0), w.simple(shown, 40), w.simple(hidden + shown + index, 80)]
    data = w.segment(w.header(w.track(b"V_VP9")), w.cluster(0, *blocks))
    assert parse(data).table.frame_pts.tolist() == [40, 80]


# Bytes asked for


def test_large_payloads_are_jumped_over_and_small_blocks_read_together() -> None:
    def cost(payload: bytes, count: int) -> tuple[float, float]:
        data = w.segment(w.header(), w.cluster(0, *(w.simple(payload, i) for i in range(count))))
        asked: list[int] = []

        def read_at(offset: int, size: int) -> bytes:
            asked.append(size)
            return data[offset : offset + size]

        assert len(matroska.parse(read_at, len(data)).table) == count
        return sum(asked) / len(data), len(asked) / count

    share, _ = cost(bytes(10_000), 300)
    assert share < 0.02
    _, reads = cost(bytes(20), 3000)
    assert reads < 0.02


# Hostile input


def check_any(data: bytes) -> None:
    try:
        parsed = matroska.parse(reader(data), len(data))
    except MediaError:
        return
    table = parsed.table
    assert len(table) > 0
    if parsed.method == "scan":
        assert int((table.offset + table.size).max()) <= len(data)
        assert int(table.size.min()) > 0
        assert sorted(table.frame_rows.tolist()) == np.flatnonzero(table.flags & SampleFlag.SHOWN).tolist()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=2000))
def test_any_bytes_behind_a_header_give_a_table_or_an_error(tail: bytes) -> None:
    check_any(w.EBML_HEAD + tail)
    check_any(w.segment(w.header(), size=w.UNKNOWN_8) + tail)
    check_any(w.segment(w.header(w.track(b"V_MPEG4/ISO/AVC")), w.cluster(0, size=w.UNKNOWN_8), size=w.UNKNOWN_8) + tail)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(MATROSKA_CASES), st.data())
def test_mutated_files_give_a_table_or_an_error(name: str, draw: st.DataObject) -> None:
    path = next((CASES / "files").glob(f"{name}.*"))
    data = bytearray(path.read_bytes())
    for _ in range(draw.draw(st.integers(1, 6))):
        data[draw.draw(st.integers(40, len(data) - 1))] = draw.draw(st.integers(0, 255))
    check_any(bytes(data))


BOMBS = {
    "blocks of one byte": w.segment(w.header(), size=w.UNKNOWN_8) + w.cluster(0, size=w.UNKNOWN_8)
    + w.element(0xA3, w.block_body(b"x", 0), size=b"\x85") * 20_000,
    "fixed laces of nothing": w.segment(w.header(), size=w.UNKNOWN_8) + w.cluster(0, size=w.UNKNOWN_8)
    + w.element(0xA3, w.block_body(b"\xff", 0, flags=4), size=b"\x85") * 20_000,
    "cluster heads": w.segment(w.header(), size=w.UNKNOWN_8) + b"\x1f\x43\xb6\x75" * 60_000,
    "track heads": w.EBML_HEAD + b"\x1a\x45\xdf\xa3\x18\x53\x80\x67\xff" + b"\x16\x54\xae\x6b" * 60_000,
    "voids": w.segment(w.header(), size=w.UNKNOWN_8) + b"\xec\x80" * 60_000,
    "zeros": w.segment(w.header(), size=w.UNKNOWN_8) + bytes(300_000),
    "2^56 bytes": w.segment(w.header()) + b"\x1f\x43\xb6\x75\x01\xff\xff\xff\xff\xff\xff\xfe",
    "nested entries": w.EBML_HEAD + w.element(0x18538067, w.element(0x1654AE6B, b"\xae\xff" * 60_000)),
}  # fmt: skip


def nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = w.element(0x6D80, data)
    return data


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_bombs_use_little_memory(name: str) -> None:
    tracemalloc.start()
    try:
        check_any(BOMBS[name])
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_masters_nested_ten_thousand_deep_end() -> None:
    check_any(w.segment(w.header(w.track(more=nested(10_000))), w.cluster(0, w.simple(FRAMES[0], 0))))
