"""vidprep.loaders.cut: which rows and bytes a set of frames needs."""

from __future__ import annotations

import dataclasses
import itertools
import zlib

import av
import numpy as np
import pytest
from clips_made import X264, make_video
from encoded import picture
from hypothesis import given
from hypothesis import strategies as st

from vidprep.containers.bitstream import SampleFacts, sample_facts
from vidprep.errors import DecodeError, Reason, SourceError, StaleIndexError
from vidprep.loaders import cut as cut_module
from vidprep.loaders import read_frames
from vidprep.loaders.cut import open_indexed, plan_cut, read_cut
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.loaders.frames import as_video
from vidprep.loaders.packets import Payloads
from vidprep.loaders.unreferenced import are_unreferenced, is_unreferenced_h264
from vidprep.records import SampleFlag, SampleTable, StreamInfo
from vidprep.sources import CountingSource, open_source

KEY_SHOWN = SampleFlag.KEY | SampleFlag.SHOWN


def table_of(pts, keys, *, sizes=None, gaps=0, flags=None):
    """A table whose rows lie one after the other, `gaps` bytes apart."""
    n = len(pts)
    sizes = np.full(n, 10) if sizes is None else np.array(sizes)
    offset = np.concatenate(([0], np.cumsum(sizes[:-1] + gaps)))
    bits = np.full(n, int(SampleFlag.SHOWN)) if flags is None else np.array(flags)
    bits[list(keys)] |= int(SampleFlag.KEY)
    return SampleTable(offset=offset, size=sizes, pts=np.array(pts), flags=bits.astype(np.uint8))


def segments_of(table, frames, **options):
    return plan_cut(table, np.array(frames), **options).segments.tolist()


def test_decoding_starts_at_the_key_row_before_and_ends_at_the_wanted_row():
    table = table_of(range(20), keys=[0, 5, 10, 15])
    assert segments_of(table, [7]) == [[5, 7]]
    assert plan_cut(table, np.array([7])).rows.tolist() == [5, 6, 7]


def test_frames_far_apart_cost_their_own_gops_only():
    table = table_of(range(40), keys=[0, 10, 20, 30])
    assert segments_of(table, [2, 33]) == [[0, 2], [30, 33]]


def test_rows_that_follow_each_other_are_one_segment():
    table = table_of(range(20), keys=[0, 5, 10, 15])
    assert segments_of(table, range(20)) == [[0, 19]]


def test_a_picture_shown_before_its_key_frame_starts_one_gop_earlier():
    # decode order I0 P3 B1 B2 | I6 B4 B5 P9 B7 B8
    table = table_of([0, 3, 1, 2, 6, 4, 5, 9, 7, 8], keys=[0, 4])
    assert segments_of(table, [4]) == [[0, 5]]
    assert segments_of(table, [6]) == [[4, 4]]
    assert segments_of(table, [7]) == [[4, 8]]


def leading_rows(table, frames):
    return plan_cut(table, np.array(frames)).leading_rows.tolist()


def test_leading_pictures_of_a_start_concern_nobody_unless_one_of_them_is_wanted():
    # I6 B2 B4 P9 B7: the stream begins with pictures that are shown before its key frame
    table = table_of([6, 2, 4, 9, 7], keys=[0])
    assert leading_rows(table, [4]) == [1, 2]
    assert leading_rows(table, [1, 4]) == []


def test_rows_before_the_first_key_row_start_at_row_0():
    assert segments_of(table_of(range(10), keys=[4]), [2]) == [[0, 2]]
    assert segments_of(table_of(range(10), keys=[]), [9]) == [[0, 9]]


def test_repeats_and_order_cost_nothing():
    table = table_of(range(20), keys=[0, 10])
    plan, again = plan_cut(table, np.array([3, 12])), plan_cut(table, np.array([12, 3, 3, 12, 12]))
    assert plan.reads == again.reads
    assert again.frames.tolist() == [3, 12]
    assert again.rows.tolist() == plan.rows.tolist()


