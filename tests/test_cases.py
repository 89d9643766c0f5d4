"""Every case through the public API: count, times, true keys, error, and the number drawn in each frame."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from drawn import drawn_number

from vidprep.cli import main
from vidprep.errors import DecodeError
from vidprep.loaders import read_frames

CASES = Path(__file__).parent / "cases"


def _expected() -> dict[str, dict[str, Any]]:
    found = {path.stem: json.loads(path.read_text()) for path in sorted((CASES / "expected").glob("*.json"))}
    return {
        name: case for name, case in found.items() if "file" in case and case.get("kind") not in ("cases", "archive")
    }


EXPECTED = _expected()
READABLE = {name: case for name, case in EXPECTED.items() if case.get("displayable_frames")}
WITH_FRAMES = {name: case for name, case in READABLE.items() if case.get("frame_ids")}
#: Pictures whose size changes are an error unless a size is named.
SIZE_CHANGES = {name for name, case in WITH_FRAMES.items() if len({tuple(size) for size in case.get("sizes", ())}) > 1}


def inspect(case: dict[str, Any]) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["inspect", "--json", "--frames", str(CASES / case["file"])])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def numbers(path: Path, frames: list[int], **options: Any) -> list[int]:
    return [drawn_number(picture) for picture in read_frames(str(path), frames, engine="cpu", **options)]


@pytest.mark.parametrize("name", READABLE)
def test_count_times_and_true_keys(name: str) -> None:
    case = READABLE[name]
    seen = inspect(case)
    assert seen["status"] == "ok"
    assert seen["num_frames"] == case["displayable_frames"] == len(seen["frames"]["pts"])
    assert seen["time_base"] == case["time_base"]
    pts = np.array(seen["frames"]["pts"])
    ticks = case["pts_ticks"] or case.get("literal_ticks") or case["stored_ticks"]
    shift = pts[0] - ticks[0] if case.get("pts_offset_free") else 0
    assert (pts - shift).tolist() == ticks
    keys = case.get("key_indices") or case.get("exact_start_indices")
    assert keys is None or seen["frames"]["keyframes"] == keys


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in READABLE])
def test_what_cannot_be_read_is_an_error_with_its_reason(name: str) -> None:
    case = EXPECTED[name]
    seen = inspect(case)
    if case.get("may_recover") and seen["status"] == "ok":
        assert seen["warnings"]
        return
    assert seen["status"] == "error"
    assert seen["error"]["reason"] in REASONS[case["error"]["klass"]]


#: reasons that say the same as the case's class of error
REASONS = {
    "CorruptTable": {"corrupt_table"},
    "CorruptFile": {"truncated", "corrupt_table", "not_media"},
    "NoIndex": {"truncated"},
    "EmptyFile": {"empty"},
    "NoVideoStream": {"no_video_stream"},
}


@pytest.mark.parametrize("name", WITH_FRAMES)
def test_every_frame_is_the_frame_in_any_order_of_asking(name: str) -> None:
    case = WITH_FRAMES[name]
    path, ids = CASES / case["file"], case["frame_ids"]
    options = {"size": (144, 160)} if name in SIZE_CHANGES else {}
    frames = list(range(len(ids)))
    assert numbers(path, frames, **options) == ids
    assert numbers(path, frames[::-1], **options) == ids[::-1]
    shuffled = random.Random(name).sample(frames, len(frames))
    assert numbers(path, shuffled, **options) == [ids[frame] for frame in shuffled]
    for frame in frames[:: max(1, len(frames) // 12)] + frames[-1:]:
        assert numbers(path, [frame], **options) == [ids[frame]]


@pytest.mark.parametrize("name", WITH_FRAMES)
def test_a_frame_past_the_end_is_an_error(name: str) -> None:
    case = WITH_FRAMES[name]
    with pytest.raises(DecodeError, match="the video has"):
        read_frames(str(CASES / case["file"]), [len(case["frame_ids"])], engine="cpu")


@pytest.mark.parametrize("name", sorted(SIZE_CHANGES))
def test_a_change_of_size_without_a_named_size_is_an_error(name: str) -> None:
    with pytest.raises(DecodeError, match="its size changes"):
        read_frames(
            str(CASES / WITH_FRAMES[name]["file"]), list(range(len(WITH_FRAMES[name]["frame_ids"]))), engine="cpu"
        )


def test_colours_of_a_full_range_file_are_those_that_were_drawn() -> None:
    case = READABLE["color_fullrange_709"]
    picture = read_frames(str(CASES / case["file"]), [0], engine="cpu")[0]
    for (column, row), right in zip(case["patch_centres"], case["rgb_patches"], strict=True):
        seen = picture[row - 4 : row + 4, column - 4 : column + 4].mean(axis=(0, 1))
        assert np.abs(seen - right).max() <= case["tolerance"]
