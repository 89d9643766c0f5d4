"""Index the videos inside WebDataset tars and read clips of them, without unpacking.

python examples/webdataset_tars.py VIDEOS FOLDER      packs the videos into FOLDER/shard-0.tar first

Tars on S3 go the same way: `build_index(["s3://bucket/shards/"], ...)`; a clip then costs a few ranged reads, not a tar.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

from vidprep.indexes import build_index, open_index
from vidprep.loaders import ClipLoader
from vidprep.samplers import Plan, RandomClip


def main(videos: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / "shard-0.tar", "w") as tar:
        for number, path in enumerate(sorted(videos.iterdir())):
            tar.add(path, f"{number:06}{path.suffix}")
    build_index([str(folder / "shard-0.tar")], str(folder / "index"), workers=1)
    index = open_index(folder / "index")
    for row in index:
        print(row.status, row.uri)
    plan = Plan(index.where(status="ok"), RandomClip(frames=8, stride=2, pad="edge"), seed=7)
    with ClipLoader(plan, batch_size=2, size=(64, 64), output="numpy") as loader:
        for batch in loader:
            print(batch.frames.shape, batch.video.tolist())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