def test_no_frames_need_nothing():
    plan = plan_cut(table_of(range(5), keys=[0]), np.array([], np.int64))
    assert plan.reads == ()
    assert len(plan.rows) == 0


def test_ranges_closer_than_the_gap_are_read_at_once():
    table = table_of(range(10), keys=range(10), gaps=100)
    assert plan_cut(table, np.array([0, 1, 5]), max_gap_bytes=100).reads == ((0, 120), (550, 10))
    assert plan_cut(table, np.array([0, 1, 5]), max_gap_bytes=99).reads == ((0, 10), (110, 10), (550, 10))
    assert plan_cut(table, np.array([0, 1, 5]), max_gap_bytes=1000).reads == ((0, 560),)


@pytest.mark.parametrize("frames", [[10], [-1], [3, 10]])
def test_a_frame_that_does_not_exist_is_an_error_naming_it(frames):
    with pytest.raises(DecodeError, match="the video has 10 frames") as error:
        plan_cut(table_of(range(10), keys=[0]), np.array(frames))
    assert error.value.frame_index in (10, -1)


@st.composite
def tables_and_frames(draw):
    n = draw(st.integers(1, 60))
    keys = sorted({0} | draw(st.sets(st.integers(0, n - 1), max_size=8)))
    pts = list(range(n))
    for key, stop in zip(keys, [*keys[1:], n], strict=True):
        inside = draw(st.permutations(range(key + 1, stop)))
        pts[key + 1 : stop] = inside
    frames = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=10))
    return table_of(pts, keys, sizes=draw(st.lists(st.integers(1, 50), min_size=n, max_size=n))), np.array(frames)


@given(tables_and_frames(), st.integers(0, 60))
def test_plans_hold_every_wanted_row_behind_its_key_row_and_no_byte_twice(table_and_frames, gap):
    table, frames = table_and_frames
    plan = plan_cut(table, frames, max_gap_bytes=gap)
    rows = set(plan.rows.tolist())
    for frame in frames:
        row = int(table.frame_rows[frame])
        key = max(k for k in table.key_rows.tolist() if k <= row)
        assert set(range(key, row + 1)) <= rows
    assert (np.diff(plan.rows) > 0).all()
    covered = [(a, a + size) for a, size in plan.reads]
    for row in plan.rows:
        assert any(a <= table.offset[row] and table.offset[row] + table.size[row] <= b for a, b in covered)
    assert all(b[0] - a[1] > gap for a, b in itertools.pairwise(covered))
    assert sum(size for _, size in plan.reads) <= table.size[plan.rows].sum() + gap * len(plan.rows)


@given(tables_and_frames(), st.integers(0, 60))
def test_the_columns_of_a_plan_are_those_of_its_rows(table_and_frames, gap):
    table, frames = table_and_frames
    plan = plan_cut(table, frames, max_gap_bytes=gap)
    assert plan.rows[plan.frame_places].tolist() == plan.frame_rows.tolist()
    assert (plan.offset.tolist(), plan.size.tolist()) == (
        table.offset[plan.rows].tolist(),
        table.size[plan.rows].tolist(),
    )
    assert plan.starts == tuple((first, plan.rows.tolist().index(first)) for first, _ in plan.segments.tolist())


@given(st.permutations(range(12)), st.sets(st.integers(0, 11), max_size=3), st.sets(st.integers(0, 11), min_size=1))
def test_leading_rows_are_those_of_segments_none_of_whose_leading_pictures_is_wanted(pts, keys, frames):
    table = table_of(pts, keys=keys)
    plan, expected = plan_cut(table, np.array(sorted(frames))), []
    for first, last in plan.segments.tolist():
        leading = [row for row in range(first, last + 1) if pts[row] < pts[first]]
        expected += [] if set(leading) & set(plan.frame_rows.tolist()) else leading
    assert plan.leading_rows.tolist() == expected


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_video(tmp_path_factory.mktemp("cut") / "made.mp4", frames=60, gop=12, options=X264)


