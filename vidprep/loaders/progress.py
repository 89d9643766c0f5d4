"""A line on stderr that says how far an epoch is, how fast, and whether the consumer waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Seconds between two looks at the statistics.
INTERVAL_SECONDS = 1.0


class ProgressBar:
    """Counts batches; does nothing unless it is shown.

    Args:
        name: what stands before it.
        total: batches.
        stats: gives "clips_per_second" and "wait_share".
        is_shown: whether there is a line at all.
    """

    def __init__(self, name: str, total: int, stats: Callable[[], Mapping[str, Any]], *, is_shown: bool) -> None:
        self._stats = stats
        self._bar: Any = None
        if is_shown:
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc=name, unit=" batches", mininterval=INTERVAL_SECONDS, dynamic_ncols=True)

    def step(self) -> None:
        """One more batch."""
        if self._bar is not None and self._bar.update():
            stats = self._stats()
            waited = f"{stats['wait_share']:.0%}"
            self._bar.set_postfix(clips_s=f"{stats['clips_per_second']:.1f}", waited=waited, refresh=False)

    def close(self) -> None:
        """The line stays as it was last."""
        if self._bar is not None:
            self._bar.close()
