"""Leading pictures: those that precede their key frame in presentation and lean on the group of pictures before it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vidprep.loaders.cut import Cut


def without_leading(cut: Cut) -> Cut:
    """The cut less what cannot be decoded from its key frames: some decoders leave such pictures out, some do not."""
    if not cut.leading_rows:
        return cut
    is_kept = ~np.isin(cut.packets.rows, list(cut.leading_rows))
    starts = is_kept.nonzero()[0].searchsorted(cut.segment_starts)
    return dataclasses.replace(cut, packets=cut.packets[is_kept], segment_starts=tuple(starts.tolist()))
