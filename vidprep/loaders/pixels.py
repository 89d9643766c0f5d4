"""Some pixels of pictures that lie on a GPU, without a copy to it or a wait for it each time; and how many it holds."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

#: Memory for clips that are decoded before their turn comes: of a GPU's, and in all on a CPU.
GPU_WAITING_SHARE = 1 / 12
CPU_WAITING_BYTES = 2 << 30


def pixels_at(pictures: Any, rows: tuple[int, ...], columns: tuple[int, ...]) -> Any:
    """Torch (F, len(rows), len(columns), C), on the current stream, of torch (F, H, W, C): one kernel."""
    device = str(pictures.device)
    return pictures[:, _places(rows, device)[:, None], _places(columns, device)]


def gpu_memory_bytes() -> int:
    """Memory of the first GPU, in use or not."""
    import torch

    return int(torch.cuda.get_device_properties(0).total_memory)


def waiting_bytes(device: str) -> int:
    """Memory that decoded clips may take which wait for their turn."""
    return CPU_WAITING_BYTES if device == "cpu" else int(gpu_memory_bytes() * GPU_WAITING_SHARE)


@lru_cache(maxsize=256)
def _places(places: tuple[int, ...], device: str) -> Any:
    """int64 on the device, there when it is given: other streams will read it, too."""
    import torch

    tensor = torch.tensor(places, device=device)
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
    return tensor
