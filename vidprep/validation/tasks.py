"""The unit of decoding work: some rows of an index, examined one after the other in a process that may die."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from vidprep.errors import LimitError, MediaError, Reason
from vidprep.indexes import open_index
from vidprep.indexes.limits import Limits as Limited
from vidprep.indexes.worker import IDLE
from vidprep.validation.examine import Examined, examine, key_claims
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

__all__ = ["Claims", "Outcome", "Task", "claims_of_batch", "examine_batch", "with_claims"]

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
    only_claims: bool = False
    """nothing is decoded, the outcome is `Claims`"""
    claimed: dict[int, list[Finding]] = {}  # noqa: RUF012 - never changed
    """places in `rows` whose key claims are known"""


class Outcome(NamedTuple):
    """What became of them."""

    unit: int
    examined: list[Examined]


class Claims(NamedTuple):
    """What a task's videos claim of their key frames and their bytes deny."""

    unit: int
    found: list[list[Finding] | MediaError | None]
    """None: something that nobody thought of, which whoever decodes will meet again"""


def claims_of_batch(task: Task, beat: Callable[[int], None]) -> Claims:
    """The part of `examine_batch` that decodes nothing, and is Python alone: threads would wait for each other."""
    index = _index(task.index_path)
    found: list[list[Finding] | MediaError | None] = []
    for place, row in enumerate(task.rows):
        beat(place)
        found.append(task.known.get(place) or _claims(index, row, task))
        beat(IDLE)
    return Claims(task.unit, found)


def _claims(index: Index, row: int, task: Task) -> list[Finding] | MediaError | None:
    limits = Limited(task.options.timeout_seconds, task.options.memory_bytes)
    try:
        with limits:
            return list(key_claims(index[row]))
    except MediaError as error:
        return error
    except Exception:  # noqa: BLE001 - told by `_examined`
        return None
    finally:
        limits.lift()


def with_claims(task: Task, claims: Claims) -> Task:
    """The task that is left to be done."""
    found = dict(enumerate(claims.found))
    return task._replace(
        only_claims=False,
        known=task.known | {place: error for place, error in found.items() if isinstance(error, MediaError)},
        claimed={place: findings for place, findings in found.items() if isinstance(findings, list)},
    )


def examine_batch(task: Task, decode: Decode, beat: Callable[[int], None]) -> Outcome:
    """Examine the videos of a task.

    Args:
        task: which.
        decode: gives their pictures.
        beat: told the place of each video before it is decoded, and IDLE after it.
    """
    index = _index(task.index_path)
    examined = []
    for place in range(len(task.rows)):
        beat(place)
        known = task.known.get(place)
        examined.append(_of_error(known) if known else _examined(index, place, task, decode))
        beat(IDLE)
    return Outcome(task.unit, examined)


def _examined(index: Index, place: int, task: Task, decode: Decode) -> Examined:
    row = task.rows[place]
    limits = Limited(task.options.timeout_seconds, task.options.memory_bytes)
    try:
        with limits:
            timely = _timely(decode, time.monotonic() + task.options.timeout_seconds)
            return examine(index[row], row, task.examine, task.rules, timely, task.claimed.get(place))
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