def test_packets_are_the_bytes_of_their_rows(made):
    video, data = as_video(made), made.read_bytes()
    with open_source(str(made)) as source:
        cut = read_cut(video, source, np.array([5, 40]))
    table = video.table
    assert cut.frames.tolist() == [5, 40]
    for packet in cut.packets:
        assert packet.data == data[table.offset[packet.row] : table.offset[packet.row] + table.size[packet.row]]
        assert packet.pts == table.pts[packet.row]
    assert [cut.packets[place].row for place in cut.segment_starts] == [0, 36]


def test_no_more_is_read_than_candidate_packets_and_merged_gaps(made):
    video = as_video(made)
    source = CountingSource(open_source(str(made)))
    cut = read_cut(video, source, np.array([13, 14, 15]))
    assert (cut.num_reads, cut.num_bytes_read) == (source.num_reads, source.num_bytes)
    assert cut.num_reads == 1
    assert cut.num_bytes_read <= 1.02 * cut.num_bytes_candidates


def test_a_clip_of_a_long_video_reads_its_own_gops_only(tmp_path):
    path = make_video(tmp_path / "long.mp4", frames=1800, gop=48, size=(64, 96), options=X264)
    video, table = as_video(path), as_video(path).table
    start, stop = 1000, 1016
    rows = table.frame_rows[start:stop]
    first = int(table.key_rows[np.searchsorted(table.key_rows, rows.min(), side="right") - 1])
    after = np.searchsorted(table.key_rows, rows.max(), side="right")
    last = int(table.key_rows[after]) if after < len(table.key_rows) else len(table)
    gop_bytes = int(table.size[first:last].sum())
    with open_source(str(path)) as source:
        cut = read_cut(video, source, np.arange(start, stop))
    ratio = cut.num_bytes_read / gop_bytes
    print(f"16 frames of a 60 s video: {cut.num_bytes_read} bytes read, {ratio:.3f}x of its GOPs")
    assert ratio <= 1.1


def test_a_table_that_calls_pictures_unreferenced_is_not_believed(made):
    video = as_video(made)
    flags = video.table.flags | np.uint8(SampleFlag.DISPOSABLE)
    marked = dataclasses.replace(
        video, parsed=dataclasses.replace(video.parsed, table=dataclasses.replace(video.table, flags=flags))
    )
    last = np.array([video.table.num_frames - 1])
    with open_source(str(made)) as source:
        believed, own = read_cut(marked, source, last), read_cut(video, source, last)
    assert [packet.row for packet in believed.packets] == [packet.row for packet in own.packets]


def test_av1_units_that_ffmpeg_marks_disposable_although_they_hide_a_reference_are_kept(tmp_path):
    path = make_video(tmp_path / "a.mp4", codec="libsvtav1", frames=32, gop=32, options={"preset": "8"})
    video = as_video(path)
    assert (video.table.flags & SampleFlag.DISPOSABLE).any()  # the sdtp box that misleads
    whole = read_frames(path, range(video.table.num_frames), engine="cpu")
    for frame in range(video.table.num_frames):
        assert (read_frames(path, [frame], engine="cpu")[0] == whole[frame]).all(), frame


def test_the_short_look_at_h264_samples_says_what_the_long_one_does(made):
    video, data = as_video(made), made.read_bytes()
    samples = [data[o : o + s] for o, s in zip(video.table.offset, video.table.size, strict=True)]
    short = [is_unreferenced_h264(sample) for sample in samples]
    assert short == [sample_facts(video.info, sample).disposable is True for sample in samples]
    assert 10 < sum(short) < 50
    assert not is_unreferenced_h264(bytes.fromhex("00000001 68 00000001 01"))


