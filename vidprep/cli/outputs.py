"""Options that name a file to be written."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import click

__all__ = ["OutputFile"]


class OutputFile(click.Path):
    """A file to write. Outputs appear by a rename, which would put a file in the place of a device or a pipe."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse what exists and is no regular file, with exit code 2."""
        path = super().convert(value, param, ctx)
        try:
            mode = Path(os.fsdecode(path)).stat().st_mode
        except OSError:
            return path  # not there yet; what stands in the way will be said when it is written
        if not stat.S_ISREG(mode):
            self.fail(f"{path!r} is not a regular file", param, ctx)
        return path
