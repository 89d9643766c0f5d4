"""Doubts about a table, and tables corrected from the heads of the samples."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from encoded import Clip, decode, encode
from hypothesis import given, settings
from hypothesis import strategies as st

from vidprep.containers import parse_container
from vidprep.containers.nal_units import nal_spans
from vidprep.containers.samplefacts import SampleFacts
from vidprep.containers.verify import apply_facts, doubts_of, verify
from vidprep.errors import ContainerError
from vidprep.records import ParsedVideo, ReadAt, SampleFlag, SampleTable, StreamInfo

KEY, SHOWN, DISPOSABLE = SampleFlag.KEY, SampleFlag.SHOWN, SampleFlag.DISPOSABLE


def _file(clip: Clip, rows: list[int] | None = None, keys: set[int] | None = None) -> tuple[ParsedVideo, ReadAt]:
    """Some packets of a clip, one after the other, and the table that a container may claim for them."""
    packets = [clip.packets[row] for row in (range(len(clip.packets)) if rows is None else rows)]
    data = b"".join(packet.payload for packet in packets)
    sizes = np.array([len(packet.payload) for packet in packets])
    flags = np.full(len(packets), int(SHOWN), np.uint8)
    claimed = {row for row, packet in enumerate(packets) if packet.is_keyframe} if keys is None else keys
    flags[sorted(claimed)] |= int(KEY)
    table = SampleTable(
        offset=np.cumsum(sizes) - sizes, size=sizes, pts=np.array([packet.pts for packet in packets]), flags=flags
    )
    info = replace(clip.info, time_base=Fraction(1, 25))
    return ParsedVideo(info=info, table=table, method="header"), lambda offset, size: data[offset : offset + size]


def _parsed(codec: str, pts: list[int], keys: set[int], **more: object) -> ParsedVideo:
    n = len(pts)
    flags = np.array([SHOWN | (KEY if row in keys else 0) for row in range(n)], np.uint8)
    table = SampleTable(offset=np.arange(n) * 10, size=np.full(n, 10), pts=np.array(pts), flags=flags)
    info = StreamInfo(container="mp4", codec=codec, time_base=Fraction(1, 10))
    return ParsedVideo(info=info, table=table, method="header", **more)


@pytest.mark.parametrize(
    ("parsed", "doubts"),
    [
        (_parsed("h264", [0, 2, 1, 3], {0}), ()),
        (_parsed("h264", [0], {0}), ()),
        (_parsed("h264", [0, 2, 1, 3], set()), ("no_sync",)),
        (_parsed("h264", [0, 1, 2], {1}), ("first_not_sync",)),
        (_parsed("h264", [0, 2, 1], {0, 1, 2}), ("all_sync",)),
        (_parsed("h264", [0, 0, 1], {0}), ("duplicate_times",)),
        (_parsed("hevc", list(range(90)), {0}), ()),
        (_parsed("hevc", list(range(200)), {0}), ("single_sync",)),
        (_parsed("h264", list(range(200)), {0}), ()),
        (_parsed("vp8", [0, 40, 80, 81, 120], {0}), ("uneven_times",)),
        (_parsed("vp9", [0, 40, 80, 120], {0}), ()),
        (_parsed("dirac", [0, 1, 2], {0, 2}), ("encoder_unnamed",)),
        (_parsed("mjpeg", [0, 1, 2], {0, 1, 2}), ()),
        (_parsed("prores", [0, 1, 2], set()), ()),
        (_parsed("cinepak", [0, 1, 2], {0, 1, 2}), ()),
        (_parsed("h264", [0, 1], {0, 1}, keys_verified=True), ()),
        (_parsed("h264", [], set()), ()),
    ],
)
def test_a_table_is_doubted_for_a_reason(parsed, doubts):
    assert doubts_of(parsed) == doubts


def test_healthy_mp4_files_are_not_doubted(corpus):
    """All that is doubted among the corpus' MP4 files is a stream that is all key frames in truth."""
    doubted = {}
    for line in (corpus / "manifest.jsonl").read_text().splitlines():
        entry = json.loads(line)
        data = (corpus / "files" / entry["name"]).read_bytes()
        if data[4:8] != b"ftyp" or entry["decode_errors"] == "yes" or not entry["n_frames"]:
            continue
        try:
            parsed = parse_container(lambda offset, size, data=data: data[offset : offset + size], len(data))
        except ContainerError:
            continue
        if parsed.doubts:
            doubted[entry["name"]] = entry["tags"]
    assert all("all-key" in tags for tags in doubted.values()), doubted


