"""Clips of a captions table: rows (video, start_seconds, end_seconds, caption) are what an epoch visits.

python examples/captions.py INDEX
"""

from __future__ import annotations

import sys

import pyarrow as pa

from vidprep.indexes import open_index
from vidprep.loaders import ClipLoader
from vidprep.samplers import Plan, RandomClip


def main(path: str) -> None:
    index = open_index(path).where(status="ok")
    rows = [
        {"video": row.uri, "start_seconds": start, "end_seconds": start + 1.0, "caption": f"second {start:.0f}"}
        for row in index
        for start in (0.0, 1.0)
    ]
    plan = Plan(index, RandomClip(frames=8, stride=2, pad="edge"), seed=7, clips=pa.Table.from_pylist(rows))
    with ClipLoader(plan, batch_size=2, size=(64, 64), output="numpy") as loader:
        for batch in loader:
            for times, labels in zip(batch.pts_seconds, batch.labels, strict=True):
                print(f"{times[0]:.2f}..{times[-1]:.2f} s: {labels['caption']}")


if __name__ == "__main__":
    main(sys.argv[1])
