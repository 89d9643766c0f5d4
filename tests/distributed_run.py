"""What each process of test_distributed does; `python -m torch.distributed.run` starts it.

distributed_run.py VIDEOS MAX_FAILURES
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from clip_videos import NAMES
from torch import distributed

from vidprep.errors import TooManyFailuresError
from vidprep.loaders import ClipLoader
from vidprep.loaders.frames import as_video
from vidprep.samplers import RandomClip
from vidprep.samplers.plan import Plan


def main(folder: str, max_failures: str) -> None:
    distributed.init_process_group("gloo")
    videos = [as_video(Path(folder) / name) for name in NAMES]
    plan = Plan(videos, RandomClip(frames=2, pad="edge"), seed=7, clips_per_video=3)
    distributed.barrier()  # both have looked at the videos
    if distributed.get_rank() == 0:
        for name in NAMES[:3]:
            (Path(folder) / name).unlink()
    distributed.barrier()
    options = {"batch_size": 2, "size": (16, 16), "on_error": "skip"}
    with ClipLoader(plan, max_failures=int(max_failures), **options) as loader:
        told, batches = "", 0
        try:
            for batch in loader:
                assert type(batch.frames).__module__ == "torch"
                batches += 1
        except TooManyFailuresError as error:
            told = str(error)
        facts = {"rank": distributed.get_rank(), "batches": batches, "failures": len(loader.failures), "told": told}
        out = Path(folder) / f"rank{distributed.get_rank()}.json"
        out.write_text(json.dumps({**facts, "state": loader.state_dict()}))
    with ClipLoader(plan, rank=0, world_size=1, max_failures=100, **options) as alone:
        assert len(list(alone)) == 12  # not the group's number of ranks: no waiting for the others
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
