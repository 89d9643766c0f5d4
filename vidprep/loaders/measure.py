"""How fast a plan's clips can be had on this machine: read only, decoded, and through the whole loader."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import VidprepError
from vidprep.loaders.clip_loader import ClipLoader
from vidprep.loaders.clip_source import CLIP_ERRORS, ClipSource
from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.engines.choose import choose_engine, default_threads
from vidprep.samplers.what_if import bytes_with_gop, cost_with_gop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The loader should be this much faster than the training step, so that no wait shows when a few clips are dear.
HEADROOM = 1.5


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
        planned = plan.clip(0, position)
        video = plan.videos[planned.video]
        with open_indexed(video) as source:
            cut = read_cut(video, source, planned.spec.unique_frames)
        return len(cut.frames), len(cut.packets), cut.num_bytes_read

    return _measured(plan, read, seconds, threads)


def measure_engine(plan: Any, *, engine: str, device: str, seconds: float, threads: int | None) -> Rate:
    """Cuts read and decoded by the engine alone, nothing batched."""
    chosen = choose_engine(engine, device)
    source = ClipSource(plan, chosen, "raise")

    def decode(position: int) -> tuple[int, int, int]:
        clip = source.load(0, position)
        return len(clip.spec.unique_frames), clip.num_pictures, clip.num_bytes_read

    try:
        return _measured(plan, decode, seconds, threads or default_threads(chosen))
    finally:
        chosen.close()


def measure_loader(plan: Any, *, seconds: float, **options: Any) -> Rate:
    """The whole ClipLoader, from the second batch on; its options are given through."""
    with ClipLoader(plan, **options) as loader:
        batches = _for_ever(loader)
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
        bottleneck=after["bottleneck"],
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


def _for_ever(loader: ClipLoader) -> Any:
    while True:
        yield from loader


def _measured(plan: Any, work: Callable[[int], tuple[int, int, int]], seconds: float, threads: int) -> Rate:
    """`work(position)` in threads until the time is over; positions in order, again from 0 after the last."""
    positions = count()
    end = time.perf_counter() + seconds

    def run(_: int) -> list[tuple[int, int, int] | None]:
        done: list[tuple[int, int, int] | None] = []
        while time.perf_counter() < end:
            try:
                done.append(work(next(positions) % len(plan)))
            except CLIP_ERRORS:
                done.append(None)
        return done

    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        done = [entry for entries in pool.map(run, range(threads)) for entry in entries]
    had = [entry for entry in done if entry is not None]
    return Rate(
        seconds=time.perf_counter() - began,
        clips=len(had),
        wanted_frames=sum(entry[0] for entry in had),
        pictures=sum(entry[1] for entry in had),
        bytes_read=sum(entry[2] for entry in had),
        failures=len(done) - len(had),
    )
