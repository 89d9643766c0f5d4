"""Every check has a file that triggers it and one that does not; whole runs over cases and corpus."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from validation_files import make_files, validated

from vidprep.errors import ContainerError, IndexFormatError, Reason
from vidprep.indexes import build_index
from vidprep.indexes.rows import error_row
from vidprep.indexes.write import PartWriter
from vidprep.samplers import parse_policy
from vidprep.validation.checks import CHECKS, checks_table
from vidprep.validation.findings import read_findings
from vidprep.validation.rules import Rules, parse_rules

if TYPE_CHECKING:
    from vidprep.validation.run import Report

ROOT = Path(__file__).parent.parent


def by_video(report: Report) -> dict[str, dict[str, list[dict]]]:
    """File name → check → findings."""
    found: dict[str, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for finding in read_findings(report.findings):
        found[os.path.basename(finding["video"])][finding["check"]].append(finding)
    return found


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, cases: Path) -> Path:
    """An index of files that trigger checks."""
    folder = tmp_path_factory.mktemp("validation")
    make_files(folder / "files", cases)
    build_index([folder / "files"], folder / "index", workers=0)
    return folder


@pytest.fixture(scope="session")
def full(made: Path) -> dict[str, dict[str, list[dict]]]:
    """Findings of a full run."""
    rules = parse_rules("[require]\nmax_frames = 300\n")
    report = validated(
        made / "index", made / "aside", "full", rules=rules, policies=(parse_policy("first:frames=10,pad=drop"),)
    )
    return by_video(report)


TRIGGERS = {
    "damaged_tail": "trunc_faststart.mp4",
    "container_faults": "tables_disagree.mp4",
    "frame_count": "avi_header_lie.avi",
    "duration": "avi_header_lie.avi",
    "frame_rate": "mkv_default_duration_lie.mkv",
    "vfr": "vfr_steps.mp4",
    "gaps": "vfr_steps.mp4",
    "duplicate_times": "one_time_twice.mkv",
    "backward_times": "mkv_rel_time_wrap.mkv",
    "missing_key_frames": "hevc_stss_first_only.mp4",
    "false_key_frames": "fmp4_all_sync.mp4",
    "long_gop": "long_gop.mp4",
    "open_gop": "open_gop.mp4",
    "nvdec_unsupported": "mjpeg.avi",
    "nvdec_some": "h264_10bit.mp4",
    "odd_size": "odd_size.webm",
    "extreme_size": "tiny.mp4",
    "rotation": "rotate90.mp4",
    "sample_aspect": "sar.mp4",
    "colour_untagged": "untagged.mp4",
    "colour_odd": "color_fullrange_709.mp4",
    "interlaced": "interlaced.mp4",
    "audio_length": "audio.mp4",
    "exact_duplicate": "healthy_copy.mp4",
    "too_short": "tiny.mp4",
    "requirement": "long_gop.mp4",
    "undecodable_frames": "flipped.mp4",
    "size_changes": "res_change.ts",
    "near_duplicate": "scene_again.mp4",
    "black": "black.mp4",
    "blank": "blank.mp4",
    "frozen": "frozen.mp4",
    "empty": "zero_bytes.mp4",
    "no_video_stream": "audio_only.mp4",
    "truncated": "box_size_bomb.mp4",
}


@pytest.mark.parametrize(("check", "name"), TRIGGERS.items())
def test_a_check_finds_what_it_is_for(full: dict, check: str, name: str) -> None:
    assert check in full[name], dict(full[name])
    assert check not in full["healthy.mp4"]


def test_the_healthy_file_has_no_finding_at_all(full: dict) -> None:
    assert dict(full["healthy.mp4"]) == {}


def test_every_check_is_triggered_by_some_test() -> None:
    elsewhere = {str(reason) for reason in Reason} | {"output_order"}
    assert set(CHECKS) <= set(TRIGGERS) | elsewhere


@pytest.mark.parametrize(
    ("name", "check", "frame"),
    [
        ("stts_delta_wrap.mp4", "gaps", 12),
        ("mkv_rel_time_wrap.mkv", "backward_times", 17),
        ("one_time_twice.mkv", "duplicate_times", 3),
    ],
)
def test_the_first_frame_with_a_wrong_time_is_named(full: dict, name: str, check: str, frame: int) -> None:
    assert [finding["frame"] for finding in full[name][check]] == [frame]


def test_undecodable_frames_are_named_and_the_next_group_is_not_among_them(full: dict) -> None:
    found = full["flipped.mp4"]["undecodable_frames"]
    assert [(finding["frame"], finding["severity"]) for finding in found] == [(13, "error"), (14, "error")]
    assert [finding["message"].partition(":")[0] for finding in found] == ["frame 13", "frames 14 to 23"]


def test_gradual_refresh_is_no_key_frame(full: dict) -> None:
    assert "false_key_frames" in full["intra_refresh.mp4"]


def test_stretches_are_given_in_frames_and_seconds(full: dict) -> None:
    assert full["black.mp4"]["black"][0]["message"] == "frames 0 to 29, 1.200 s"
    assert full["frozen.mp4"]["frozen"][0]["frame"] == 5


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_for_an_unreadable_video_is_a_check(reason: Reason, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    with PartWriter(tmp_path / "index" / "part-0.parquet") as writer:
        writer.add([error_row("/a.mp4", "a.mp4", ContainerError("told so", reason=reason, offset=7), None)])
    report = validated(tmp_path / "index", tmp_path / "aside")
    (finding,) = read_findings(report.findings)
    assert (finding["check"], finding["severity"], finding["offset"]) == (str(reason), "error", 7)
    assert finding["message"] == "told so"


def test_a_file_that_changed_and_one_that_is_gone_are_told(tmp_path: Path, cases: Path) -> None:
    for name in ("same.mp4", "changed.mp4", "gone.mp4"):
        (tmp_path / name).write_bytes((cases / "files" / "clip_window.mp4").read_bytes())
    build_index([tmp_path], tmp_path / "index", pattern="*.mp4", workers=0)
    os.utime(tmp_path / "changed.mp4", ns=(1, 1))
    (tmp_path / "gone.mp4").unlink()
    found = by_video(validated(tmp_path / "index", tmp_path / "aside"))
    assert "stale" in found["changed.mp4"]
    assert "vanished" in found["gone.mp4"]
    assert not {"stale", "vanished"} & found["same.mp4"].keys()


def test_sampled_clips_are_the_same_for_the_same_seed_and_named_frames_fail(made: Path, tmp_path: Path) -> None:
    one = by_video(validated(made / "index", tmp_path / "one", "sampled"))
    two = by_video(validated(made / "index", tmp_path / "two", "sampled"))
    assert one == two
    assert "undecodable_frames" in one["flipped.mp4"]
    assert "black" in one["black.mp4"]


def test_keyframes_decode_key_frames_only(made: Path, tmp_path: Path) -> None:
    report = validated(made / "index", tmp_path, "keyframes")
    found = by_video(report)
    assert "undecodable_frames" not in found["flipped.mp4"]  # the damage lies between its key frames
    assert "size_changes" in found["res_change.ts"]
    assert 0 < report.summary["frames_decoded"] < report.summary["frames"] / 4


def test_a_run_goes_on_where_it_was_ended(made: Path, tmp_path: Path) -> None:
    whole = validated(made / "index", tmp_path / "whole", "keyframes")
    aside = tmp_path / "aside"
    validated(made / "index", aside, "keyframes")
    lines = (aside / "examined.jsonl").read_bytes().splitlines(keepends=True)
    marked = json.loads(lines[2])
    marked["findings"] = [{"check": "black", "message": "from the first run"}]
    kept = [*lines[:2], json.dumps(marked).encode() + b"\n", lines[3][:20]]  # torn in the middle of a line
    (aside / "examined.jsonl").write_bytes(b"".join(kept))
    again = validated(made / "index", aside, "keyframes")
    assert "from the first run" in [finding["message"] for finding in read_findings(again.findings)]
    assert again.summary["frames_decoded"] == whole.summary["frames_decoded"]
    other = validated(made / "index", aside, "sampled")  # another level: nothing of it is taken
    assert "from the first run" not in [finding["message"] for finding in read_findings(other.findings)]


def test_disabled_checks_run_not_and_severities_are_the_rules(made: Path, tmp_path: Path) -> None:
    rules = parse_rules('disable = ["vfr"]\n[severity]\ngaps = "error"\n[thresholds]\nlong_gop_frames = 5\n')
    report = validated(made / "index", tmp_path, rules=rules)
    found = by_video(report)["vfr_steps.mp4"]
    assert "vfr" not in found
    assert found["gaps"][0]["severity"] == "error"
    assert "long_gop" in by_video(report)["healthy.mp4"]


@pytest.mark.parametrize(
    "line",
    [
        "min_width = 4000", "max_height = 4", "min_fps = 100", "max_seconds = 0.1", "max_gop = 3", 'codecs = ["vp9"]',
        'pix_fmts = ["rgb24"]', "rotations = [90]",
    ],
)  # fmt: skip
def test_requirements_are_checked(made: Path, tmp_path: Path, line: str) -> None:
    report = validated(made / "index", tmp_path, rules=parse_rules(f"[require]\n{line}\n"))
    found = by_video(report)
    assert line.partition(" ")[0] in found["healthy.mp4"]["requirement"][0]["message"]
    assert report.summary["findings"]["error"] > 0


def test_a_policy_is_dry_run_and_a_shorter_gop_suggested(made: Path, tmp_path: Path) -> None:
    policy = parse_policy("random:frames=2,stride=1,pad=drop")
    report = validated(made / "index", tmp_path, policies=(policy,))
    (facts,) = report.summary["policies"]
    assert facts["clips"] == facts["yielded"] > 0
    assert facts["pictures_per_frame"] > 1
    costs = [row["pictures_per_frame"] for row in facts["gops"][1:]]
    assert costs == sorted(costs)
    assert facts["suggested_gop"] in {row["gop"] for row in facts["gops"][1:]}
    sizes = [row["size_ratio"] for row in facts["gops"][1:]]
    assert sizes == sorted(sizes, reverse=True)


def test_an_index_that_a_run_left_half_written_is_refused(tmp_path: Path, made: Path) -> None:
    (tmp_path / "index").mkdir()
    with pytest.raises(IndexFormatError, match="holds no"):
        validated(tmp_path / "index", tmp_path / "aside")
    part = next((made / "index").glob("*.parquet")).read_bytes()
    (tmp_path / "index" / "part-0.parquet").write_bytes(part[: len(part) // 2])
    with pytest.raises(IndexFormatError, match="part-0"):
        validated(tmp_path / "index", tmp_path / "aside")


def test_an_index_with_required_columns_alone_is_checked_as_far_as_it_goes(tmp_path: Path, made: Path) -> None:
    from pyarrow import parquet

    from vidprep.indexes.schema import COLUMNS

    table = parquet.read_table(next((made / "index").glob("*.parquet")))
    (tmp_path / "index").mkdir()
    required = [column.name for column in COLUMNS if column.required]
    for kept in (
        required,
        *(
            [name for name in table.column_names if name != gone]
            for gone in ("time_base", "frame_order", "jitter_seconds")
        ),
    ):
        parquet.write_table(table.select(kept), tmp_path / "index" / "part-0.parquet")
        assert validated(tmp_path / "index", tmp_path / "aside").summary["videos"] == table.num_rows


def test_parts_of_older_and_newer_columns_are_checked_together(tmp_path: Path, made: Path) -> None:
    from pyarrow import parquet

    table = parquet.read_table(next((made / "index").glob("*.parquet")))
    whole = validated(made / "index", tmp_path / "aside").summary["checks"]
    (tmp_path / "index").mkdir()
    parquet.write_table(table.slice(0, 4).drop(["uri_bytes", "etag"]), tmp_path / "index" / "part-0.parquet")
    parquet.write_table(table.slice(4), tmp_path / "index" / "part-1.parquet")
    assert validated(tmp_path / "index", tmp_path / "aside").summary["checks"] == whole


def test_an_index_of_a_newer_schema_is_refused(tmp_path: Path, made: Path) -> None:
    from pyarrow import parquet

    part = next((made / "index").glob("*.parquet"))
    table = parquet.read_table(part)
    (tmp_path / "index").mkdir()
    parquet.write_table(
        table.replace_schema_metadata({"vidprep.schema_version": "99"}), tmp_path / "index" / "part-0.parquet"
    )
    with pytest.raises(IndexFormatError, match="newer"):
        validated(tmp_path / "index", tmp_path / "aside")


#: Refused by design, whatever FFmpeg makes of them; and a header that claims bytes which the file has not.
REFUSED = {"encrypted", "no_video_stream", "unsupported_container", "truncated"}


def test_corpus_files_that_ffmpeg_decodes_cleanly_raise_no_error(corpus: Path, tmp_path: Path) -> None:
    facts = [json.loads(line) for line in (corpus / "manifest.jsonl").read_text().splitlines()]
    clean = {
        fact["name"]
        for fact in facts
        if fact["decode_errors"] == "no" and (fact["n_frames"] or 0) > 0 and "decoder-warnings" not in fact["tags"]
    }
    assert len(clean) > 80
    build_index([corpus / "files" / name for name in sorted(clean)], tmp_path / "index", workers=0)
    found = by_video(validated(tmp_path / "index", tmp_path / "aside", "keyframes"))
    errors = {
        (name, check)
        for name, checks in found.items()
        for check, findings in checks.items()
        if findings[0]["severity"] == "error"
    }
    assert {error for error in errors if error[1] not in REFUSED} == set()
    assert len(errors) <= 4


def test_the_page_of_checks_follows_the_code() -> None:
    assert checks_table() in (ROOT / "docs" / "validation.md").read_text("utf-8")


def test_the_default_rules_run_every_check() -> None:
    assert Rules().severities == {id_: check.severity for id_, check in CHECKS.items()}
