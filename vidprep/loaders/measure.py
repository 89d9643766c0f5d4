"""How fast a plan's clips can be had on this machine: read only, decoded, and through the whole loader."""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import SamplingError, VidprepError
from vidprep.loaders.clip_loader import ClipLoader
from vidprep.loaders.clip_source import CLIP_ERRORS, ClipSource
from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.engines.choose import choose_engine, default_threads
from vidprep.loaders.statistics import bottleneck_between
from vidprep.samplers.what_if import bytes_with_gop, cost_with_gop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from vidprep.loaders.batches import ClipBatch
    from vidprep.loaders.cut import Cut
    from vidprep.loaders.engines import Engine

#: The loader should be this much faster than the training step, so that no wait shows when a few clips are dear.
HEADROOM = 1.5

#: Cuts that are kept in memory where decoding alone is measured.
KEPT_CUTS = 256
POLL_SECONDS = 0.005


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What one stage did."""

    seconds: float
    clips: int
    wanted_frames: int
    """distinct frames of those clips"""
    pictures: int
    """coded pictures that were read, and decoded if the stage decodes"""
    bytes_read: int
    failures: int
    bottleneck: str = ""

    def per_second(self) -> dict[str, float]:
        """Rates by name."""
        return {name: getattr(self, name) / self.seconds for name in ("clips", "pictures", "bytes_read")}

    def to_dict(self) -> dict[str, Any]:
        """Counts and rates as JSON values."""
        rates = {f"{name}_per_second": value for name, value in self.per_second().items()}
        return {**asdict(self), **rates, "pictures_per_wanted_frame": self.pictures / max(self.wanted_frames, 1)}


@dataclass(frozen=True, kw_only=True)
class GopEstimate:
    """What re-encoding with another GOP length would change; estimates from the tables, nothing is encoded."""

    gop: int
    pictures_per_wanted_frame: float
    bytes_ratio: float | None
    """size of the videos, over today's; None where the tables do not tell"""


def measure_reading(plan: Any, *, seconds: float, threads: int) -> Rate:
    """Cuts planned and read, nothing decoded."""

    def read(position: int) -> tuple[int, int, int]:
        cut = _cut(plan, position)
        return len(cut.frames), len(cut.packets), cut.num_bytes_read

    return _measured(plan, read, seconds, threads)


def measure_decoding(plan: Any, *, engine: str | Engine, device: str, seconds: float, threads: int | None) -> Rate:
    """The engine alone, over cuts that were read before: the plan's first KEPT_CUTS, again and again."""
    chosen = choose_engine(engine, device)
    num_threads = threads or default_threads(chosen)

    def decode(position: int) -> tuple[int, int, int]:
        cut = cuts[position % len(cuts)]
        chosen.decode(cut)
        return len(cut.frames), len(cut.packets), cut.num_bytes_read

    try:
        with ThreadPoolExecutor(num_threads) as pool:
            found = list(pool.map(partial(_cut_or_none, plan), range(min(len(plan), KEPT_CUTS))))
        cuts = [cut for cut in found if cut is not None]
        if not cuts:
            raise SamplingError(f"none of the first {len(found)} clips can be read")
        return _measured(plan, decode, seconds, num_threads)
    finally:
        if isinstance(engine, str):
            chosen.close()


def measure_engine(plan: Any, *, engine: str | Engine, device: str, seconds: float, threads: int | None) -> Rate:
    """Cuts read and decoded by the engine alone, nothing batched."""
    chosen = choose_engine(engine, device)
    source = ClipSource(plan, chosen, "raise")

    def decode(position: int) -> tuple[int, int, int]:
        clip = source.load(0, position)
        return len(clip.spec.unique_frames), clip.num_pictures, clip.num_bytes_read

    try:
        return _measured(plan, decode, seconds, threads or default_threads(chosen))
    finally:
        if isinstance(engine, str):
            chosen.close()