@pytest.mark.parametrize(
    "case",
    ["stss_absent", "fmp4_all_sync", "open_gop", "hevc_stss_first_only", "vp8_altref", "vp9_altref", "stts_zero_delta",
     "elst_trim_mid_gop", "mkv_no_cues", "avi_h264_b", "res_change", "ts_wrap33"],
)  # fmt: skip
def test_cases_come_out_with_their_true_keys(cases, case):
    expected = json.loads((cases / "expected" / f"{case}.json").read_text())
    data = (cases / expected["file"]).read_bytes()
    parsed = parse_container(lambda offset, size: data[offset : offset + size], len(data), verify_keys=True)
    assert parsed.keys_verified
    assert parsed.table.num_frames == expected["displayable_frames"]
    assert parsed.table.keyframes.tolist() == expected["key_indices"]
    assert not [finding for finding in parsed.warnings if "start" in finding.message]


def test_gradual_recovery_points_are_no_keys(cases):
    data = (cases / "files" / "intra_refresh.mp4").read_bytes()
    read_at: ReadAt = lambda offset, size: data[offset : offset + size]  # noqa: E731 - the shape of a source
    assert parse_container(read_at, len(data), verify_keys=True).table.keyframes.tolist() == [0]


@pytest.mark.parametrize("keys", [set(), {0}, {3}, set(range(36))])
def test_whatever_keys_are_claimed_the_true_ones_come_out(keys):
    clip = encode("libx264", frames=36, options={"x264-params": "keyint=12:open-gop=1:bframes=3"})
    parsed, read_at = _file(clip, keys=keys)
    checked = verify(parsed, read_at, doubts=("reason",))
    assert checked.keys_verified
    assert checked.doubts == ("reason",)
    assert checked.table.key_rows.tolist() == [row for row, packet in enumerate(clip.packets) if packet.is_keyframe]
    assert parsed.table.key_rows.tolist() == sorted(keys), "the argument is left as it was"


START = {
    "h264": ("libx264", {"x264-params": "keyint=12:open-gop=1:bframes=3:b-adapt=0:scenecut=0"}),
    "hevc": ("libx265", {"x265-params": "keyint=12:min-keyint=12:open-gop=1:b-adapt=0:scenecut=0:log-level=none"}),
    "mpeg2video": ("mpeg2video", {"bf": "2", "g": "12", "sc_threshold": "1000000000"}),
    "mpeg4": ("mpeg4", {"bf": "2", "g": "12", "sc_threshold": "1000000000"}),
}


@pytest.mark.parametrize("codec", sorted(START))
@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_file_cut_off_at_its_front_offers_what_a_decoder_delivers(codec, cut):
    """The frames offered are just those which come out right of a decoder that is fed the file."""
    encoder, options = START[codec]
    clip = encode(encoder, frames=36, options=options)
    rows = list(range(cut, len(clip.packets)))
    parsed, read_at = _file(clip, rows)
    checked = verify(parsed, read_at)
    whole, alone = decode(clip), decode(clip, rows)
    right = sorted(pts for pts, digest in alone.items() if whole[pts] == digest)
    offered = checked.table.frame_pts.tolist()
    if (
        codec == "mpeg4"
    ):  # its decoder starts on any picture, and one that is all intra macroblocks comes out right by luck
        assert set(offered) <= set(right)
        right = [pts for pts in right if pts >= offered[0]]
    assert offered == right
    assert len(right) < len(rows)
    assert [finding.reason for finding in checked.warnings] == ["truncated"]


@pytest.mark.parametrize("kind", [16, 17, 18])
def test_pictures_that_need_those_before_a_broken_link_are_not_offered(kind):
    """Splicers make BLA pictures of CRA pictures, and may leave what led them in the file."""
    encoder, options = START["hevc"]
    clip = encode(encoder, frames=36, options=options)
    broken = [replace(packet, payload=_with_broken_link(clip.info, packet.payload, kind)) for packet in clip.packets]
    clip = replace(clip, packets=broken)
    parsed, read_at = _file(clip)
    offered = verify(parsed, read_at).table.frame_pts.tolist()
    assert offered == sorted(decode(clip))
    assert len(offered) < len(broken)


