"""Visual sample entries (ISO/IEC 14496-12 8.5.2, 12.1): codec, its configuration, picture size, shape and colour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from vidprep.containers.colours import MATRIX, PRIMARIES, RANGE, TRANSFER
from vidprep.containers.isobmff.boxes import children, u16, u32
from vidprep.containers.isobmff.fourccs import CODEC_BY_FOURCC, CODEC_BY_OBJECT_TYPE, ENCRYPTED_FOURCCS

if TYPE_CHECKING:
    from vidprep.containers.isobmff.boxes import Boxes, Span

#: Bytes of a visual sample entry before its boxes (box header not counted).
_VISUAL_ENTRY_BYTES = 78
#: Bytes of a sample entry that is worth remembering.
MAX_REMEMBERED_BYTES = 1 << 12
#: Sample entries of one track that are looked at.
MAX_ENTRIES = 256
#: Configuration boxes whose body is the decoder's configuration, and how many first bytes of it are not.
_CONFIG_BOXES = {b"avcC": 0, b"hvcC": 0, b"vvcC": 4, b"av1C": 0, b"evcC": 0, b"glbl": 0, b"dvc1": 7, b"apvC": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Colour:
    """Names as in StreamInfo; None = not said."""

    matrix: str | None = None
    range: str | None = None
    primaries: str | None = None
    transfer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """One sample description of a video track. Compared by identity: equal bytes, if few, give the same one."""

    fourcc: bytes
    codec: str | None
    """FFmpeg's name; None = not known"""
    config: bytes
    """FFmpeg's extradata"""
    facts_config: bytes
    """what tells of the stream: `config`, or vpcC's body, which FFmpeg does not pass on"""
    width: int
    height: int
    sar: tuple[int, int] | None
    colour: Colour
    encrypted: bool
    data_reference: int


def read_entries(data: bytes, span: Span | None) -> list[Entry]:
    """The visual sample entries of an stsd box."""
    if span is None or span[1] - span[0] < 8:
        return []
    start, end = span
    entries: list[Entry] = []
    position = start + 8
    while position + 16 <= end and len(entries) < min(u32(data, start + 4)[0], MAX_ENTRIES):
        size = u32(data, position)[0]
        if size < 16:
            break
        stop = min(position + size, end)
        body = data[position + 4 : stop]
        entries.append(_remembered_entry(body) if len(body) <= MAX_REMEMBERED_BYTES else _read_entry(body))
        position += size
    return entries


@lru_cache(maxsize=512)
def _remembered_entry(data: bytes) -> Entry:
    """As `_read_entry`: files of one source share it byte for byte."""
    return _read_entry(data)


def _read_entry(data: bytes) -> Entry:
    """A sample entry from its type on."""
    fourcc = data[:4]
    body = data[4:]
    boxes = children(body, _first_box(body), len(body)) if len(body) > _VISUAL_ENTRY_BYTES else {}
    encrypted = fourcc in ENCRYPTED_FOURCCS
    codec, config = _codec(body, boxes, _original_format(body, boxes) if encrypted else fourcc)
    vpcc = boxes.get(b"vpcC", ((0, 0),))[0]
    return Entry(
        fourcc=fourcc,
        codec=codec,
        config=config,
        facts_config=body[vpcc[0] + 4 : vpcc[1]] if vpcc[1] else config,
        width=u16(body, 24)[0] if len(body) >= 28 else 0,
        height=u16(body, 26)[0] if len(body) >= 28 else 0,
        sar=_pixel_aspect(body, boxes),
        colour=_colour(body, boxes),
        encrypted=encrypted,
        data_reference=u16(body, 6)[0] if len(body) >= 8 else 1,
    )


def _first_box(body: bytes) -> int:
    """Where the entry's boxes start: behind a palette, if QuickTime's depth says there is one."""
    depth, table_id = u16(body, 74)[0], u16(body, 76)[0]
    if table_id == 0 and depth in (2, 4, 8) and len(body) >= _VISUAL_ENTRY_BYTES + 8:
        colours = u16(body, _VISUAL_ENTRY_BYTES + 6)[0] + 1
        return _VISUAL_ENTRY_BYTES + 8 + 8 * colours if colours <= 256 else _VISUAL_ENTRY_BYTES
    return _VISUAL_ENTRY_BYTES