def test_unreferenced_pictures_known_from_the_bytes_are_left_out_unless_wanted(made):
    video = as_video(made)
    with open_source(str(made)) as source:
        one, every = read_cut(video, source, np.array([11])), read_cut(video, source, np.arange(12))
    assert len(every.packets) == 12
    assert len(one.packets) < int(video.table.frame_rows[11]) + 1


def test_a_false_key_claim_is_found_in_the_bytes_read_and_decoding_starts_earlier(made, monkeypatch):
    video = as_video(made)
    true_keys = {0, 12, 24, 36, 48}
    offsets = {video.table.offset[row]: row for row in range(len(video.table))}
    every = dataclasses.replace(video.table, flags=video.table.flags | int(SampleFlag.KEY))
    lying = dataclasses.replace(video, parsed=dataclasses.replace(video.parsed, table=every, keys_verified=False))
    data = made.read_bytes()

    def facts(info, payload, *, complete=True):
        row = offsets[data.index(payload[:64])]
        return SampleFacts(key=row in true_keys)

    monkeypatch.setattr(cut_module, "sample_facts", facts)
    frame = int(np.flatnonzero(video.table.frame_rows == 17)[0])
    with open_source(str(made)) as source:
        cut = read_cut(lying, source, np.array([frame]))
    assert cut.packets[0].row == 12


def test_a_changed_file_is_stale(made, tmp_path):
    path = tmp_path / "changed.mp4"
    path.write_bytes(made.read_bytes())
    video = as_video(path)
    path.write_bytes(made.read_bytes() + b"more")
    with open_source(str(path)) as source, pytest.raises(StaleIndexError, match="size_bytes") as error:
        read_cut(video, source, np.array([0]))
    assert error.value.uri == str(path)


def test_a_file_that_is_gone_has_vanished(made, tmp_path):
    path = tmp_path / "gone.mp4"
    path.write_bytes(made.read_bytes())
    video = as_video(path)
    path.unlink()
    with pytest.raises(SourceError) as error:
        open_indexed(video)
    assert error.value.reason == Reason.VANISHED


def test_a_changed_byte_fails_its_checksum(made, tmp_path):
    video, data = as_video(made), bytearray(made.read_bytes())
    table = video.table
    sums = [zlib.crc32(data[o : o + s]) for o, s in zip(table.offset, table.size, strict=True)]
    summed = dataclasses.replace(table, crc32=np.array(sums, np.uint32))
    path = tmp_path / "flipped.mp4"
    data[int(table.offset[4]) + 20] ^= 1
    path.write_bytes(data)
    parsed = dataclasses.replace(video.parsed, table=summed)
    with open_source(str(path)) as source:
        changed = dataclasses.replace(video, uri=str(path), identity=source.identity, parsed=parsed)
        with pytest.raises(DecodeError, match="coded sample 4 fails its checksum") as error:
            read_cut(changed, source, np.arange(10))
        assert error.value.uri == str(path)
        assert len(read_cut(changed, source, np.arange(12, 24)).packets) == 12


def test_bytes_that_the_file_does_not_have_are_an_error_naming_the_frame(made, tmp_path):
    video = as_video(made)
    table = video.table
    path = tmp_path / "short.mp4"
    path.write_bytes(made.read_bytes()[: int(table.offset[30]) + 5])
    with open_source(str(path)) as source:
        short = dataclasses.replace(video, uri=str(path), identity=source.identity)
        with pytest.raises(DecodeError, match="coded sample 30 is cut off: 5 of") as error:
            read_cut(short, source, np.array([35]))
        assert error.value.frame_index == 35
        assert len(read_cut(short, source, np.array([12])).packets) == 1


