"""What loaders may be asked for: bounds, and errors that name the argument, its value and what is expected.

Each check returns the value as a plain one and raises ArgumentError.
"""

from __future__ import annotations

import operator
import os
import reprlib
from typing import TYPE_CHECKING, Any

from vidprep.errors import ArgumentError, SamplingError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "check_batch_fits",
    "check_pictures_fit",
    "choice",
    "frame_numbers",
    "integer",
    "plan_of_clips",
    "size_of",
]

#: Rows or columns of a picture that is asked for: what swscale takes.
MAX_SIDE = 1 << 15
#: Clips in a batch of one rank.
MAX_BATCH_SIZE = 1 << 16
#: Reading threads; a thread takes memory even if it has nothing to do.
MAX_THREADS = 1 << 10
#: Batches that wait for the consumer.
MAX_PREFETCH = 1 << 10
#: Frames that are named at once: a million pictures of 8K are 100 TB, and their numbers as Python has them 40 MB.
MAX_FRAMES = 1 << 20
#: Numbers that count without end: epochs, failures.
UNLIMITED = (1 << 63) - 1


def wrong(name: str, value: object, expected: str) -> ArgumentError:
    """The error of an argument."""
    return ArgumentError(f"{name}={reprlib.repr(value)}: expected {expected}")


def choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """One of several words."""
    words = tuple(allowed)
    if not isinstance(value, str) or value not in words:
        raise ArgumentError(f"{name}={reprlib.repr(value)} is none of {', '.join(words)}")
    return value


def integer(name: str, value: object, least: int, most: int = UNLIMITED) -> int:
    """An integer within bounds."""
    expected = f"an integer of {least} or more" if most == UNLIMITED else f"an integer from {least} to {most}"
    number = _index(value)
    if number is None or not least <= number <= most:
        raise wrong(name, value, expected)
    return number


def size_of(name: str, value: object) -> tuple[int, int] | None:
    """(height, width), or None."""
    if value is None:
        return None
    sides = [_index(side) for side in value] if isinstance(value, (tuple, list)) else []
    match sides:
        case [int(height), int(width)] if 1 <= min(height, width) <= max(height, width) <= MAX_SIDE:
            return height, width
    raise wrong(name, value, f"(height, width), each from 1 to {MAX_SIDE}, as (224, 224)")


def frame_numbers(frames: Any) -> list[int]:
    """Frame indices as they were given; 1.5 is not cut to 1, nor is True a frame."""
    import numpy as np

    if hasattr(frames, "__len__") and len(frames) > MAX_FRAMES:
        raise wrong("frames", frames, f"at most {MAX_FRAMES} at once")
    numbers = [_index(frame) for frame in np.asarray(frames, dtype=object).reshape(-1)]
    whole = [number for number in numbers if number is not None]
    if len(whole) < len(numbers):
        raise wrong("frames", frames, "integers, as [0, 7, 33] or range(100)")
    return whole


def plan_of_clips(plan: Any) -> Any:
    """A plan, or something that serves as one."""
    if not hasattr(plan, "batches"):
        raise wrong("plan", plan, "a vidprep.samplers.Plan: Plan(open_index(...), policy)")
    return plan


def check_batch_fits(plan: Any, *, batch_size: int, size: tuple[int, int] | None, pixel_bytes: int) -> None:
    """Refuse a batch that this machine's memory cannot hold, going by the first clip of the plan.

    Args:
        plan: the plan.
        batch_size: clips in a batch.
        size: (height, width) of what comes out; None = that of the first clip's video.
        pixel_bytes: of a pixel that comes out.
    """
    try:
        clip = plan.clip(0, 0)
    except SamplingError:  # that one is refused: nothing is known
        return
    info = getattr(clip.media, "info", None)
    height, width = size or ((info.height, info.width) if info else (0, 0))
    clips = min(batch_size, plan.num_positions)
    needed = clips * len(clip.spec) * height * width * pixel_bytes
    have = _memory_bytes()
    if needed > have:
        raise ArgumentError(
            f"batch_size={batch_size}: {clips} clips of {len(clip.spec)} frames of {height}x{width} are "
            f"{needed / 1e9:.0f} GB, and this machine has {have / 1e9:.0f}; "
            f"expected a smaller batch_size, size or number of frames"
        )


def check_pictures_fit(num_frames: int, height: int, width: int, pixel_bytes: int) -> None:
    """Refuse pictures that this machine's memory cannot hold."""
    needed, have = num_frames * height * width * pixel_bytes, _memory_bytes()
    if needed > have:
        raise ArgumentError(
            f"{num_frames} frames of {height}x{width} are {needed / 1e9:.0f} GB, and this machine has {have / 1e9:.0f}; "
            f"expected fewer frames or a smaller size"
        )


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _index(value: object) -> int | None:
    """What is an integer, and no truth value; of numpy and torch too."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what is no integer raises TypeError
    except TypeError:
        return None