def _original_format(body: bytes, boxes: Boxes) -> bytes:
    for span in boxes.get(b"sinf", ()):
        for start, end in children(body, *span).get(b"frma", ()):
            if end - start >= 4:
                return body[start : start + 4]
    return b""


def _codec(body: bytes, boxes: Boxes, fourcc: bytes) -> tuple[str | None, bytes]:
    """FFmpeg's codec name and extradata."""
    codec = CODEC_BY_FOURCC.get(fourcc)
    for kind, spans in boxes.items():
        start, end = spans[0]
        if kind in _CONFIG_BOXES:
            config = body[start + _CONFIG_BOXES[kind] : end]
            return codec, _with_layers(config, body, boxes) if kind == b"hvcC" else config
        if kind == b"esds":
            object_type, config = _elementary_stream(body[start + 4 : end])
            return CODEC_BY_OBJECT_TYPE.get(object_type, codec) if object_type else codec, config
        if kind == b"jp2h":
            return codec, body[start - 8 : end]
    return codec, b""


def _with_layers(hvcc: bytes, body: bytes, boxes: Boxes) -> bytes:
    """HvcC with the arrays of lhvC (multiview HEVC, ISO/IEC 14496-15 9.6.3) behind its own, as FFmpeg passes them."""
    start, end = boxes.get(b"lhvC", ((0, 0),))[0]
    if end - start < 6 or len(hvcc) < 23 or hvcc[22] + body[start + 5] > 255:
        return hvcc
    return hvcc[:22] + bytes([hvcc[22] + body[start + 5]]) + hvcc[23:] + body[start + 6 : end]


def _elementary_stream(data: bytes) -> tuple[int, bytes]:
    """ObjectTypeIndication and decoder-specific info of an ES descriptor (ISO/IEC 14496-1 7.2.6.5)."""
    tag, position, end = _descriptor(data, 0, len(data))
    if tag == 3 and position + 3 <= end:
        flags = data[position + 2]
        position += 3 + (2 if flags & 0x80 else 0)
        if flags & 0x40 and position < end:
            position += 1 + data[position]
        position += 2 if flags & 0x20 else 0
        tag, position, end = _descriptor(data, position, end)
    if tag != 4 or position + 13 > end:
        return 0, b""
    object_type = data[position]
    tag, start, stop = _descriptor(data, position + 13, end)
    return object_type, data[start:stop] if tag == 5 else b""


def _descriptor(data: bytes, position: int, end: int) -> tuple[int, int, int]:
    """Tag of the descriptor at `position`, and where its body starts and ends; tag 0 where there is none."""
    if position >= end:
        return 0, end, end
    tag, size, position = data[position], 0, position + 1
    for _ in range(4):
        if position >= end:
            return 0, end, end
        byte, position = data[position], position + 1
        size = size << 7 | byte & 0x7F
        if not byte & 0x80:
            break
    return tag, position, min(position + size, end)


def _pixel_aspect(body: bytes, boxes: Boxes) -> tuple[int, int] | None:
    for start, end in boxes.get(b"pasp", ()):
        if end - start >= 8:
            horizontal, vertical = u32(body, start)[0], u32(body, start + 4)[0]
            return (horizontal, vertical) if horizontal and vertical else None
    return None


def _colour(body: bytes, boxes: Boxes) -> Colour:
    """Colr of type nclx (ISO) or nclc (QuickTime); ICC profiles say nothing of the matrix."""
    for start, end in boxes.get(b"colr", ()):
        kind = body[start : start + 4]
        if kind in (b"nclx", b"nclc") and end - start >= 10:
            primaries, transfer, matrix = (u16(body, start + at)[0] for at in (4, 6, 8))
            colour = Colour(
                matrix=MATRIX.get(matrix), primaries=PRIMARIES.get(primaries), transfer=TRANSFER.get(transfer)
            )
            full = kind == b"nclx" and end - start >= 11
            return replace(colour, range=RANGE[body[start + 10] >> 7]) if full else colour
    return Colour()
