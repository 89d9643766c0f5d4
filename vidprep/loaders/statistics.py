"""What a loader tells about its own speed."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vidprep.loaders.batches import LoadedClip

#: A consumer that waits for less than this share of the time is not held up by the loader.
WAITING_SHARE = 0.02


class Statistics:
    """Counters since the loader was made; threads add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clips = self._frames = self._pictures = self._bytes = 0
        self._seconds = {"reading": 0.0, "decoding": 0.0, "graph": 0.0, "wait": 0.0}
        self._started: float | None = None

    def start(self) -> None:
        """The clock runs from the first epoch that is begun."""
        with self._lock:
            self._started = self._started or time.perf_counter()

    def add_clips(self, clips: Sequence[LoadedClip]) -> None:
        """Count clips that were consumed."""
        with self._lock:
            self._clips += len(clips)
            self._frames += sum(len(clip.spec) for clip in clips if not clip.is_missing)
            self._pictures += sum(clip.num_pictures for clip in clips)
            self._bytes += sum(clip.num_bytes_read for clip in clips)
            self._seconds["reading"] += sum(clip.read_seconds for clip in clips)
            self._seconds["decoding"] += sum(clip.decode_seconds for clip in clips)

    def add_seconds(self, stage: str, seconds: float) -> None:
        """Add to the time of a stage: "graph", or "wait" (of the consumer)."""
        with self._lock:
            self._seconds[stage] += seconds

    def report(
        self, *, threads: int, readers: int, batches_waiting: int, clips_waiting: int, fallbacks: int, failures: int
    ) -> dict[str, Any]:
        """Counts, rates, shares and the bottleneck in one sentence.

        Args:
            threads: that decode.
            readers: that read: the same, or those that fetch ahead.
            batches_waiting: finished.
            clips_waiting: decoded.
            fallbacks: of the engine.
            failures: so far.
        """
        with self._lock:
            elapsed = max(time.perf_counter() - (self._started or time.perf_counter()), 1e-9)
            reading, decoding, graph, waited = (
                min(self._seconds[stage] / elapsed / workers, 1.0)
                for stage, workers in (("reading", readers), ("decoding", threads), ("graph", 1), ("wait", 1))
            )
            return {
                "threads": threads,
                "readers": readers,
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
                "decoding_share": decoding,
                "graph_share": graph,
                "batches_waiting": batches_waiting,
                "clips_waiting": clips_waiting,
                "fallbacks": fallbacks,
                "failures": failures,
                "bottleneck": bottleneck(waited, reading, decoding, graph, threads, readers),
            }


def bottleneck_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The sentence for the time between two reports."""
    elapsed = max(after["seconds"] - before["seconds"], 1e-9)
    waited, reading, decoding, graph = (
        (after[share] * after["seconds"] - before[share] * before["seconds"]) / elapsed
        for share in ("wait_share", "reading_share", "decoding_share", "graph_share")
    )
    return bottleneck(waited, reading, decoding, graph, after["threads"], after["readers"])


def bottleneck(waited: float, reading: float, decoding: float, graph: float, threads: int, readers: int) -> str:
    """One sentence on what holds the run up, from shares of the elapsed time (reading and decoding: of their threads')."""
    if waited < WAITING_SHARE:
        return f"The consumer: it waited {waited:.1%} of the time, the loader keeps up."
    if graph > reading + decoding:
        return f"The DALI graph, busy {graph:.0%} of the time: smaller frames or fewer augmentations would help."
    if reading > decoding:
        return f"Reading: {readers} threads spent {reading:.0%} of their time on it: more threads or quicker storage would help."
    return (
        f"Decoding: {threads} threads spent {decoding:.0%} of their time on it, a wait for free decoders included, and "
        f"{reading:.0%} on reading: shorter GOPs or smaller pictures would help."
    )
