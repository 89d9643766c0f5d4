"""Train a small video classifier on one GPU, or at toy size on the CPU, with a checkpoint that resumes in mid-epoch.

python examples/train.py INDEX [--device cuda:0] [--checkpoint FILE] [--epochs 1]

The label is the number of the video modulo 4, for want of a better one; a real run takes it from `batch.labels`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

from vidprep.indexes import open_index
from vidprep.loaders import ClipLoader
from vidprep.samplers import Plan, RandomClip

NUM_CLASSES = 4


def augmented(clips):
    """Flip half of the clips, then scale to about -1..1; `clips` is a DALI DataNode of uint8 FHWC."""
    from nvidia.dali import fn

    clips = fn.flip(clips, horizontal=fn.random.coin_flip(probability=0.5, seed=1))
    return (clips - 128.0) / 64.0


def classifier() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv3d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(32, NUM_CLASSES),
    )  # fmt: skip


def loss_of(model: nn.Module, batch, device: str) -> torch.Tensor:
    """The mean over the clips that count: not those that could not be had, or only fill up the last batch."""
    valid = torch.from_numpy(batch.is_valid).to(device)
    label = torch.from_numpy(batch.video % NUM_CLASSES).to(device)
    each = nn.functional.cross_entropy(model(batch.frames), label, reduction="none")
    return (each * valid).sum() / valid.sum().clamp(min=1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("index")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--epochs", type=int, default=1)
    told = parser.parse_args()
    torch.manual_seed(1)
    plan = Plan(open_index(told.index).where(status="ok"), RandomClip(frames=8, stride=2, pad="edge"), seed=7)
    model = classifier().to(told.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    options = {"batch_size": 2, "size": (64, 64), "layout": "CFHW", "dtype": "float32", "transform": augmented}
    with ClipLoader(plan, device=told.device, **options) as loader:
        if told.checkpoint and told.checkpoint.exists():
            saved = torch.load(told.checkpoint)
            model.load_state_dict(saved["model"])
            loader.load_state_dict(saved["data"])
        for epoch in range(told.epochs):
            for batch in loader:
                loss = loss_of(model, batch, told.device)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if told.checkpoint:
                    torch.save({"model": model.state_dict(), "data": loader.state_dict()}, told.checkpoint)
                print(f"epoch {epoch} clips {batch.clip.tolist()} loss {loss.item():.4f}")
        print(loader.stats()["bottleneck"])


if __name__ == "__main__":
    main()
