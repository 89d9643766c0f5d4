"""Container bytes → stream facts + sample table. Parsers take `read_at(offset, size)`; they open no file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vidprep.containers import isobmff, matroska
from vidprep.containers.coded_order import in_shown_order
from vidprep.containers.filelike import ReadAhead
from vidprep.containers.named_encoder import as_its_encoder_wants
from vidprep.containers.not_media import not_media
from vidprep.containers.verify import doubts_of, field_doubts, verify
from vidprep.errors import NotMediaError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from vidprep.records import ParsedVideo, ReadAt

__all__ = ["parse_container"]

#: How many first bytes tell the container.
MAGIC_BYTES = 64
#: Bytes of the first read: they also tell where an ISO base media file has its movie box, if it has none in them.
HEAD_BYTES = 4 * 1024
EBML_MAGIC = b"\x1a\x45\xdf\xa3"

#: What an ISO base media or QuickTime file may start with: the type at bytes 4..8.
_ISO_BOXES = frozenset(
    {b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"wide", b"free", b"skip", b"sidx", b"pnot", b"uuid", b"pdin"}
)


def parse_container(
    read_at: ReadAt, size_bytes: int, *, verify_keys: bool = False, min_read_bytes: int = 0
) -> ParsedVideo:
    """Frame table and stream facts of one file.

    Args:
        read_at: `read_at(offset, size)` gives bytes of the file, fewer only at its end.
        size_bytes: length of the file.
        verify_keys: check every row's picture type in the head of its bytes, instead of believing the container
            wherever its tables give no reason to doubt.
        min_read_bytes: what to ask for at least where a read is dear (an object store).

    Raises:
        ContainerError: no frame table can be had; `reason` and `offset` say why.
    """
    if size_bytes == 0:
        raise NotMediaError("the file is empty", reason=Reason.EMPTY, offset=0)
    if min_read_bytes:
        read_at = ReadAhead(read_at, size_bytes, min_read_bytes)
    head = read_at(0, HEAD_BYTES)
    if head[4:8] in _ISO_BOXES and not head.startswith(EBML_MAGIC):
        parsed = isobmff.parse(read_at, size_bytes, head)
    else:
        parsed = _other_parser(head[:MAGIC_BYTES])(read_at, size_bytes)
    doubts = doubts_of(parsed) or field_doubts(parsed, read_at, size_bytes)
    if doubts or verify_keys:
        parsed = verify(parsed, read_at, doubts=doubts, size_bytes=size_bytes)
        if not parsed.table.num_frames:
            raise NotMediaError("no sample holds a picture that is shown", reason=Reason.NO_FRAMES)
    parsed = in_shown_order(parsed, read_at, size_bytes)
    return as_its_encoder_wants(parsed, read_at, size_bytes)


def _other_parser(head: bytes) -> Callable[[ReadAt, int], ParsedVideo]:
    """The parser for another file, which starts with `head`; PyAV's, which loads slowly, only where no other serves."""
    if head.startswith(EBML_MAGIC):
        return matroska.parse
    if why := not_media(head):
        raise NotMediaError(why, offset=0)
    from vidprep.containers import demux

    return demux.parse
