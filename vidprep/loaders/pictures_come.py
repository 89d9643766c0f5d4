"""Which packets of a cut a decoder gives a picture for: what an edit list hides comes, hidden VP8 and VP9 frames do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.bitstream import sample_facts

if TYPE_CHECKING:
    from vidprep.loaders.cut import Cut
    from vidprep.loaders.packets import BoolArray, Packet
    from vidprep.records import StreamInfo


def pictures_come(cut: Cut) -> BoolArray:
    """bool[n], of each packet: whether its picture comes, wanted or not. Headers alone give none."""
    packets = cut.packets
    comes: BoolArray = packets.shown & (packets.payloads.size > 0)
    for place in np.flatnonzero(~comes).tolist():
        comes[place] = len(packets.payloads[place]) > 0 and _gives_picture(cut.info, packets[place])
    return comes


def _gives_picture(info: StreamInfo, packet: Packet) -> bool:
    facts = sample_facts(info, packet.data)
    return facts.has_picture is not False and facts.shown is not False
