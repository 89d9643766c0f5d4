"""Options that are a time in seconds."""

from __future__ import annotations

import math
from typing import Any

import click

__all__ = ["SecondsRange"]

#: A year: within what a timer of the system takes.
MAX_SECONDS = 366 * 86400


class SecondsRange(click.FloatRange):
    """A number of seconds. Neither NaN, which click's own range lets through, nor more than a year."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse what no clock can wait for, with exit code 2."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds) or seconds > MAX_SECONDS:
            self.fail(f"{value} is no number of seconds up to {MAX_SECONDS}.", param, ctx)
        return seconds
