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
    kept = [place for place, packet in enumerate(cut.packets) if packet.row not in cut.leading_rows]
    starts = tuple(np.searchsorted(kept, cut.segment_starts).tolist())
    return dataclasses.replace(cut, packets=tuple(cut.packets[place] for place in kept), segment_starts=starts)
