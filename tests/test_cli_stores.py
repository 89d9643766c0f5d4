"""Every command takes an index, and videos, that lie in an object store (moto's S3 server on loopback)."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from tests.object_store import BUCKET, ObjectStore, serving
from vidprep.cli import main
from vidprep.indexes import build_index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INDEX = f"s3://{BUCKET}/index"
VIDEO = f"s3://{BUCKET}/set/a.mp4"
MEMBER = f"s3://{BUCKET}/shards/x.tar"


@pytest.fixture(scope="module")
def stored(cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Two videos, a bad one and a tar in a bucket, and their index beside them; the same index on local disk."""
    with pytest.MonkeyPatch.context() as patch, serving(patch) as s3:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("XDG_CACHE_HOME", str(home))
        files = cases / "files"
        for name, case in {"a": "clip_window.mp4", "b": "clip_window.mp4", "bad": "moov_missing.mp4"}.items():
            s3.put_file(f"set/{name}.mp4", files / case)
        s3.put_file("shards/x.tar", files / "wds_dotted_keys.tar")
        build_index([f"s3://{BUCKET}/set"], INDEX, workers=0)
        build_index([f"s3://{BUCKET}/set"], home / "near", workers=0)
        yield s3


@pytest.fixture
def near(stored: ObjectStore) -> str:
    return os.path.join(os.environ["XDG_CACHE_HOME"], "near")


def vidprep(*words: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return result


def told(*words: str) -> Any:
    return json.loads(vidprep(*words).stdout)


def test_stats(near: str) -> None:
    assert told("stats", INDEX, "--json") == told("stats", near, "--json")
    assert "A" in vidprep("stats", INDEX, near).stdout


def test_inspect(near: str) -> None:
    for number in ("0", "2"):
        far = told("inspect", INDEX, "--video", number, "--json", "--frames")
        assert far == told("inspect", near, "--video", number, "--json", "--frames")
    facts = told("inspect", VIDEO, "--json", "--frames")
    assert (facts["status"], facts["path"], facts["frames"]["pts"][:1]) == ("ok", VIDEO, [0])
    assert told("inspect", f"s3://{BUCKET}/set/bad.mp4", "--json")["status"] == "error"
    assert told("inspect", f"s3://{BUCKET}/set/none.mp4", "--json")["error"]["reason"] == "not_found"
    assert "codec" in vidprep("inspect", VIDEO, "--explain").stdout


def test_inspect_of_a_member(near: str) -> None:
    from vidprep.sources.listing import list_items

    for item in list_items([MEMBER]):
        assert told("inspect", item.uri, "--json")["status"] == "ok"


def test_sample(near: str, tmp_path: Path) -> None:
    words = ("--policy", "random:frames=4,stride=2", "--seed", "3", "--json")
    assert told("sample", INDEX, *words) == told("sample", near, *words)
    assert told("sample", VIDEO, *words)[0]["video"] == VIDEO
    vidprep("sample", INDEX, "--policy", "uniform:frames=3", "--sheet", str(tmp_path / "sheet.png"))
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")


def test_decode(near: str, cases: Path, tmp_path: Path) -> None:
    for number, source in enumerate((VIDEO, str(cases / "files" / "clip_window.mp4"))):
        vidprep("decode", source, "--frames", "0,7,33", "--engine", "cpu", "-o", str(tmp_path / f"{number}.npy"))
    assert np.array_equal(np.load(tmp_path / "0.npy"), np.load(tmp_path / "1.npy"))
    none = f"s3://{BUCKET}/set/none.mp4"
    vidprep("decode", none, "--frames", "0", "-o", str(tmp_path / "none.npy"), exit_code=2)


@pytest.mark.parametrize("level", ["header", "keyframes"])
def test_validate(near: str, level: str, tmp_path: Path) -> None:
    reports = [
        told("validate", source, "--level", level, "--engine", "cpu", "--workers", "1", "--json")
        for source in (INDEX, near, f"s3://{BUCKET}/set")
    ]
    summaries = [
        {name: value for name, value in report["summary"].items() if name not in {"seconds", "decode_seconds"}}
        for report in reports
    ]
    assert summaries[0] == summaries[1]
    assert summaries[2]["checks"] == summaries[0]["checks"]
    assert (summaries[0]["videos"], summaries[0]["unreadable"]) == (3, 1)
    assert told("validate", VIDEO, "--json")["summary"]["videos"] == 1


def test_validate_sees_that_an_object_changed_or_went(stored: ObjectStore, near: str, cases: Path) -> None:
    stored.put_file("set/b.mp4", cases / "files" / "one_frame.mp4")
    stored.client.delete_object(Bucket=BUCKET, Key="set/a.mp4")
    try:
        checks = told("validate", INDEX, "--json")["summary"]["checks"]
        assert (checks["stale"], checks["vanished"]) == (1, 1)
    finally:
        for name in ("a", "b"):
            stored.put_file(f"set/{name}.mp4", cases / "files" / "clip_window.mp4")


def test_export(near: str, tmp_path: Path) -> None:
    for form in ("csv", "torchcodec", "dali-file-list"):
        vidprep("export", INDEX, "--format", form, "-o", str(tmp_path / "far"))
        vidprep("export", near, "--format", form, "-o", str(tmp_path / "near"))
        assert (tmp_path / "far").read_bytes() == (tmp_path / "near").read_bytes()
    out = str(tmp_path / "clips.parquet")
    vidprep("export", INDEX, "--format", "parquet", "--policy", "random:frames=4", "-o", out)
    assert parquet.read_table(out).num_rows == 2


def test_bench(near: str) -> None:
    words = ("--policy", "uniform:frames=2", "--engine", "cpu", "--seconds", "0.1", "--batch-size", "2", "--json")
    found = told("bench", INDEX, *words)
    assert found["reading"]["failures"] == 0
    assert found["engine"]["clips_per_second"] > 0


def test_merge_and_compact(near: str) -> None:
    vidprep("merge", INDEX, near, "-o", f"s3://{BUCKET}/merged")
    vidprep("compact", INDEX, "-o", f"s3://{BUCKET}/compact")
    for out in ("merged", "compact"):
        assert told("stats", f"s3://{BUCKET}/{out}", "--json")["videos"] == 3


@pytest.mark.parametrize(
    "words",
    [
        ("stats",),
        ("export", "--format", "csv", "-o", "OUT"),
        ("bench", "--policy", "uniform:frames=2"),
        ("compact", "-o", "OUT"),
        ("merge", "-o", "OUT"),
    ],
)
@pytest.mark.parametrize("place", [f"s3://{BUCKET}/none", f"s3://{BUCKET}/set", "s3://no-such-bucket/index"])
def test_what_is_no_index_is_wrong_usage(near: str, words: tuple[str, ...], place: str, tmp_path: Path) -> None:
    command, *options = [word.replace("OUT", str(tmp_path / "out")) for word in words]
    assert "no such index" in vidprep(command, place, *options, exit_code=2).stderr
