"""The unit of decoding work: some rows of an index, examined one after the other in a process that may die."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from vidprep.errors import LimitError, MediaError, Reason
from vidprep.indexes import open_index
from vidprep.indexes.limits import Limits as Limited
from vidprep.indexes.worker import IDLE
from vidprep.validation.examine import Examined, examine
from vidprep.validation.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    import numpy.typing as npt

    from vidprep.indexes.read import Index
    from vidprep.indexes.worker import Options as Limits
    from vidprep.records import VideoLike
    from vidprep.timebase import IntArray
    from vidprep.validation.examine import Decode, Options
    from vidprep.validation.rules import Rules

__all__ = ["Outcome", "Task", "examine_batch"]

_index = lru_cache(maxsize=2)(open_index)


class Task(NamedTuple):
    """Some videos to be decoded."""

    unit: int
    index_path: str
    rows: list[int]
    examine: Options
    rules: Rules
    engine: str
    options: Limits
    """time and memory for one video"""
    known: dict[int, MediaError]
    """places in `rows` whose outcome is known: they killed a worker before"""


class Outcome(NamedTuple):
    """What became of them."""

    unit: int
    examined: list[Examined]


def examine_batch(task: Task, decode: Decode, beat: Callable[[int], None]) -> Outcome:
    """Examine the videos of a task.

    Args:
        task: which.
        decode: gives their pictures.
        beat: told the place of each video before it is decoded, and IDLE after it.
    """
    index = _index(task.index_path)
    examined = []
    for place, row in enumerate(task.rows):
        beat(place)
        known = task.known.get(place)
        examined.append(_of_error(known) if known else _examined(index, row, task, decode))
        beat(IDLE)
    return Outcome(task.unit, examined)


def _examined(index: Index, row: int, task: Task, decode: Decode) -> Examined:
    limits = Limited(task.options.timeout_seconds, task.options.memory_bytes)
    try:
        with limits:
            timely = _timely(decode, time.monotonic() + task.options.timeout_seconds)
            return examine(index[row], row, task.examine, task.rules, timely)
    except MediaError as error:
        return _of_error(error)
    except MemoryError:
        return _of_error(LimitError("memory ran out while it was decoded", reason=Reason.OUT_OF_MEMORY))
    except Exception as error:  # noqa: BLE001 - a mistake on a hostile file costs that file's finding, not the run
        return Examined([Finding(check="undecodable_frames", message=f"{type(error).__name__}: {error}")])
    finally:
        limits.lift()


def _timely(decode: Decode, ends: float) -> Decode:
    """The same until the time is up, in any thread: looked at before each picture."""

    def decode_in_time(video: VideoLike, frames: IntArray, resize: bool) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        for picture in decode(video, frames, resize):
            if time.monotonic() > ends:
                raise LimitError("its time is up", reason=Reason.TIMEOUT)
            yield picture

    return decode_in_time


def _of_error(error: MediaError) -> Examined:
    return Examined([Finding(check=str(error.reason), message=error.message, offset=error.offset)])
