"""Batches from DALI to the array library of the user's choice, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OUTPUTS = ("torch", "numpy", "dlpack")


def converted(batch: Any, output: str) -> Any:
    """A DALI TensorList as one array, or a list of arrays where clips differ in shape.

    Call it in the thread that will use the result: on a GPU the array is bound to that thread's current stream.
    """
    if output == "numpy":
        batch = batch.as_cpu()
    convert = _CONVERTERS[output]
    if batch.is_dense_tensor():
        return convert(batch.as_tensor())
    return [convert(batch[i]) for i in range(len(batch))]


def to_device(clips: Sequence[Any], device: str) -> list[Any]:
    """The clips where the graph expects them: as they are on the CPU, CUDA tensors on a GPU."""
    if device == "cpu":
        return list(clips)
    import torch

    return [torch.from_numpy(clip).to(device) if isinstance(clip, np.ndarray) else clip for clip in clips]


def _to_torch(tensor: Any) -> Any:
    import torch

    return torch.from_dlpack(tensor)


def _as_is(tensor: Any) -> Any:
    return tensor


_CONVERTERS: dict[str, Callable[[Any], Any]] = {"torch": _to_torch, "numpy": np.asarray, "dlpack": _as_is}