def measure_loader(plan: Any, *, seconds: float, **options: Any) -> Rate:
    """The whole ClipLoader, once each of its threads has done a clip; its options are given through."""
    with ClipLoader(plan, **options) as loader:
        batches = _for_ever(loader)
        next(batches)
        while loader.stats()["clips"] < loader.stats()["threads"]:
            next(batches)
        before, began = loader.stats(), time.perf_counter()
        wanted = 0
        while time.perf_counter() - began < seconds:
            batch = next(batches)
            wanted += sum(len(np.unique(row[row >= 0])) for row in batch.frame_index)
        after, elapsed = loader.stats(), time.perf_counter() - began
    return Rate(
        seconds=elapsed,
        wanted_frames=wanted,
        bottleneck=bottleneck_between(before, after),
        **{name: after[name] - before[name] for name in ("clips", "pictures", "bytes_read", "failures")},
    )


def estimate_gops(plan: Any, gops: Sequence[int], *, clips: int) -> list[GopEstimate]:
    """Estimates for GOP lengths, from the first clips of epoch 0."""
    planned = [clip for clip in (_clip_or_none(plan, n) for n in range(min(clips, len(plan)))) if clip is not None]
    wanted = sum(len(clip.spec.unique_frames) for clip in planned)
    return [_estimate(plan, planned, gop, wanted) for gop in gops]


def _estimate(plan: Any, planned: list[Any], gop: int, wanted: int) -> GopEstimate:
    pictures, now, then = 0, 0.0, 0.0
    for clip in planned:
        video = plan.videos[clip.video]
        pictures += cost_with_gop(
            video.timeline, clip.spec.unique_frames, gop, video.info.reorder_depth if gop > 1 else 0
        )
        size = bytes_with_gop(video.table, gop)
        if size is not None:
            now, then = now + float(video.table.size.sum()), then + size
    return GopEstimate(
        gop=gop, pictures_per_wanted_frame=pictures / max(wanted, 1), bytes_ratio=then / now if now else None
    )  # fmt: skip


def _clip_or_none(plan: Any, position: int) -> Any:
    try:
        return plan.clip(0, position)
    except VidprepError:
        return None


def _cut(plan: Any, position: int) -> Cut:
    planned = plan.clip(0, position)
    with open_indexed(planned.media) as source:
        return read_cut(planned.media, source, planned.spec.unique_frames)


def _cut_or_none(plan: Any, position: int) -> Cut | None:
    try:
        return _cut(plan, position)
    except CLIP_ERRORS:
        return None


def _for_ever(loader: ClipLoader) -> Iterator[ClipBatch]:
    while True:
        yield from loader


def _measured(plan: Any, work: Callable[[int], tuple[int, int, int]], seconds: float, threads: int) -> Rate:
    """`work(position)` in threads; positions in order, again from 0 after the last.

    What ends in a window of time that begins once each thread has done a clip on average: decoders exist by then, and
    clips that are in work at its beginning make up for those at its end.
    """
    positions, stop = count(), threading.Event()
    ends: list[tuple[float, tuple[int, int, int] | None]] = []

    def run() -> None:
        while not stop.is_set():
            entry = None
            with suppress(*CLIP_ERRORS):
                entry = work(next(positions) % len(plan))
            ends.append((time.perf_counter(), entry))

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(run) for _ in range(threads)]
        try:
            _wait_for(ends, running, threads)
            began, warm = time.perf_counter(), len(ends)
            wait(running, timeout=seconds, return_when=FIRST_EXCEPTION)
            _wait_for(ends, running, warm + 1)
            elapsed = time.perf_counter() - began
        finally:
            stop.set()
    for thread in running:
        thread.result()
    done = [entry for end, entry in ends if began < end <= began + elapsed]
    had = [entry for entry in done if entry is not None]
    return Rate(
        seconds=elapsed,
        clips=len(had),
        wanted_frames=sum(entry[0] for entry in had),
        pictures=sum(entry[1] for entry in had),
        bytes_read=sum(entry[2] for entry in had),
        failures=len(done) - len(had),
    )


def _wait_for(ends: list[Any], running: list[Future[None]], number: int) -> None:
    """Until that many clips have been done, or a thread has died."""
    while len(ends) < number and not any(thread.done() for thread in running):
        time.sleep(POLL_SECONDS)
