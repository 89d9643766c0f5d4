"""vidprep.containers.named_encoder: what an old x264 coded in its own way is decoded from the sample that names it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from clips_made import make_video

from vidprep.containers import parse_container

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
@pytest.mark.parametrize(
    ("pix_fmt", "build", "keys"),
    [("yuv444p", 150, [0]), ("yuv444p", 151, [0, 8, 16]), ("yuv420p", 150, [0, 8, 16])],
)
def test_old_x264_in_444_has_one_key(pix_fmt: str, build: int, keys: list[int], suffix: str, tmp_path: Path) -> None:
    options = {"x264-params": "keyint=8:bframes=0:scenecut=0"}
    path = make_video(tmp_path / f"a.{suffix}", frames=24, pix_fmt=pix_fmt, options=options)
    data, found = re.subn(rb"x264 - core \d{3}", b"x264 - core %d" % build, path.read_bytes())
    assert found == 1
    parsed = parse_container(lambda offset, size: data[offset : offset + size], len(data))
    assert parsed.table.key_rows.tolist() == keys
    assert parsed.table.num_frames == 24