def test_containers_that_must_be_demuxed_give_the_same_packets_as_pyav(tmp_path):
    import av

    path = make_video(tmp_path / "a.ts", frames=30, gop=10, options=X264)
    video = as_video(path)
    video = dataclasses.replace(video, parsed=dataclasses.replace(video.parsed, access="demux"))
    with av.open(str(path)) as container:
        payloads = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    with open_source(str(path)) as source:
        cut = read_cut(video, source, np.array([12, 25]))
    assert [packet.data for packet in cut.packets] == [payloads[packet.row] for packet in cut.packets]


def unreferenced(info, packets):
    """Whether each is found to be."""
    payloads = packets.payloads
    return are_unreferenced(info, payloads, ()).tolist()


@pytest.mark.parametrize("name", ["hevc_stss_first_only.mp4", "clip_window.mp4", "open_gop.mp4", "vp9_altref.webm"])
def test_the_quick_look_at_a_sample_agrees_with_all_its_facts(cases, name):
    video = as_video(str(cases / "files" / name))
    with open_indexed(video) as source:
        packets = read_cut(video, source, np.arange(video.table.num_frames)).packets
    facts = [sample_facts(video.info, packet.data).disposable is True for packet in packets]
    assert unreferenced(video.info, packets) == facts


H264_UNITS = st.builds(
    lambda header, body: bytes([header]) + body,
    st.one_of(st.integers(0, 255), st.sampled_from([0x01, 0x41, 0x65, 0x06, 0x09, 0x67])),
    st.binary(max_size=9),
)


@given(st.lists(st.one_of(st.lists(st.one_of(H264_UNITS, st.just(b"")), max_size=3), st.binary(max_size=12)), max_size=8),
       st.sets(st.integers(0, 7)))  # fmt: skip
def test_the_quick_look_at_many_samples_is_a_walk_through_each_and_leaves_the_needed_ones(samples, needed):
    payloads = [
        sample if isinstance(sample, bytes) else b"".join(len(unit).to_bytes(4, "big") + unit for unit in sample)
        for sample in samples
    ]
    info = StreamInfo(container="mp4", codec="h264", nal_length_size=4, interlaced=False)
    places = np.array([place for place in sorted(needed) if place < len(payloads)], np.int64)
    found = are_unreferenced(info, Payloads.of(payloads), (places[1:], *places[:1].tolist())).tolist()
    assert found == [
        place not in needed and len(payload) > 0 and is_unreferenced_h264(payload)
        for place, payload in enumerate(payloads)
    ]


def test_the_quick_look_at_hevc_agrees_with_all_facts_where_pictures_are_unreferenced(tmp_path):
    options = {"preset": "ultrafast", "bf": "3", "x265-params": "log-level=error:bframes=3:b-adapt=0"}
    video = as_video(make_video(tmp_path / "a.mp4", frames=40, gop=20, codec="libx265", options=options))
    with open_indexed(video) as source:
        packets = read_cut(video, source, np.arange(40)).packets
    found = unreferenced(video.info, packets)
    assert found == [sample_facts(video.info, packet.data).disposable is True for packet in packets]
    assert 5 < sum(found) < 40


ENCODERS = {
    "h264": ("libx264", X264),
    "hevc": ("libx265", {"x265-params": "log-level=none"}),
    "vp8": ("libvpx", {"deadline": "realtime", "cpu-used": "8"}),
    "vp9": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8"}),
    "av1": ("libsvtav1", {"preset": "12"}),
    "mpeg4": ("mpeg4", {"bf": "2"}),
    "mpeg2video": ("mpeg2video", {"bf": "2"}),
}


