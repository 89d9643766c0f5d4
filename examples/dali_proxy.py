"""torch's DataLoader reads cuts in its worker processes, a DALI Proxy server in this process decodes them.

python examples/dali_proxy.py INDEX [cuda:0]

On the CPU DALI decodes VP8, VP9 and Motion JPEG only, so that the other videos are left out there.
"""

from __future__ import annotations

import sys

from vidprep.indexes import open_index
from vidprep.loaders.proxy import ClipDataset, PlanBatches, clip_pipeline, import_proxy
from vidprep.samplers import Plan, RandomClip


def main(path: str, device: str = "cpu") -> None:
    dali = import_proxy()
    index = open_index(path).where(status="ok")
    if device == "cpu":
        index = index.where(codec=["vp8", "vp9", "mjpeg"])
    plan = Plan(index, RandomClip(frames=8, stride=2, pad="edge"), seed=7, clips_per_video=4)
    with dali.DALIServer(clip_pipeline(batch_size=2, device=device, size=(64, 64))) as server:
        data = ClipDataset(plan, server.proxy, device=device)
        for batch in dali.DataLoader(server, data, batch_sampler=PlanBatches(plan, batch_size=2), num_workers=2):
            print(batch["clip"].tolist(), tuple(batch["frames"].shape), batch["pts_seconds"][:, 0].tolist())


if __name__ == "__main__":
    main(*sys.argv[1:])
