"""Segments of a clip that can go through a decoder without it being drained between them.

An IDR picture makes a decoder forget all that came before, and give out what it still held (H.264, C.4.4; H.265,
C.5.2.2): draining it first, which empties its pipeline, only costs time. Other starts (CRA, recovery points) do not.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from vidprep.loaders.packet_forms import Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: codec → mask and shift of nal_unit_type, types of coded slices (H.264, table 7-1; H.265, table 7-1), of IDR pictures.
SLICE_TYPES = {"h264": (0x1F, 0, range(1, 6), (5,)), "hevc": (0x3F, 1, range(32), (19, 20))}

START_CODE = b"\0\0\1"


def joined(codec: str, runs: Sequence[Run]) -> Iterator[tuple[Run, int]]:
    """(run, how many of the runs it holds): each run that begins with an IDR picture joined to the one before."""
    together: list[Run] = []
    for run in runs:
        if together and not begins_with_idr(codec, run):
            yield _one(together), len(together)
            together = []
        together.append(run)
    if together:
        yield _one(together), len(together)


def begins_with_idr(codec: str, run: Run) -> bool:
    """Whether the first coded slice of a run in Annex B is one of an IDR picture; False for other codecs."""
    if codec not in SLICE_TYPES or len(run.rows) == 0:
        return False
    mask, shift, slices, idr = SLICE_TYPES[codec]
    end = int(run.offsets[1])
    at = run.buffer.find(START_CODE, 0, end)
    while 0 <= at < end - 3:
        kind = run.buffer[at + 3] >> shift & mask
        if kind in slices:
            return kind in idr
        at = run.buffer.find(START_CODE, at + 3, end)
    return False


def _one(runs: Sequence[Run]) -> Run:
    if len(runs) == 1:
        return runs[0]
    ends = np.cumsum([len(run.buffer) for run in runs])
    offsets = [run.offsets[:-1] + end - len(run.buffer) for run, end in zip(runs, ends.tolist(), strict=True)]
    return Run(
        bytearray().join(run.buffer for run in runs),
        np.concatenate([*offsets, ends[-1:]]),
        np.fromiter(chain.from_iterable(run.rows for run in runs), np.int64),
    )
