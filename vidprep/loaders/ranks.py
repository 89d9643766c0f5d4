"""What torch.distributed knows, where it runs; one process otherwise."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

from vidprep.errors import ArgumentError
from vidprep.loaders import arguments


def resolve(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """(rank, world_size), from torch.distributed where both are None and it is initialised."""
    if (rank is None) != (world_size is None):
        raise ArgumentError("rank and world_size go together: give both or none")
    if rank is not None and world_size is not None:
        world_size = arguments.integer("world_size", world_size, 1)
        return arguments.integer("rank", rank, 0, world_size - 1), world_size
    distributed = _initialised()
    return (distributed.get_rank(), distributed.get_world_size()) if distributed else (0, 1)


def total(count: int, world_size: int, device: str) -> int:
    """The sum of a count over all ranks; must be called by all of them, each with a device of its own.

    The count itself where torch.distributed does not run, or has another number of ranks than the loader: then not all
    of its processes take part, and waiting for them would be for ever.
    """
    distributed = _initialised()
    if distributed is None or distributed.get_world_size() != world_size:
        return count
    counts: list[int] = [0] * distributed.get_world_size()
    with _current(device):  # NCCL sends from the current device, which may be the same on all ranks by default
        distributed.all_gather_object(counts, count)
    return sum(counts)


def _current(device: str) -> Any:
    if device == "cpu":
        return nullcontext()
    import torch

    return torch.cuda.device(device)


def _initialised() -> Any:
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed and distributed.is_available() and distributed.is_initialized() else None
