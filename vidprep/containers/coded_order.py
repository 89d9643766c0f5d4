"""Times that rise in coded order although the pictures are shown in another: no player shows them by such times.

Files copied from AVI, which has no presentation times, into containers that have some (MP4 without `ctts`, Matroska), and
DivX and Xvid films with packed B-frames. The order is a matter of the bitstream: the decoder tells it.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.containers.nal_pictures import h264_says_reordered
from vidprep.containers.named_encoder import from_first_row
from vidprep.containers.verify import MAX_OVERLAP, facts_of_rows, part_of
from vidprep.errors import Reason
from vidprep.records import Finding, SampleFlag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.containers.samplefacts import SampleFacts
    from vidprep.records import ParsedVideo, ReadAt, SampleTable, StreamInfo
    from vidprep.timebase import IntArray

#: Codecs whose pictures may be coded in another order than they are shown in, and whose decoder needs no more than a
#: configuration.
REORDERED = frozenset({"h264", "hevc", "mpeg4", "mpeg1video", "mpeg2video"})

#: Among so many first samples there is a B-picture wherever an encoder takes any.
HEAD_ROWS = 16

#: AV_INPUT_BUFFER_PADDING_SIZE.
PADDING_BYTES = 64


def in_shown_order(parsed: ParsedVideo, read_at: ReadAt, size_bytes: int) -> ParsedVideo:
    """The same video, its times given to the frames in the order in which a decoder gives them.

    Only where times rise in coded order, the stream says that it reorders its pictures, and its first samples have
    B-pictures, is anything read; only where the decoder then tells another order is anything changed.

    Args:
        parsed: what a container parser returned.
        read_at: the file.
        size_bytes: length of the file.
    """
    return _as_decoded(parsed, read_at, size_bytes) if _is_doubtful(parsed) else parsed


def _as_decoded(parsed: ParsedVideo, read_at: ReadAt, size_bytes: int) -> ParsedVideo:
    facts = _first_facts(parsed, read_at, size_bytes)
    if any((fact.num_pictures or 0) > 1 for fact in facts):
        # Of packed samples a decoder must know from the first one on, which says so; what it gives otherwise is amiss.
        parsed = replace(parsed, table=from_first_row(parsed.table))
    elif not any(fact.picture_type == "B" for fact in facts):
        return parsed
    rows = _decoded_rows(parsed, read_at, size_bytes)
    if rows is None:
        message = "times rise in coded order though pictures seem to be reordered; too much to decode for their order"
        return replace(parsed, warnings=(*parsed.warnings, Finding(reason=Reason.TIMEOUT, message=message)))
    rows = rows[parsed.table.flags[rows] & SampleFlag.SHOWN > 0]
    if not (rows[1:] < rows[:-1]).any():
        return parsed
    message = "times rise in coded order though pictures are reordered: frames have them in the decoder's order"
    finding = Finding(reason=Reason.CORRUPT_TABLE, message=message)
    return replace(parsed, table=_reordered(parsed.table, rows), warnings=(*parsed.warnings, finding))


def _is_doubtful(parsed: ParsedVideo) -> bool:
    """Asked of every video: what is cheap and settles most of them comes first."""
    info, table = parsed.info, parsed.table
    if info.codec not in REORDERED or info.reorder_depth == 0 or _falls(table.pts[:HEAD_ROWS].tolist()):
        return False
    if len(table) < 3 or parsed.access != "ranges" or parsed.method == "demux":
        return False
    if table.order is not None or info.later_configs or bool((table.pts[1:] < table.pts[:-1]).any()):
        return False
    return info.codec != "h264" or h264_says_reordered(info.codec_config)


def _falls(times: list[int]) -> bool:
    return times != sorted(times)


def _first_facts(parsed: ParsedVideo, read_at: ReadAt, size_bytes: int) -> list[SampleFacts]:
    head = part_of(parsed.table, 0, HEAD_ROWS)
    return facts_of_rows(parsed.info, head, read_at, access=parsed.access, size_bytes=size_bytes)


def _decoded_rows(parsed: ParsedVideo, read_at: ReadAt, size_bytes: int) -> IntArray | None:
    """Rows in the order in which their pictures come; None beyond the budget."""
    from vidprep.containers.demux.pictures import PictureOrder  # imports PyAV, which is slow to load

    if int(parsed.table.size.sum()) > MAX_OVERLAP * size_bytes:
        return None
    pictures = PictureOrder(SimpleNamespace(codec_context=_decoder(parsed.info)), size_bytes)
    for row, packet in enumerate(_packets(parsed.table, read_at)):
        pictures.feed(packet, row)
        if not pictures.is_complete:
            return None
    pictures.feed(None, -1)
    return np.array(pictures.rows, np.int64) if pictures.is_complete else None


def _decoder(info: StreamInfo) -> Any:
    import av

    context: Any = av.CodecContext.create(info.codec, "r")
    context.width, context.height = info.coded_width or info.width, info.coded_height or info.height
    if info.codec_config:
        context.extradata = info.codec_config + bytes(PADDING_BYTES)  # leaves zeros behind the shorter value
        context.extradata = info.codec_config
    if info.codec == "h264":
        context.reorder_depth = min(info.reorder_depth or 0, 16)
    return context


def _packets(table: SampleTable, read_at: ReadAt) -> Iterator[Any]:
    import av

    for offset, size in zip(table.offset.tolist(), table.size.tolist(), strict=True):
        data = read_at(offset, size)
        packet = av.Packet(len(data))
        packet.update(data)
        yield packet


def _reordered(table: SampleTable, rows: IntArray) -> SampleTable:
    """`rows` are shown in this order, at the times that they have among them; others give no picture."""
    times = np.sort(table.pts[rows])
    pts, flags = table.pts.copy(), table.flags & np.uint8(~SampleFlag.SHOWN & 0xFF)
    pts[rows] = times
    flags[rows] |= np.uint8(SampleFlag.SHOWN)
    return replace(table, pts=pts, flags=flags, order=None if bool((times[1:] > times[:-1]).all()) else rows)
