"""Plans over real files for the loader's tests."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vidprep.loaders.frames import as_video
from vidprep.samplers import RandomClip
from vidprep.samplers.plan import Plan

if TYPE_CHECKING:
    from vidprep.records import VideoLike

CASES = Path(__file__).parent / "cases" / "files"
#: H.264 with B-frames, AVI without times, open GOPs, HEVC, VP9 with hidden frames, VFR.
NAMES = (
    "clip_window.mp4", "avi_h264_b.avi", "open_gop.mp4", "hevc_stss_first_only.mp4", "ctts_v1_negative.mp4",
    "vp9_altref.webm", "vfr_steps.mp4", "mkv_no_cues.mkv",
)  # fmt: skip


def copied_videos(folder: Path, names: tuple[str, ...] = NAMES) -> list[VideoLike]:
    """Copies of case files, probed; a test may break them."""
    folder.mkdir(exist_ok=True)
    return [as_video(shutil.copy(CASES / name, folder / name)) for name in names]


def small_plan(folder: Path, *, clips_per_video: int = 3, seed: int = 7, **options: Any) -> Plan:
    """8 videos x 3 clips of 4 frames."""
    videos = copied_videos(folder)
    return Plan(
        videos, RandomClip(frames=4, stride=2, pad="edge"), seed=seed, clips_per_video=clips_per_video, **options
    )
