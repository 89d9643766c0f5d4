"""The same training on several ranks: rank and world size come from torch.distributed.

torchrun --nproc-per-node 2 examples/train_ddp.py INDEX            gloo on the CPU, nccl where there are GPUs

Every rank gets as many batches, so that no all-reduce waits for ever; the state is the same on all ranks, and fits
another number of them.
"""

from __future__ import annotations

import os
import sys

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from train import augmented, classifier, loss_of

from vidprep.indexes import open_index
from vidprep.loaders import ClipLoader
from vidprep.samplers import Plan, RandomClip


def main(path: str) -> None:
    on_gpu = torch.cuda.is_available()
    device = f"cuda:{os.environ['LOCAL_RANK']}" if on_gpu else "cpu"
    if on_gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(1)
    plan = Plan(open_index(path).where(status="ok"), RandomClip(frames=8, stride=2, pad="edge"), seed=7)
    model = DistributedDataParallel(classifier().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    options = {"batch_size": 1, "size": (64, 64), "layout": "CFHW", "dtype": "float32", "transform": augmented}
    with ClipLoader(plan, device=device, max_failures=10, **options) as loader:
        for batch in loader:
            loss = loss_of(model, batch, device)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"rank {distributed.get_rank()} clips {batch.clip.tolist()} loss {loss.item():.4f}", flush=True)
        print(f"rank {distributed.get_rank()} state {loader.state_dict()}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
