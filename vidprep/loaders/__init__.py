"""From specs to pixels: the cut, the decode engines, the DALI graph, the loader."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vidprep.loaders.batches import ClipBatch
    from vidprep.loaders.clip_loader import ClipLoader
    from vidprep.loaders.clips import Clip, iter_clips
    from vidprep.loaders.frames import read_frames

__all__ = ["Clip", "ClipBatch", "ClipLoader", "iter_clips", "read_frames"]

#: name → module that has it; imported when it is asked for, since each brings a decoder along
_HOMES = {
    "Clip": "vidprep.loaders.clips",
    "ClipBatch": "vidprep.loaders.batches",
    "ClipLoader": "vidprep.loaders.clip_loader",
    "iter_clips": "vidprep.loaders.clips",
    "read_frames": "vidprep.loaders.frames",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
