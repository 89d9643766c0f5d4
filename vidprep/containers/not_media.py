"""Files that are certainly no video, by their first bytes: cheaper and safer than letting FFmpeg guess."""

from __future__ import annotations

_PNG = b"\x89PNG\r\n\x1a\n"
#: Type of the chunk that makes a PNG file an animated one; it stands near the front, before the first picture.
_ANIMATED = b"acTL"
_STARTS = {
    b"version https://git-lfs": "a Git LFS pointer; the file itself was not fetched",
    b"<": "markup text",
    b"{": "text (JSON)",
    b"#EXTM3U": "a playlist",
    b"#!": "a script",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "gzip-compressed data",
    _PNG: "a single picture (PNG)",
}
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
#: Text containers of video: their header is text, what follows is not.
_TEXT_HEADERS = (b"YUV4MPEG2",)
_TEXT = frozenset(range(0x20, 0x7F)) | set(b"\t\n\r\f")


def not_media(head: bytes) -> str | None:
    """What a file is that is no video, or None if it may be one.

    Args:
        head: its first bytes, MAGIC_BYTES or the whole file.
    """
    if head.startswith(_PNG) and _ANIMATED in head:
        return None
    for mark in _MARKS:
        head = head.removeprefix(mark)
    stripped = head.lstrip()
    for start, what in _STARTS.items():
        if stripped.startswith(start):
            return what
    if head and not head.startswith(_TEXT_HEADERS) and all(byte in _TEXT for byte in head):
        return "plain text"
    return None
