"""`vidprep inspect`: the drawing in the terminal, the page, the picture, and the sentences."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from av.video.frame import PictureType
from click.testing import CliRunner, Result
from clips_made import X264, make_video

from vidprep.cli import main
from vidprep.cli.pictures import lines, pictures_of, sparkline
from vidprep.containers.verify import facts_of_rows
from vidprep.indexes import probe

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["inspect", *(str(argument) for argument in arguments)])


@pytest.mark.parametrize(
    "name",
    ["cfr_vui_mismatch.mp4", "open_gop.mp4", "avi_h264_b.avi", "mpeg_ps_open_gop.mpg", "elst_trim_mid_gop.mp4",
     "hevc_stss_first_only.mp4", "mkv_no_cues.mkv"],
)  # fmt: skip
def test_the_strip_says_what_ffmpeg_says_of_each_frame(cases: Path, name: str) -> None:
    video = probe(str(cases / "files" / name), verify_keys=True)
    letters = pictures_of(video).letters.upper().replace("K", "I")
    with av.open(video.uri) as container:
        told = [PictureType(frame.pict_type).name for frame in container.decode(video=0)]
    assert len(letters) == video.table.num_frames
    assert letters == "".join(told)


def test_bits_over_time_add_up_to_the_bytes(cases: Path) -> None:
    video = probe(str(cases / "files" / "vfr_steps.mp4"))
    pictures = pictures_of(video)
    for bins in (7, 60):
        starts, rate = pictures.bit_rate(bins)
        widths = np.diff(np.append(starts, pictures.end_seconds))
        assert (rate * widths).sum() == pytest.approx(8 * int(video.table.size.sum()))


def test_gops_and_steps_are_those_of_the_timeline(cases: Path) -> None:
    video = probe(str(cases / "files" / "vfr_steps.mp4"))
    pictures = pictures_of(video)
    assert pictures.gop_frames.sum() == video.table.num_frames - video.table.keyframes[0]
    assert pictures.steps_seconds == pytest.approx(np.diff(video.timeline.pts_seconds))
    text = "\n".join(lines(pictures))
    assert f"max {pictures.steps_seconds.max() * 1000:.4g} ms" in text


def test_a_long_video_costs_only_the_heads_of_its_first_frames(tmp_path: Path) -> None:
    path = make_video(tmp_path / "long.mp4", frames=700, options=X264)
    video = probe(str(path))
    pictures = pictures_of(video)
    assert len(pictures.letters) == 600
    assert "the first 600 of 700" in next(lines(pictures))
    asked: list[int] = []

    def read_at(offset: int, size: int) -> bytes:
        asked.append(offset + size)
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    table = video.table
    first = type(table)(offset=table.offset[:9], size=table.size[:9], pts=table.pts[:9], flags=table.flags[:9])
    assert len(facts_of_rows(video.info, first, read_at, access="ranges", size_bytes=path.stat().st_size)) == 9
    assert max(asked) <= int((table.offset + table.size)[:9].max())


@pytest.mark.parametrize(
    ("values", "drawn"), [([0, 1], "▁█"), ([5, 5], "██"), ([0, 0], "▁▁"), ([-1, 1, 0], "▁█▅"), ([8, 4, 1], "█▅▂")]
)
def test_sparklines_go_from_zero_to_the_highest(values: list[float], drawn: str) -> None:
    assert sparkline(np.array(values, float)) == drawn


def test_the_terminal_and_the_page_show_the_same_letters(cases: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    result = run(cases / "files" / "open_gop.mp4", "--html", page, "--png", picture)
    assert result.exit_code == 0, result.output
    letters = pictures_of(probe(str(cases / "files" / "open_gop.mp4"))).letters
    assert letters in result.stdout.replace("\n" + " " * 9, "")
    text = page.read_text()
    strip = text.partition('id="strip">')[2].partition("</div>")[0]
    assert re.sub(r"<[^>]*>", "", strip) == letters
    assert text.count("data:image/svg+xml") == 3
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("elst_trim_mid_gop.mp4", "edit 1 of 1 shows the track from"),
        ("elst_trim_mid_gop.mp4", "coded samples are decoded but not shown"),
        ("elst_cut_middle.mp4", "edit 2 of 2 shows the track from"),
        ("stss_absent.mp4", "the container calls every sample a key frame"),
        ("rotate90.mp4", "to be rotated by 90 degrees"),
        ("vp8_altref.webm", "coded samples are decoded but not shown"),
        ("avi_h264_b.avi", "demuxing the whole file"),
        ("mkv_no_cues.mkv", "walking the container's fragments or blocks"),
        ("open_gop.mp4", "coded in another order than they are shown"),
        ("vfr_steps.mp4", "frame times vary"),
        ("trunc_faststart.mp4", "warning: truncated"),
        ("nonzero_start.mkv", "the first frame is shown at"),
        ("moov_missing.mp4", "cannot be used: truncated"),
        ("cover_first.mp4", "left aside"),
    ],
)
def test_explanations_tell_what_is_odd(cases: Path, name: str, says: str) -> None:
    result = run(cases / "files" / name, "--explain")
    assert result.exit_code == 0, result.output
    assert says in result.stdout


def test_a_healthy_file_is_explained_without_alarm(cases: Path) -> None:
    sentences = [s for s in run(cases / "files" / "odd_size.webm", "--explain").stdout.splitlines() if s[:2] == "- "]
    assert not any("warning" in sentence or "not shown" in sentence for sentence in sentences)


def test_there_is_no_picture_of_a_bad_file_and_that_is_said(cases: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["inspect", str(cases / "files" / "zero_bytes.mp4"), "--png", str(tmp_path / "a.png")]
    )
    assert result.exit_code == 0
    assert "a.png: not written" in result.stderr
    assert not (tmp_path / "a.png").exists()


def test_a_bad_file_has_a_page_and_exits_0(cases: Path, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    result = run(cases / "files" / "moov_missing.mp4", "--html", page, "--png", tmp_path / "no.png")
    assert result.exit_code == 0
    assert 'id="error"' in page.read_text()
    assert not (tmp_path / "no.png").exists()


def test_a_vanished_or_changed_file_costs_only_the_picture_types(cases: Path, tmp_path: Path) -> None:
    videos, index = tmp_path / "videos", tmp_path / "index"
    videos.mkdir()
    shutil.copy(cases / "files" / "vfr_steps.mp4", videos / "a.mp4")
    CliRunner().invoke(main, ["index", str(videos), "-o", str(index), "--workers", "1"])
    os.utime(videos / "a.mp4", ns=(1, 1))
    changed = run(index, "--video", "0", "--html", tmp_path / "p.html")
    assert "picture types are not known" in changed.stdout
    assert "stale" in changed.stdout
    (videos / "a.mp4").unlink()
    gone = run(index, "--video", "0", "--explain", "--html", tmp_path / "p.html")
    assert gone.exit_code == 0
    assert "vanished: no longer there" in gone.stdout
    assert "bit rate" in gone.stdout
    assert "vanished" in (tmp_path / "p.html").read_text()


def test_names_that_command_terminals_are_written_out(cases: Path, tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\n<b>.mp4"
    shutil.copy(cases / "files" / "one_frame.mp4", path)
    result = run(path, "--html", tmp_path / "p.html")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "a\\x1b[31m\\n<b>.mp4" in result.stdout
    assert "a\\x1b[31m\\n&lt;b&gt;.mp4" in (tmp_path / "p.html").read_text()


def test_an_archive_says_how_its_members_are_named(cases: Path, tmp_path: Path) -> None:
    archive = cases / "files" / "wds_dotted_keys.tar"
    facts = json.loads(run(archive, "--json").stdout)
    assert facts["error"]["reason"] == "unsupported_container"
    assert f"{archive}::a/v1.cam0.mp4" in facts["error"]["message"]
    assert json.loads(run(f"{archive}::a/v1.cam0.mp4", "--json").stdout)["status"] == "ok"
    (tmp_path / "x.tar.gz").write_bytes(b"\x1f\x8b" + bytes(100))
    assert "decompress it" in run(tmp_path / "x.tar.gz", "--json").stdout


def test_a_video_number_is_for_an_index_alone(cases: Path, tmp_path: Path) -> None:
    result = run(cases / "files" / "one_frame.mp4", "--video", "0")
    assert result.exit_code == 2
    assert "--video is for an index" in result.stderr
    (tmp_path / "videos").mkdir()
    assert CliRunner().invoke(main, ["index", str(tmp_path / "videos"), "-o", str(tmp_path / "none")]).exit_code == 0
    result = run(tmp_path / "none", "--video", "0")
    assert result.exit_code == 2
    assert "holds no videos" in result.stderr
