"""The pure parts of validation: hashes, thumbnails, stretches, groups of pictures, rules."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidprep.errors import DecodeError, LimitError, Reason
from vidprep.records import Identity, ParsedVideo, SampleTable, StreamInfo, Video
from vidprep.validation.checks import CHECKS, SEVERITIES, at_least
from vidprep.validation.duplicates import candidates, size_signatures
from vidprep.validation.examine import Options, examine
from vidprep.validation.findings import Finding
from vidprep.validation.nvdec import generations
from vidprep.validation.phash import alike_pairs, hash_of, near_videos
from vidprep.validation.pictures import Stretches, thumbnails
from vidprep.validation.rules import Rules, Thresholds, parse_rules
from vidprep.validation.samples import groups_of


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 7))
def test_all_pairs_up_to_seven_bits_are_found_and_no_other(seed: int, max_bits: int) -> None:
    random = np.random.default_rng(seed)
    base = random.integers(0, 2**64, 30, dtype=np.uint64)
    flips = np.bitwise_or.reduce(np.uint64(1) << random.integers(0, 64, (90, 5)).astype(np.uint64), axis=1)
    hashes = np.unique(np.concatenate([base, np.resize(base, 90) ^ flips]))
    found = set(zip(*(side.tolist() for side in alike_pairs(hashes, max_bits)), strict=True))
    values = hashes.tolist()
    assert found == {
        (i, j)
        for i in range(len(values))
        for j in range(i + 1, len(values))
        if (values[i] ^ values[j]).bit_count() <= max_bits
    }


def test_more_bits_than_the_look_up_can_promise_are_refused() -> None:
    with pytest.raises(ValueError, match="0 to 7"):
        alike_pairs(np.zeros(1, np.uint64), 8)


def test_a_hash_ignores_brightness_and_contrast_and_tells_pictures_apart() -> None:
    random = np.random.default_rng(0)
    one, other = (random.integers(0, 255, (32, 32)).astype(np.uint8) for _ in range(2))
    assert (hash_of(one) ^ hash_of((one // 2 + 60).astype(np.uint8))).bit_count() <= 4
    assert (hash_of(one) ^ hash_of(other)).bit_count() > 15


def test_a_video_is_near_the_earlier_one_with_most_in_common() -> None:
    videos = np.array([0, 0, 1, 1, 2, 2])
    hashes = np.array([1 << 40, 99 << 20, 1 << 40, 99 << 20, 77 << 50, 99 << 20], np.uint64)
    assert near_videos(videos, hashes, max_bits=0, min_share=0.5) == [(1, 0, 2, 2), (2, 0, 1, 2)]
    assert near_videos(videos, hashes, max_bits=0, min_share=0.6) == [(1, 0, 2, 2)]
    assert near_videos(np.zeros(0, np.int64), np.zeros(0, np.uint64), max_bits=6, min_share=0.5) == []


def test_thumbnails_are_luma_of_any_size() -> None:
    for height, width in ((1, 1), (31, 77), (480, 640)):
        pictures = np.full((2, height, width, 3), (200, 100, 50), np.uint8)
        assert np.array_equal(np.unique(thumbnails(pictures)), [(77 * 200 + 150 * 100 + 29 * 50) >> 8])
    ramp = np.broadcast_to(np.arange(256, dtype=np.uint8)[None, None, :, None], (1, 64, 256, 3))
    assert bool((np.diff(thumbnails(ramp)[0, 0].astype(int)) == 8).all())


def _stretches(pictures: list[np.ndarray], **limits: float) -> list[tuple[str, int, int]]:
    times = np.arange(len(pictures)) / 10
    watch = Stretches(Thresholds(**limits), times, len(pictures) / 10)
    found = [stretch for frame, luma in enumerate(pictures) for stretch in watch.feed(frame, luma)]
    return [stretch[:3] for stretch in [*found, *watch.finish()]]


def test_stretches_begin_and_end_where_the_pictures_do() -> None:
    random = np.random.default_rng(1)
    noise = [random.integers(0, 255, (32, 32)).astype(np.uint8) for _ in range(40)]
    black, grey = np.zeros((32, 32), np.uint8), np.full((32, 32), 90, np.uint8)
    assert _stretches(noise) == []
    assert _stretches([*noise[:5], *[black] * 10, *noise[5:9]]) == [("black", 5, 14)]
    assert _stretches([*noise[:5], *[black] * 9, *noise[5:9]]) == []  # 0.9 s, and neighbours on both sides
    assert _stretches([*noise[:5], *[grey] * 12, *noise[5:9]]) == [("blank", 5, 16)]
    assert _stretches([*noise[:5], *[noise[20]] * 25, *noise[5:9]]) == [("frozen", 5, 29)]
    assert _stretches([black] * 8) == [("black", 0, 7)]  # short, and all of a clip
    assert _stretches([black] * 7) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(-50, 50)), max_size=12), max_size=8))
def test_groups_of_many_videos_are_those_of_each(videos: list[list[tuple[int, int]]]) -> None:
    bounds = np.cumsum([0, *map(len, videos)])
    flags = np.array([flag for video in videos for flag, _ in video], np.int32)
    deltas = np.array([delta for video in videos for _, delta in video], np.int64)
    groups = groups_of(bounds, flags, deltas)
    assert groups.longest.tolist() == [_longest(video) for video in videos]
    assert groups.leading.tolist() == [_leading(video) for video in videos]


def _longest(video: list[tuple[int, int]]) -> int:
    starts = [row for row, (flag, _) in enumerate(video) if flag & 1 or row == 0]
    return max((b - a for a, b in pairwise([*starts, len(video)])), default=0)


def _leading(video: list[tuple[int, int]]) -> int:
    count, pts, key_pts, group = 0, 0, 0, -1
    for row, (flag, delta) in enumerate(video):
        pts = delta if row == 0 else pts + delta
        if flag & 1 or row == 0:
            key_pts, group = pts, group + 1
        count += group > 0 and pts < key_pts and bool(flag & 2)
    return count


def test_candidates_for_duplicates_have_the_same_sizes_in_the_same_order() -> None:
    sizes = np.array([5, 6, 7, 6, 5, 7, 5, 6, 7])
    signatures = size_signatures(np.array([0, 3, 6, 9, 9, 9]), sizes)
    assert [group.tolist() for group in candidates(signatures)] == [[0, 2]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("thresholds = 3", "thresholds"),
        ("[thresholds]\nnear_bits = 8", "near_bits"),
        ('[thresholds]\nblack_luma = "dark"', "black_luma"),
        ('[severity]\nvfr = "awful"', "awful"),
        ("[require]\ncodecs = 3", "list"),
        ("[require]\nmin_hight = 3", "min_hight"),
        ("nonsense = 1", "nonsense"),
        ("disable = 3", "disable"),
        ('severity = "bad"', "severity"),
        ("= broken", "Invalid"),
    ],
)
def test_rules_that_mean_nothing_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_rules(text)


def test_severities_are_ordered() -> None:
    assert at_least("warning") == ("warning", "error")
    assert {check.severity for check in CHECKS.values()} <= set(SEVERITIES)


def test_generations_are_named_for_what_only_some_decode() -> None:
    assert "Blackwell" in generations("h264", "4:2:2", 8)
    assert "Turing" in generations("hevc", "4:4:4", 8)
    assert "Ampere" in generations("av1", "4:2:0", 8)


def _video(num_frames: int, gop: int) -> Video:
    flags = np.full(num_frames, 2, np.uint8)
    flags[::gop] |= 1
    rows = np.arange(num_frames)
    table = SampleTable(offset=rows, size=rows + 1, pts=rows, flags=flags)
    info = StreamInfo(container="mp4", codec="h264", width=64, height=64)
    parsed = ParsedVideo(info=info, table=table, method="header", keys_verified=True)
    return Video(uri="v.mp4", identity=Identity(size_bytes=1), parsed=parsed)


def _luma(frame: int) -> np.ndarray:
    return np.random.default_rng(frame).integers(0, 255, (32, 32)).astype(np.uint8)


def _decoder(lost: set[int], *, in_batches: bool = False, needs_resize: bool = False):
    """Fails at `lost` frames; in batches nothing comes before a failure."""

    def decode(video, frames, resize):
        bad = [frame for frame in frames.tolist() if frame in lost or (needs_resize and not resize and frame >= 5)]
        for frame in frames.tolist():
            if bad and (in_batches or frame == bad[0]):
                raise DecodeError("lost", frame_index=bad[0])
            yield frame, _luma(frame)

    return decode


def _failures(num_frames: int, gop: int, decode) -> tuple[list[tuple[int | None, str]], int]:
    found = examine(_video(num_frames, gop), 0, Options(level="full"), Rules(), decode)
    return [(finding.frame, finding.message) for finding in found.findings], found.decoded


@pytest.mark.parametrize("in_batches", [False, True])
def test_every_frame_comes_out_or_is_named(in_batches: bool) -> None:
    failures, decoded = _failures(30, 10, _decoder({4}, in_batches=in_batches))
    assert failures == [(4, "frame 4: lost")]
    assert decoded == 29


def test_a_second_failure_costs_the_rest_of_its_group() -> None:
    failures, decoded = _failures(30, 10, _decoder({4, 5, 6, 7, 8, 9, 21}))
    assert failures == [(4, "frames 4 to 9: lost"), (21, "frame 21: lost")]
    assert decoded == 23


def test_many_failures_are_counted_in_the_last_finding() -> None:
    failures, decoded = _failures(200, 2, _decoder(set(range(0, 200, 4))))
    assert len(failures) == 33
    assert failures[-1][1].endswith("18 more failures in this range")
    assert decoded == 150


def test_a_change_of_size_is_no_failure() -> None:
    found = examine(_video(20, 10), 0, Options(level="full"), Rules(), _decoder(set(), needs_resize=True))
    assert [(finding.check, finding.frame) for finding in found.findings] == [("size_changes", 5)]
    assert found.decoded == 20


def test_pictures_out_of_order_can_be_had_alone() -> None:
    def decode(video, frames, resize):
        for frame in frames.tolist():
            if frame == 7 and len(frames) > 1:
                raise DecodeError("frame 8 came where this one was due", frame_index=7)
            yield frame, _luma(frame)

    found = examine(_video(20, 10), 0, Options(level="full"), Rules(), decode)
    assert [(finding.check, finding.frame) for finding in found.findings] == [("output_order", 7)]
    assert found.decoded == 20


def test_time_that_runs_out_ends_a_video_with_a_finding() -> None:
    def decode(video, frames, resize):
        raise LimitError("its time is up", reason=Reason.TIMEOUT)
        yield

    found = examine(_video(20, 10), 0, Options(level="full"), Rules(), decode)
    assert found.findings == [Finding(check="timeout", message="its time is up")]
