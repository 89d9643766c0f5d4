"""Batches: what a loader yields, and how clips, decoded or not, become one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from vidprep.loaders.failures import Failure
    from vidprep.timebase import FloatArray, IntArray

    BoolArray = npt.NDArray[np.bool_]

#: Height and width that stand in for a clip without pixels where nothing else says what they should be.
EMPTY_SIDE = 16


@dataclass(frozen=True, kw_only=True)
class ClipBatch:
    """N clips of F places each. All metadata is numpy on the CPU."""

    frames: Any
    """(N, F, H, W, C) in the loader's layout and dtype: torch, numpy, or an object with __dlpack__;
    a list of N such where clips differ in size"""
    pts_seconds: FloatArray
    """float64 (N, F), nan where constant padding"""
    frame_index: IntArray
    """int64 (N, F), -1 where constant padding"""
    is_padding: BoolArray
    """bool (N, F)"""
    is_valid: BoolArray
    """bool (N,): False = the clip could not be had (`on_error="skip"`), or fills up the last batch (`pad_last`)"""
    video: IntArray
    """int64 (N,): which of the plan's videos"""
    labels: tuple[Mapping[str, Any], ...]
    """one mapping for each clip: the columns of its row in the clips table"""
    clip: IntArray
    """int64 (N,): position of each clip in the epoch"""

    def __len__(self) -> int:
        return len(self.clip)

    def to(self, device: Any, *, non_blocking: bool = False) -> ClipBatch:
        """The batch with its frames, torch tensors, on a device. Lightning and Accelerate look for this method."""
        if isinstance(self.frames, list):
            moved = [frames.to(device, non_blocking=non_blocking) for frames in self.frames]
        else:
            moved = self.frames.to(device, non_blocking=non_blocking)
        return replace(self, frames=moved)


@dataclass(frozen=True, kw_only=True)
class LoadedClip:
    """One place of an epoch after reading and decoding."""

    position: int
    video: int
    frames: Any
    """uint8 or uint16 (F, H, W, 3), or None where there is no clip"""
    spec: Any
    """DecodeSpec of `frames`; where there is no clip, that of the clip that could not be had, or None"""
    labels: Mapping[str, Any]
    num_bytes_read: int = 0
    num_pictures: int = 0
    """coded pictures decoded, wanted or not"""
    read_seconds: float = 0.0
    """planning, reading and cutting"""
    decode_seconds: float = 0.0
    """decoding, waiting for a decoder included"""
    failures: tuple[Failure, ...] = ()
    is_filler: bool = False
    """fills up the last batch"""
    is_missing: bool = False
    """could not be had"""

    def as_filler(self) -> LoadedClip:
        """The clip, marked as one that only fills up a batch; its failures belong to its own place."""
        return replace(self, is_filler=True, failures=())

    def without_pixels(self) -> LoadedClip:
        """The clip without its frames, which the graph has taken over."""
        return replace(self, frames=None)


def assemble(clips: Sequence[LoadedClip], frames: Any) -> ClipBatch:
    """A batch of clips whose pixels have become `frames`. Clips shorter than the longest are padded in the metadata."""
    places = max((len(clip.spec) for clip in clips if clip.spec is not None), default=0)
    shape = (len(clips), places)
    pts, index = np.full(shape, np.nan), np.full(shape, -1, np.int64)
    padding = np.ones(shape, bool)
    for row, clip in enumerate(clips):
        if not clip.is_missing:
            n = len(clip.spec)
            pts[row, :n], index[row, :n] = clip.spec.pts_seconds, clip.spec.frame_index
            padding[row, :n] = clip.spec.is_padding
    return ClipBatch(
        frames=frames,
        pts_seconds=pts,
        frame_index=index,
        is_padding=padding,
        is_valid=np.array([not (clip.is_missing or clip.is_filler) for clip in clips]),
        video=np.array([clip.video for clip in clips], np.int64),
        labels=tuple(clip.labels for clip in clips),
        clip=np.array([clip.position for clip in clips], np.int64),
    )


def pixels(clips: Sequence[LoadedClip], size: tuple[int, int] | None, dtype: str = "uint8") -> list[Any]:
    """The frames of each clip; black ones of a neighbour's shape, or of `size`, where there is no clip."""
    model = next((clip.frames for clip in clips if clip.frames is not None), None)
    return [clip.frames if clip.frames is not None else _black(clip, model, size, dtype) for clip in clips]


def _black(clip: LoadedClip, model: Any, size: tuple[int, int] | None, dtype: str) -> Any:
    if isinstance(model, np.ndarray):
        return np.zeros_like(model)
    if model is not None:
        return model.new_zeros(model.shape)
    places = len(clip.spec) if clip.spec is not None else 1
    return np.zeros((max(places, 1), *(size or (EMPTY_SIDE, EMPTY_SIDE)), 3), dtype)


def spread(pictures: Any, have: IntArray, spec: Any) -> Any:
    """Pictures of the distinct frames `have` (ascending) → one for each place of the spec, constant padding filled.

    Works alike for numpy arrays and torch tensors; without repeats or padding the pictures come back as they are.
    """
    want = np.asarray(spec.frame_index)
    if len(have) == len(want) and bool((have == want).all()):
        return pictures
    outside = np.flatnonzero(want < 0)
    fill = _fill_levels(spec.fill_value, pictures.dtype.itemsize)
    if len(have) == 0:
        return _filled(pictures, len(want), fill)
    place = np.searchsorted(have, np.where(want < 0, have[0], want))
    if not isinstance(pictures, np.ndarray):
        return _spread_torch(pictures, place, outside, fill)
    out = pictures[place]
    out[outside] = fill
    return out


def _fill_levels(fill_value: Any, sample_bytes: int) -> Any:
    """A policy's fill value, which counts from 0 to 255, in the levels of the pictures: one, or one for each channel."""
    return np.asarray(fill_value, np.uint8) if sample_bytes == 1 else np.asarray(fill_value, np.uint16) * np.uint16(257)


def _spread_torch(pictures: Any, place: IntArray, outside: IntArray, fill: Any) -> Any:
    import torch

    bits = pictures if pictures.dtype == torch.uint8 else pictures.view(torch.int16)  # torch does little with uint16
    out = bits[torch.from_numpy(place).to(bits.device)]
    if len(outside):
        levels = torch.from_numpy(np.atleast_1d(fill)).view(bits.dtype).to(bits.device)
        out[torch.from_numpy(outside).to(bits.device)] = levels
    return out.view(pictures.dtype)


def _filled(pictures: Any, places: int, fill: Any) -> Any:
    """All constant padding; the pictures are an empty array that says the size."""
    filled = np.empty((places, *pictures.shape[1:]), fill.dtype)
    filled[:] = fill
    if isinstance(pictures, np.ndarray):
        return filled
    import torch

    return torch.from_numpy(filled).to(pictures.device)
