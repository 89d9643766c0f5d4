"""What a loader tells about its own speed."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.loaders.batches import LoadedClip

#: A consumer that waits for less than this share of the time is not held up by the loader.
WAITING_SHARE = 0.02


class Statistics:
    """Counters since the loader was made; threads add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clips = self._frames = self._pictures = self._bytes = 0
        self._seconds = {"read and decode": 0.0, "graph": 0.0, "wait": 0.0}
        self._started: float | None = None
        self._waiting = 0

    def start(self) -> None:
        """The clock runs from the first batch that is asked for; nothing is in flight."""
        with self._lock:
            self._waiting = 0
            self._started = self._started or time.perf_counter()

    def add_clips(self, clips: Sequence[LoadedClip]) -> None:
        """Count clips that were consumed."""
        with self._lock:
            self._clips += len(clips)
            self._frames += sum(len(clip.spec) for clip in clips if not clip.is_missing)
            self._pictures += sum(clip.num_pictures for clip in clips)
            self._bytes += sum(clip.num_bytes_read for clip in clips)

    def add_waiting(self, clips: int) -> None:
        """Add to the number of decoded clips that wait for their batch."""
        with self._lock:
            self._waiting += clips

    def add_seconds(self, stage: str, seconds: float) -> None:
        """Add to the time of a stage: "read and decode" (over all threads), "graph", "wait" (of the consumer)."""
        with self._lock:
            self._seconds[stage] += seconds

    def report(self, *, threads: int, batches_waiting: int, fallbacks: int, failures: int) -> dict[str, Any]:
        """Counts, rates, shares and the bottleneck in one sentence."""
        with self._lock:
            elapsed = max(time.perf_counter() - (self._started or time.perf_counter()), 1e-9)
            waited = min(self._seconds["wait"] / elapsed, 1.0)
            reading = min(self._seconds["read and decode"] / elapsed / threads, 1.0)
            graph = min(self._seconds["graph"] / elapsed, 1.0)
            return {
                "seconds": elapsed,
                "clips": self._clips,
                "frames": self._frames,
                "pictures": self._pictures,
                "bytes_read": self._bytes,
                "clips_per_second": self._clips / elapsed,
                "pictures_per_second": self._pictures / elapsed,
                "bytes_per_second": self._bytes / elapsed,
                "wait_share": waited,
                "reading_share": reading,
                "graph_share": graph,
                "batches_waiting": batches_waiting,
                "clips_waiting": self._waiting,
                "fallbacks": fallbacks,
                "failures": failures,
                "bottleneck": bottleneck(waited, reading, graph, threads),
            }


def bottleneck(waited: float, reading: float, graph: float, threads: int) -> str:
    """One sentence on what holds the run up, from shares of the elapsed time."""
    if waited < WAITING_SHARE:
        return f"The consumer: it waited {waited:.1%} of the time, the loader keeps up."
    if graph > reading:
        return f"The DALI graph, busy {graph:.0%} of the time: smaller frames or fewer augmentations would help."
    return f"Reading and decoding: {threads} threads were busy {reading:.0%} of the time."
