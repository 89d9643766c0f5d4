"""Iterate training batches of random clips from an index, on the CPU, through a DALI graph.

python examples/quickstart.py INDEX
"""

from __future__ import annotations

import sys
import time

from vidprep.indexes import open_index
from vidprep.loaders import ClipLoader
from vidprep.samplers import Plan, RandomClip


def main(path: str) -> None:
    """Print the shape, times and speed of every batch of one epoch."""
    index = open_index(path).where(status="ok")
    plan = Plan(index, RandomClip(frames=16, stride=2, pad="edge"), seed=7, clips_per_video=4)
    with ClipLoader(plan, batch_size=4, device="cpu", size=(112, 112), output="numpy") as loader:
        start = time.perf_counter()
        num_clips = 0
        for batch in loader:
            num_clips += int(batch.is_valid.sum())
            first, last = batch.pts_seconds[0, 0], batch.pts_seconds[0, -1]
            clip = f"{first:.3f}..{last:.3f} s of {batch.video[0]}"
            print(f"frames {batch.frames.shape} {batch.frames.dtype}   first clip: {clip}")
        seconds = time.perf_counter() - start
        stats = loader.stats()
        print(f"{num_clips} clips, {num_clips / seconds:.1f} clips/s, {stats['bytes_read'] / 1e6:.2f} MB read")
        for failure in loader.failures:
            print("failed:", failure)


if __name__ == "__main__":
    main(sys.argv[1])
