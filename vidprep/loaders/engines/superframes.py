"""VP9 samples joined into superframes, so that one call decodes several (VP9 bitstream specification, annex B)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vidprep.containers.vpx_headers import vp9_frames
from vidprep.loaders.packets import Payloads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Most frames that the index of a superframe can name.
MAX_FRAMES = 8


def superframes(samples: Iterable[memoryview]) -> Payloads:
    """The frames of all samples in their order, hidden ones too, as many in each superframe as go in."""
    joined: list[bytes] = []
    frames: list[bytes] = []
    for sample in samples:
        for frame in vp9_frames(bytes(sample)):
            if len(frames) == MAX_FRAMES:
                joined.append(_superframe(frames))
                frames = []
            if frame:
                frames.append(frame)
    return Payloads.of([*joined, _superframe(frames)] if frames else joined)


def _superframe(frames: Sequence[bytes]) -> bytes:
    """Frames, and an index of their sizes between two markers."""
    size_bytes = (max(map(len, frames)).bit_length() + 7) // 8
    marker = bytes([0b110 << 5 | size_bytes - 1 << 3 | len(frames) - 1])
    sizes = (len(frame).to_bytes(size_bytes, "little") for frame in frames)
    return b"".join((*frames, marker, *sizes, marker))
