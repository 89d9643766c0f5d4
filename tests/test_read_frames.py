"""vidprep.loaders.frames: exactly the named frames, in any order, of every kind of file."""

from __future__ import annotations

import json
import random
from pathlib import Path

import av
import numpy as np
import pytest
from clips_made import X264, make_video
from drawn import drawn_number
from sequential import FLAGS, rgb, sequential_frames

from vidprep.errors import DecodeError, MediaError, Reason, SourceError, StaleIndexError
from vidprep.loaders import read_frames
from vidprep.loaders.frames import as_video, iter_frames, iter_groups, make_engine, rotated

CASES = Path(__file__).parent / "cases"


def cases_with_drawn_frames():
    for path in sorted((CASES / "expected").glob("*.json")):
        expected = json.loads(path.read_text())
        if expected.get("frame_ids") and "file" in expected and not expected.get("error"):
            yield pytest.param(CASES / expected["file"], expected["frame_ids"], "sizes" in expected, id=path.stem)


def numbers(path, frames, size=None):
    return [drawn_number(picture) for picture in read_frames(path, frames, engine="cpu", size=size)]


@pytest.mark.parametrize(("path", "frame_ids", "changes_size"), list(cases_with_drawn_frames()))
def test_every_case_is_frame_exact_in_order_singly_backwards_and_at_random(path, frame_ids, changes_size):
    size = (144, 160) if changes_size else None
    n, rng = len(frame_ids), random.Random(7)
    assert numbers(path, range(n), size) == frame_ids
    assert numbers(path, range(n - 1, -1, -1), size) == frame_ids[::-1]
    drawn = [rng.randrange(n) for _ in range(min(2 * n, 20))]
    assert numbers(path, drawn, size) == [frame_ids[frame] for frame in drawn]
    for frame in rng.sample(range(n), min(n, 40)):
        assert numbers(path, [frame], size) == [frame_ids[frame]], frame


def decodable(corpus):
    """Files that FFmpeg decodes without an error, a log line or a size change."""
    for line in (corpus / "manifest.jsonl").read_text().splitlines():
        facts = json.loads(line)
        is_sequence_of_stills = facts["name"].endswith(".avif")  # FFmpeg takes the still beside the moving track
        is_clean = facts["decode_errors"] == "no" and not facts["ffprobe_error_lines"]
        if is_clean and facts["n_frames"] and not is_sequence_of_stills:
            yield facts


#: Files that FFmpeg decodes and that are refused on purpose, by the reason.
REFUSED = (
    "encrypted",
    "still image",
    "only attached pictures",
    "its size changes in mid-stream",
    "contradicts their times",
)


def test_every_corpus_file_equals_pyavs_sequential_decode_bit_for_bit(corpus):
    limit, wrong, refused, equal = 24, [], [], 0
    for facts in decodable(corpus):
        path = corpus / "files" / facts["name"]
        try:
            video = as_video(path)
            frames = np.arange(min(video.table.num_frames, limit))
            reference = sequential_frames(path, video.info.stream_index)
            with make_engine("cpu") as engine:
                for index, picture in iter_frames(video, frames, engine=engine):
                    if not np.array_equal(rgb(next(reference)), picture):
                        raise AssertionError(f"frame {index} differs")
            if len(frames) < limit and (left := sum(1 for _ in reference)):
                raise AssertionError(f"{len(frames)} frames, the reference has {left} more")
            equal += 1
        except (MediaError, DecodeError) as error:
            (refused if any(reason in str(error) for reason in REFUSED) else wrong).append(str(error))
        except (AssertionError, StopIteration) as error:
            wrong.append(f"{facts['name']}: {error!r}")
    assert not wrong, f"{equal} equal, {len(refused)} refused, wrong:\n" + "\n".join(wrong)
    assert equal > 80


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_video(tmp_path_factory.mktemp("frames") / "a.mp4", frames=60, gop=12, options=X264)


@pytest.fixture(scope="module")
def truth(made):
    return np.stack([rgb(frame) for frame in sequential_frames(made)])


def test_frames_come_in_the_order_asked_with_repeats_and_negative_ones(made, truth):
    frames = [33, 0, -1, 33, 7, -60]
    pictures = read_frames(str(made), frames)
    assert pictures.dtype == np.uint8
    assert np.array_equal(pictures, truth[frames])


def test_no_frames_give_an_empty_array_of_the_right_shape(made):
    assert read_frames(made, []).shape == (0, 96, 128, 3)


@pytest.mark.parametrize("frame", [60, -61, 10**12])
def test_a_frame_that_does_not_exist_is_an_error_naming_file_and_frame(made, frame):
    with pytest.raises(DecodeError, match="the video has 60 frames") as error:
        read_frames(made, [0, frame])
    assert (error.value.uri, error.value.frame_index) == (str(made), frame)


def test_size_is_height_and_width(made):
    assert read_frames(made, [0, 5], size=(32, 48)).shape == (2, 32, 48, 3)


