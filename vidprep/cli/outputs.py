"""Options that name what is to be written, and the exit code of a command that was stopped."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import click

__all__ = ["INTERRUPTED", "OutputFile", "OutputOption"]

#: What a shell takes for the exit code of a command that SIGINT ended.
INTERRUPTED = 130

#: What some commands once called it.
OLD_NAME = "--out"


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


class OutputOption(click.Option):
    """`-o`, `--output`; the older `--out` is taken too, and not shown."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Register the names, the old one last."""
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=[OLD_NAME], dest=self.name, action="store", nargs=1)
