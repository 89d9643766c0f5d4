"""Indexes as arguments."""

from __future__ import annotations

from pathlib import Path

import click

from vidprep.errors import VidprepError


def check_index(path: str) -> None:
    """Exit 2 if an index is missing."""
    from vidprep.sources.open import is_remote

    if not (holds_index(path) if is_remote(path) else Path(path).exists()):
        raise click.UsageError(f"no such index: {path}")


def holds_index(path: str) -> bool:
    """Whether it is an index, or one part of one, rather than a video: any folder, but in a store one of parts."""
    from vidprep.sources.open import is_remote

    if is_remote(path):
        return _is_far_index(path)
    return Path(path).is_dir() or (path.endswith(".parquet") and Path(path).is_file())


def _is_far_index(uri: str) -> bool:
    from vidprep.indexes.mirror import holds_parts

    try:
        return holds_parts(uri)
    except VidprepError as error:
        raise click.ClickException(str(error)) from error
