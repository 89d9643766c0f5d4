"""Specs and policies as arguments of NVIDIA DALI's video operators; DALI itself is not imported.

What is written here was observed on DALI 2.4.0 and holds for its successors (whose defaults differ): every argument
whose default changed or surprises is given, frames are counted and never timed, and what DALI would get wrong, drop
without a word, or die of is refused by name.

`fn.decoders.video`: `decoder_kwargs` for one spec; `batch_arrays` for `fn.external_source`, each frame decoded once,
with `fn.sequence_rearrange` behind (DALI decodes a repeated frame again, from the start of the file).

`fn.experimental.readers.video`: one line of a `file_list` for each clip (`file_list_line`), the reader's arguments from
the policy (`reader_kwargs`). The reader pads a range at its end only and folds back beyond its start; a sequence that
exactly fits but whose stride · length does not is left out unless a pad_mode is on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vidprep.errors import SamplingError
from vidprep.samplers.policy import DALI_PADS
from vidprep.samplers.ranges import Dense, First, Last, RandomClip, Strided, Windows
from vidprep.samplers.spread import Uniform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.samplers.policy import Policy, Within
    from vidprep.samplers.spec import DecodeSpec, FillValue

__all__ = [
    "FILE_LIST_KWARGS",
    "DaliBatch",
    "batch_arrays",
    "decoder_kwargs",
    "file_list_line",
    "file_list_row",
    "reader_kwargs",
    "rearranged",
]

Int32Array = npt.NDArray[np.int32]
MAX_LABEL = 2**31 - 1  # above it 2.4.0 ignores the line's frame range


def decoder_kwargs(spec: DecodeSpec) -> dict[str, Any]:
    """Arguments of `fn.decoders.video` for one clip.

    start_frame, stride and sequence_length where a range says it exactly, else `frames` (int32); pad_mode always, since
    its default fills with black what lies past DALI's own frame count.
    """
    if spec.span is None:
        frames = {"frames": spec.frame_index.astype(np.int32)}
        return frames | _padding("constant" if (spec.frame_index < 0).any() else "none", spec.fill_value)
    start, length, stride, pad = spec.span
    return {"start_frame": start, "sequence_length": length, "stride": stride} | _padding(pad, spec.fill_value)


def _padding(pad: str, fill_value: FillValue) -> dict[str, Any]:
    if pad != "constant":
        return {"pad_mode": pad}
    return {"pad_mode": pad, "fill_value": list(fill_value) if isinstance(fill_value, tuple) else fill_value}


def rearranged(spec: DecodeSpec) -> tuple[Int32Array, Int32Array]:
    """Each frame once, and how to put them in order.

    Returns:
        frames int32[U] for `fn.decoders.video(frames=...)`, ascending, a last −1 for constant padding (decoded as the
        fill value under pad_mode="constant"); new_order int32[F] for `fn.sequence_rearrange`.
    """
    frames, order = spec.unique_frames, spec.gather
    if (order < 0).any():
        order = np.where(order < 0, len(frames), order)
        frames = np.append(frames, -1)
    return frames.astype(np.int32), order.astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaliBatch:
    """A batch of specs as `fn.external_source` feeds it, one array for each sample.

    ::

        video = fn.decoders.video(encoded, device="mixed", frames=frames, **batch.kwargs)
        video = fn.sequence_rearrange(video, new_order=new_order)
    """

    frames: list[Int32Array]
    new_order: list[Int32Array]
    kwargs: dict[str, Any]
    """pad_mode and fill_value, which DALI takes for a whole pipeline, not for a sample"""


def batch_arrays(specs: Sequence[DecodeSpec]) -> DaliBatch:
    """Arrays of a batch.

    Raises:
        SamplingError: clips are filled with different values; DALI takes one.
    """
    pairs = [rearranged(spec) for spec in specs]
    fills = {spec.fill_value for spec in specs if (spec.frame_index < 0).any()}
    if len(fills) > 1:
        raise SamplingError(f"fill_value: DALI takes one for a pipeline, the batch has {sorted(map(str, fills))}")
    kwargs = _padding("constant", fills.pop()) if fills else _padding("none", 0)
    return DaliBatch(frames=[f for f, _ in pairs], new_order=[order for _, order in pairs], kwargs=kwargs)


#: Arguments of the reader that go with every list written here.
FILE_LIST_KWARGS: dict[str, Any] = {"file_list_format": "frames", "file_list_include_end": False}

#: Policies whose clips all are `frames` frames at one stride.
_RANGES = (First, Last, RandomClip, Strided, Dense, Windows)


def reader_kwargs(policy: Policy) -> dict[str, Any]:
    """Arguments of `fn.experimental.readers.video` for a list of `file_list_line`s, each of which gives one sequence.

    Raises:
        SamplingError: the reader cannot say what this policy takes.
    """
    if isinstance(policy, Uniform):
        if policy.mode != "round" or policy.compat is not None or policy.frames == 1:
            raise SamplingError(
                f"{policy.to_text()}: the reader's uniform_sample knows mode=round with 2 frames or more"
            )
        return FILE_LIST_KWARGS | {"sequence_length": policy.frames, "uniform_sample": True}
    frames, stride = getattr(policy, "frames", None), getattr(policy, "stride", None)
    if not isinstance(policy, _RANGES) or not isinstance(frames, int) or stride is None:
        allowed = ", ".join(kind.name for kind in (Uniform, *_RANGES))
        raise SamplingError(f"{policy.to_text()}: the reader takes a fixed number of frames at one stride ({allowed})")
    if getattr(policy, "jitter", 0):
        raise SamplingError(f"{policy.to_text()}: the reader knows no jitter")
    pad = policy.pad if policy.pad in DALI_PADS else "edge"  # for "none" a clip that just fits would be left out
    steps = {"sequence_length": frames, "stride": stride, "step": frames * stride}
    return FILE_LIST_KWARGS | steps | _padding(pad, policy.fill_value)


def file_list_line(path: str, label: int, spec: DecodeSpec, within: Within, kwargs: dict[str, Any]) -> str:
    """The line "path label first end" that makes the reader give one clip.

    Args:
        path: a local file.
        label: comes out beside the clip; 0 .. 2³¹ − 1.
        spec: the clip.
        within: frames that the clip may use; the whole video is (0, num_frames).
        kwargs: what `reader_kwargs` gave.

    Raises:
        SamplingError: a path that the list cannot hold, or a clip that the reader's arguments do not give.
    """
    found = _uniform_range(spec, within, kwargs) if "uniform_sample" in kwargs else _range(spec, within, kwargs)
    return file_list_row(path, label, found)


def file_list_row(path: str, label: int, frames: Within) -> str:
    """The line for frames first .. end−1 of a file.

    Raises:
        SamplingError: a path or label that the list cannot hold.
    """
    _check_path(path)
    if not 0 <= label <= MAX_LABEL:
        raise SamplingError(f"label={label}: expected 0..{MAX_LABEL}; beyond, DALI ignores the frame range")
    return f"{path} {label} {frames[0]} {frames[1]}"


def _check_path(path: str) -> None:
    if not path or any(c.isspace() or c == "\0" for c in path):
        raise SamplingError(f"{path!r}: a file_list parts its fields by blanks; DALI would open another file or none")
    if "://" in path or ".tar::" in path:
        raise SamplingError(f"{path!r}: the reader opens local files only")
    if ":" in path and not path.startswith("/"):
        raise SamplingError(f"{path!r}: DALI takes what stands before the colon for a protocol; give an absolute path")


def _range(spec: DecodeSpec, within: Within, kwargs: dict[str, Any]) -> Within:
    length, stride, pad = kwargs["sequence_length"], kwargs["stride"], kwargs["pad_mode"]
    if len(spec) != length:
        raise SamplingError(f"the clip has {len(spec)} frames, the reader gives {length}")
    if spec.span is None or spec.span.stride != stride or spec.span.pad not in ("none", pad):
        raise SamplingError(
            f"the reader cannot give frames {_some(spec)} (sequence_length={length}, stride={stride}, {pad})"
        )
    start = spec.span.start
    return start, start + (length - 1) * stride + 1 if spec.span.pad == "none" else within[1]


def _uniform_range(spec: DecodeSpec, within: Within, kwargs: dict[str, Any]) -> Within:
    gaps, last = kwargs["sequence_length"] - 1, within[1] - 1 - within[0]
    given = within[0] + (2 * np.arange(gaps + 1) * last + gaps) // (2 * gaps)  # floor(linspace(0, last, k) + 1/2)
    if not np.array_equal(given, spec.frame_index):
        raise SamplingError(f"uniform_sample gives frames {given.tolist()}, not {_some(spec)}")
    return within


def _some(spec: DecodeSpec) -> str:
    return ", ".join(map(str, spec.frame_index[:6].tolist())) + (", ..." if len(spec) > 6 else "")