def _with_broken_link(info: StreamInfo, sample: bytes, kind: int) -> bytes:
    out = bytearray(sample)
    for start, _ in nal_spans(sample, info.nal_length_size):
        if out[start] >> 1 & 63 == 21:
            out[start] = kind << 1
    return bytes(out)


def test_a_stream_without_a_true_key_starts_at_its_recovery_point():
    clip = encode("libx264", frames=40, options={"x264-params": "keyint=20:intra-refresh=1:bframes=0"})
    parsed, read_at = _file(clip, list(range(7, 40)))
    checked = verify(parsed, read_at)
    assert checked.table.key_rows.tolist() == [13]
    assert "true key" in checked.warnings[0].message


def test_disposable_rows_are_marked_and_false_marks_removed():
    clip = encode("libx264", frames=12)
    parsed, read_at = _file(clip)
    parsed = replace(parsed, table=replace(parsed.table, flags=parsed.table.flags | np.uint8(DISPOSABLE)))
    marked = np.flatnonzero(verify(parsed, read_at).table.flags & DISPOSABLE)
    assert 0 < len(marked) < len(clip.packets)
    assert 0 not in marked


def test_a_codec_that_is_not_understood_stays_as_it_was():
    parsed = _parsed("cinepak", [0, 1, 2], {0, 1, 2})
    checked = verify(parsed, lambda offset, size: b"")
    assert checked.table is parsed.table
    assert not checked.keys_verified


def test_intra_only_codecs_need_no_bytes():
    checked = verify(_parsed("prores", [0, 1, 2], {0}), lambda offset, size: pytest.fail("read"))
    assert checked.keys_verified
    assert checked.table.key_rows.tolist() == [0, 1, 2]


def test_unreadable_samples_leave_the_table_alone():
    """An encrypted stream, or a wrong length size: nothing was learnt, so nothing is said."""
    parsed = _parsed("vp9", [0, 1, 2], {0})
    checked = verify(parsed, lambda offset, size: b"\0" * size)
    assert checked.table is parsed.table
    assert not checked.keys_verified


def test_second_fields_are_no_frames():
    top = SampleFacts(key=True, shown=True, has_picture=True, field="top", frame_num=0, reference=True)
    bottom = replace(top, key=False, field="bottom")
    facts = [top, bottom, replace(top, key=False, frame_num=1), replace(bottom, frame_num=1)]
    checked = apply_facts(_parsed("h264", [0, 0, 2, 2], {0}), facts)
    assert checked.table.frame_rows.tolist() == [0, 2]


def test_a_placeholder_after_a_packed_sample_stands_for_its_second_picture():
    picture = SampleFacts(key=False, shown=True, has_picture=True, picture_type="P", num_pictures=1)
    empty = SampleFacts(key=False, shown=False, has_picture=False)
    facts = [replace(picture, key=True), replace(picture, num_pictures=2), empty, empty]
    assert apply_facts(_parsed("mpeg4", [0, 1, 2, 3], {0}), facts).table.frame_rows.tolist() == [0, 1, 2]


def test_heads_are_read_in_few_and_bounded_pieces():
    clip = encode("libx264", frames=36)
    parsed, read_at = _file(clip)
    scale = 1 << 22
    far = replace(parsed.table, offset=parsed.table.offset + np.arange(36) // 12 * scale)
    reads = []

    def counted(offset: int, size: int) -> bytes:
        reads.append(size)
        block = offset // scale
        return read_at(offset - block * scale, size)

    verify(replace(parsed, table=far), counted)
    assert len(reads) == 3
    assert max(reads) <= 1 << 20


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=12),
    st.lists(st.sampled_from([True, False, None]), min_size=12, max_size=12),
    st.lists(st.integers(0, 5), min_size=12, max_size=12),
)
def test_any_facts_leave_a_table_that_starts_at_a_key(keys, shown, pts):
    facts = [SampleFacts(key=key, shown=show) for key, show in zip(keys, shown, strict=False)]
    parsed = _parsed("h264", pts[: len(facts)], {0})
    checked = apply_facts(parsed, facts)
    assert len(checked.table.key_rows) > 0
    if checked.keys_verified:
        assert not (checked.table.flags[: checked.table.key_rows[0]] & SHOWN).any()
    assert set(checked.table.frame_rows.tolist()) <= set(parsed.table.frame_rows.tolist())