def test_rotation_is_clockwise(cases):
    path = cases / "files" / "rotate90.mp4"
    turned, plain = read_frames(path, [3], rotate=True), read_frames(path, [3])
    assert turned.shape == (1, 160, 144, 3)
    assert as_video(path).info.rotation in (90, 270)
    clockwise = {90: lambda p: p[::-1].swapaxes(0, 1), 270: lambda p: p.swapaxes(0, 1)[::-1]}
    assert np.array_equal(turned[0], clockwise[as_video(path).info.rotation](plain[0]))


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_four_quarter_turns_are_none(degrees):
    pictures = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    once = rotated(pictures, degrees)
    assert np.array_equal(rotated(once, (360 - degrees) % 360), pictures)


def test_a_probed_video_is_refused_once_its_file_changed_or_went(made, tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(made.read_bytes())
    video = as_video(path)
    path.write_bytes(made.read_bytes() + b"x")
    with pytest.raises(StaleIndexError):
        read_frames(video, [0])
    path.unlink()
    with pytest.raises(SourceError) as error:
        read_frames(video, [0])
    assert error.value.reason == Reason.VANISHED


@pytest.mark.parametrize(("name", "reason"), [("zero_bytes.mp4", "empty"), ("audio_only.mp4", "no_video_stream")])
def test_what_is_no_video_is_an_error_naming_the_file(cases, name, reason):
    with pytest.raises(MediaError) as error:
        read_frames(cases / "files" / name, [0])
    assert (error.value.reason, error.value.uri) == (reason, str(cases / "files" / name))


def test_an_unknown_engine_is_an_error(made):
    with pytest.raises(ValueError, match="none of"):
        read_frames(made, [0], engine="magic")


def test_groups_share_no_gop_and_hold_every_frame_once(made):
    video = as_video(made)
    frames = np.array([0, 1, 13, 14, 30, 55, 59])
    groups = list(iter_groups(video, frames, max_bytes=1))
    assert np.concatenate(groups).tolist() == frames.tolist()
    assert [group.tolist() for group in groups] == [[0, 1], [13, 14], [30], [55, 59]]
    assert len(list(iter_groups(video, frames))) == 1


def test_frames_one_by_one_are_the_same_in_bounded_memory(made, truth):
    with make_engine("cpu") as engine:
        found = dict(iter_frames(as_video(made), np.arange(60), engine=engine, max_bytes=1))
    assert np.array_equal(np.stack([found[i] for i in range(60)]), truth)


def test_importing_the_loaders_loads_no_decoder():
    import subprocess
    import sys

    code = "import sys, vidprep.loaders; print([m for m in ('av', 'torch', 'nvidia', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("frame", [1 << 70, -(1 << 70), 1 << 63])
def test_a_frame_number_of_any_size_is_an_error(frame):
    with pytest.raises(DecodeError, match="the video has"):
        read_frames(CASES / "files" / "one_frame.mp4", [0, frame], engine="cpu")


@pytest.mark.parametrize("frames", [[0.5], np.array([0.0]), ["0"]])
def test_what_is_no_integer_is_never_cut_to_one(frames):
    with pytest.raises(TypeError):
        read_frames(CASES / "files" / "one_frame.mp4", frames, engine="cpu")


def test_uint16_is_swscales_rgb48_and_holds_levels_between_those_of_eight_bits(cases):
    path = cases / "files" / "h264_10bit.mp4"
    pictures = read_frames(path, [0, 7], engine="cpu", dtype="uint16")
    assert pictures.dtype == np.uint16
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    for picture, frame in zip(pictures, (frames[0], frames[7]), strict=True):
        want = frame.reformat(format="rgb48le", interpolation=FLAGS).to_ndarray()
        assert np.abs(picture.astype(int) - want).max() <= 2 * 257
    assert (pictures % 257 != 0).any()


def test_uint16_may_be_resized_and_is_of_the_cpu_engine_alone(made):
    pictures = read_frames(made, [0, 5], size=(32, 48), dtype="uint16")
    assert (pictures.shape, pictures.dtype) == ((2, 32, 48, 3), np.uint16)
    # two levels before, by rounding to eight bits, and the filter overshoots
    assert np.abs(pictures / 257 - read_frames(made, [0, 5], size=(32, 48))).max() <= 3
    with pytest.raises(ValueError, match="gives uint8; take engine cpu"):
        read_frames(made, [0], engine="dali", dtype="uint16")


@pytest.mark.dali
def test_size_means_the_same_with_every_engine(cases):
    path = cases / "files" / "vp9_altref.webm"
    mine, theirs = (read_frames(path, [0, 9], engine=engine, size=(50, 70)) for engine in ("cpu", "dali"))
    assert mine.shape == theirs.shape == (2, 50, 70, 3)
    assert np.abs(mine.astype(int) - theirs).max() <= 2


@pytest.mark.dali
def test_a_size_mends_a_size_change_with_every_engine(cases):
    path = cases / "files" / "res_change.ts"
    mine, theirs = (read_frames(path, [0, 20], engine=engine, size=(144, 160)) for engine in ("cpu", "dali"))
    assert np.array_equal(mine, theirs)


def test_size_is_that_of_the_turned_picture(cases):
    path = cases / "files" / "rotate90.mp4"
    assert read_frames(path, [3], rotate=True, size=(80, 72)).shape == (1, 80, 72, 3)
