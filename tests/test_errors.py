"""The exception tree: classes, reasons, pickling, messages."""

from __future__ import annotations

import inspect
import pickle

import pytest

from vidprep import errors
from vidprep.errors import DecodeError, MediaError, Reason, SourceError, TruncatedContainerError, VidprepError

PUBLIC = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, VidprepError)]


def test_reasons_are_the_closed_set_that_failures_are_counted_by() -> None:
    assert {str(reason) for reason in Reason} == {
        "not_found", "unreadable", "empty", "not_media", "no_video_stream", "no_frames", "truncated", "corrupt_table",
        "unsupported_container", "unsupported_codec", "encrypted", "external_data", "timeout", "out_of_memory",
        "worker_died", "vanished", "stale",
    }  # fmt: skip


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_every_class_stands_in_the_drawn_tree(cls: type) -> None:
    assert errors.__doc__ is not None
    assert cls.__name__ in errors.__doc__


def test_a_media_error_says_file_reason_message_and_offset() -> None:
    error = TruncatedContainerError("moov needs 80 bytes, 12 are left", offset=36).with_uri("a.mp4")
    assert str(error) == "a.mp4: truncated: moov needs 80 bytes, 12 are left (at byte 36)"


def test_with_uri_keeps_the_name_that_is_there() -> None:
    assert SourceError("x", uri="inner").with_uri("outer").uri == "inner"


@pytest.mark.parametrize(
    "error",
    [
        SourceError("gone", reason=Reason.VANISHED, uri="a", offset=3),
        TruncatedContainerError("short", offset=7),
        DecodeError("missing", uri="b", frame_index=4),
    ],
)
def test_errors_survive_the_way_through_a_worker_process(error: VidprepError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_classes_are_also_the_builtin_that_fits() -> None:
    assert issubclass(SourceError, OSError)
    assert issubclass(TruncatedContainerError, ValueError)
    assert issubclass(DecodeError, RuntimeError)
    assert issubclass(MediaError, VidprepError)