@pytest.mark.parametrize("codec", ENCODERS)
def test_a_file_cut_off_since_it_was_probed_fails_by_name_and_the_next_clip_is_right(codec, tmp_path):
    encoder, options = ENCODERS[codec]
    path = make_video(tmp_path / "a.mkv", codec=encoder, frames=36, gop=12, options=options)
    video, engine = as_video(path), CpuEngine()
    whole = read_frames(path, range(36), engine="cpu")
    cut_short = tmp_path / "short.mkv"
    last = int(video.table.frame_rows[30])
    cut_short.write_bytes(path.read_bytes()[: int(video.table.offset[last] + video.table.size[last]) - 1])
    with open_source(str(cut_short)) as source:
        lying = dataclasses.replace(video, uri=str(cut_short), identity=source.identity)
        with pytest.raises(DecodeError, match=r"is cut off: \d+ of \d+ bytes are there") as error:
            engine.decode(read_cut(lying, source, np.array([2, 30])))
        assert (error.value.uri, error.value.frame_index) == (str(cut_short), 30)
        assert (engine.decode(read_cut(lying, source, np.array([2, 9]))) == whole[[2, 9]]).all()
    with open_source(str(cut_short)) as source, pytest.raises(StaleIndexError, match="size_bytes"):
        read_cut(video, source, np.array([2]))


@pytest.mark.parametrize("codec", ["h264", "hevc", "vp9", "av1", "mpeg4"])
def test_a_key_sample_of_garbage_is_an_error_and_other_groups_are_right(codec, tmp_path):
    encoder, options = ENCODERS[codec]
    path = make_video(tmp_path / "a.mkv", codec=encoder, frames=36, gop=12, options=options)
    video, engine = as_video(path), CpuEngine()
    whole = read_frames(path, range(36), engine="cpu")
    row = int(video.table.key_rows[1])
    data = bytearray(path.read_bytes())
    start, size = int(video.table.offset[row]), int(video.table.size[row])
    data[start : start + size] = np.random.default_rng(1).bytes(size)
    broken = tmp_path / "broken.mkv"
    broken.write_bytes(data)
    frame = int(np.flatnonzero(video.table.frame_rows == row)[0])
    with open_source(str(broken)) as source:
        lying = dataclasses.replace(video, uri=str(broken), identity=source.identity)
        with pytest.raises(DecodeError) as error:
            engine.decode(read_cut(lying, source, np.array([frame])))
        assert error.value.uri == str(broken)
        assert (engine.decode(read_cut(lying, source, np.array([1, 5]))) == whole[[1, 5]]).all()


@pytest.mark.parametrize(
    ("encoder", "pix_fmt", "suffix", "verified"),
    [
        ("msmpeg4v2", "yuv420p", "avi", True),
        ("msmpeg4", "yuv420p", "avi", True),
        ("wmv1", "yuv420p", "avi", True),
        ("wmv2", "yuv420p", "avi", True),
        ("flv1", "yuv420p", "avi", False),
        ("flv1", "yuv420p", "flv", False),
        ("qtrle", "rgb24", "mov", False),
        ("cinepak", "rgb24", "mov", False),
    ],
)
def test_a_file_that_calls_every_sample_a_key_frame_gives_the_same_pictures_one_by_one(
    encoder, pix_fmt, suffix, verified, tmp_path
):
    """As ASF of MS-MPEG-4 may, and MOV without a table of key frames. What is asked for is no key picture."""
    path = tmp_path / f"all_keys.{suffix}"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(encoder, rate=25, width=160, height=144, pix_fmt=pix_fmt, options={"g": "10"})
        for index in range(24):
            still = np.zeros((144, 160, 3), np.uint8)
            still[index * 4 : index * 4 + 30, index * 5 : index * 5 + 30] = picture(index, 160, 144)[:30, :30]
            frame = av.VideoFrame.from_ndarray(still, format="rgb24").reformat(format=pix_fmt)
            for packet in stream.encode(frame):
                packet.is_keyframe = True
                container.mux(packet)
        container.mux(stream.encode(None))
    video = as_video(path)
    whole = read_frames(video, range(24), engine="cpu")
    assert video.keys_verified is verified
    assert len(video.table.key_rows) == (3 if verified else 24)
    for frame in (3, 10, 17, 23):
        assert (read_frames(video, [frame], engine="cpu")[0] == whole[frame]).all()
