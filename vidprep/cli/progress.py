"""Progress on stderr: a bar where a person looks, a plain line now and then where a log does."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, Self

import click

if TYPE_CHECKING:
    from types import TracebackType

_LINE_SECONDS = 5.0


class Progress:
    """Shows a growing count, and a total where it is known."""

    def __init__(self, what: str, unit: str, total: int | None = None) -> None:
        self._what, self._unit, self._total = what, unit, total
        self._begun = self._last_line = time.monotonic()
        self._bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            columns, rows = shutil.get_terminal_size()  # not 0 by 0, as some terminals say and tqdm then shows nothing
            self._bar = tqdm(
                total=total,
                desc=what,
                unit=f" {unit}",
                file=sys.stderr,
                delay=0.5,
                leave=False,
                ncols=columns,
                nrows=rows,
            )

    def show(self, count: int) -> None:
        """Say how far it is."""
        if self._bar is not None:
            self._bar.update(count - self._bar.n)
            return
        now = time.monotonic()
        if now - self._last_line >= _LINE_SECONDS:
            self._last_line = now
            of = "" if self._total is None else f" of {self._total}"
            rate = count / (now - self._begun)
            left = f", {(self._total - count) / rate:.0f} s left" if self._total and rate else ""
            click.echo(f"{self._what}: {count}{of} {self._unit}, {rate:.0f}/s{left}", err=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
