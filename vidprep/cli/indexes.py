"""Indexes as arguments."""

from __future__ import annotations

from pathlib import Path

import click


def check_index(path: str) -> None:
    """Exit 2 if a local index is missing; one in an object store is looked up when it is opened."""
    from vidprep.sources.open import is_remote

    if not is_remote(path) and not Path(path).exists():
        raise click.UsageError(f"no such index: {path}")
