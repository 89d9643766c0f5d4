"""The ledger of failures as Parquet, and indexes without the videos that it names."""

from __future__ import annotations

import os
import pickle

import pytest
from made_index import write_made_index
from pyarrow import parquet

from vidprep.errors import IndexFormatError
from vidprep.indexes import open_index
from vidprep.indexes.failed import read_failed, write_failures
from vidprep.loaders.failures import Failure, FailureLedger


def ledger(*uris, reason="decode"):
    out = FailureLedger(None)
    out.add(
        Failure(uri=uri, video=0, epoch=0, position=5, error_class="DecodeError", reason=reason, message="no")
        for uri in uris
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return open_index(write_made_index(tmp_path_factory.mktemp("made") / "index", 200))


def test_what_was_written_is_read_and_any_parquet_reader_sees_the_columns(tmp_path):
    assert write_failures(ledger("/a.mp4", "/b.mp4").rows(), tmp_path / "failed.parquet") == 2
    assert read_failed(tmp_path / "failed.parquet") == {"/a.mp4", "/b.mp4"}
    table = parquet.read_table(tmp_path / "failed.parquet")
    assert table["position"].to_pylist() == [5, 5]
    assert os.listdir(tmp_path) == ["failed.parquet"]


def test_names_that_are_not_utf8_survive(tmp_path):
    name = os.fsdecode(b"/data/\xff\xfe.mp4")
    write_failures(ledger(name).rows(), tmp_path / "failed.parquet")
    assert read_failed(tmp_path / "failed.parquet") == {name}


def test_clips_that_a_policy_refused_do_not_condemn_the_video(tmp_path):
    write_failures(ledger("/a.mp4", reason="sampling").rows(), tmp_path / "failed.parquet")
    assert read_failed(tmp_path / "failed.parquet") == frozenset()


def test_no_failures_are_a_file_too(tmp_path):
    assert write_failures([], tmp_path / "failed.parquet") == 0
    assert read_failed(tmp_path / "failed.parquet") == frozenset()


def test_a_folder_holds_the_ledgers_of_all_ranks(tmp_path):
    for rank in range(3):
        write_failures(ledger(f"/{rank}.mp4").rows(), tmp_path / f"rank{rank}.parquet")
    assert read_failed(tmp_path) == {"/0.mp4", "/1.mp4", "/2.mp4"}


@pytest.mark.parametrize("content", [b"", b"no parquet at all"])
def test_what_is_no_ledger_is_refused(tmp_path, content):
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(IndexFormatError, match="no ledger"):
        read_failed(tmp_path / "x.parquet")
    with pytest.raises(IndexFormatError):
        read_failed(tmp_path / "absent.parquet")


def test_an_index_without_failures_lacks_just_those_videos(index, tmp_path):
    bad = [index[3].uri, index[199].uri]
    write_failures(ledger(*bad).rows(), tmp_path / "failed.parquet")
    left = index.without(tmp_path / "failed.parquet")
    assert len(left) == 198
    assert {row.uri for row in index} - {row.uri for row in left} == set(bad)
    assert len(index.where(status="ok").without(bad)) == len(index.where(status="ok")) - 1  # the 200th is an error row


def test_the_fingerprint_tells_who_is_left_out_and_pickling_keeps_it(index):
    one, other = index.without([index[3].uri]), index.without([index[4].uri])
    assert len({index.fingerprint, one.fingerprint, other.fingerprint}) == 3
    again = pickle.loads(pickle.dumps(one.where(status="ok")))
    assert again.fingerprint == one.where(status="ok").fingerprint
    assert [row.uri for row in again] == [row.uri for row in one.where(status="ok")]


def test_long_lists_in_a_filter_that_differ_in_the_middle_give_other_fingerprints(index):
    names = [row.uri for row in index]
    one = index.where(uri=names[:50])
    other = index.where(uri=[*names[:25], names[60], *names[26:50]])
    assert one.fingerprint != other.fingerprint
    assert one.fingerprint == index.where(uri=names[:50]).fingerprint
