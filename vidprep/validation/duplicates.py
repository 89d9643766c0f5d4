"""Videos with the same coded pictures, byte for byte.

Candidates come from the index alone: as many samples, of the same sizes. Only their bytes are read and digested, so a
collection without duplicates costs no read at all, and an answer is never a guess.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import MediaError
from vidprep.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from vidprep.records import VideoLike
    from vidprep.timebase import IntArray

__all__ = ["candidates", "content_digest", "size_signatures"]

#: Bytes read at a time.
READ_BYTES = 4 << 20
#: Videos that are digested side by side, and handed to the threads that do it, at a time.
DIGESTS_AT_ONCE, VIDEOS_AT_ONCE = 8, 256
#: Odd multiplier of the hash of sizes (2**64 / golden ratio, as in Knuth's multiplicative hashing).
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def size_signatures(bounds: IntArray, sizes: IntArray) -> npt.NDArray[np.uint64]:
    """uint64 for each video: a hash of the list of its samples' sizes; 0 for a video without samples.

    Args:
        bounds: int64[videos + 1]: where each video's samples begin and end.
        sizes: bytes of each sample, all videos end to end.
    """
    signatures = np.zeros(len(bounds) - 1, np.uint64)
    lengths = np.diff(bounds)
    full = np.flatnonzero(lengths)
    if len(full):
        place = np.arange(len(sizes)) - np.repeat(bounds[:-1], lengths)
        mixed = (sizes.astype(np.uint64) + np.uint64(1)) * ((place.astype(np.uint64) * _MULTIPLIER) | np.uint64(1))
        mixed ^= mixed >> np.uint64(29)
        sums = np.add.reduceat(mixed * _MULTIPLIER, bounds[full])
        signatures[full] = sums ^ lengths[full].astype(np.uint64)
    return signatures


def candidates(signatures: npt.NDArray[np.uint64]) -> Iterator[IntArray]:
    """Groups of two or more places with one signature (not 0), ascending."""
    order = np.argsort(signatures, kind="stable")
    values = signatures[order]
    edges = np.flatnonzero(np.diff(values)) + 1
    for group in np.split(order, edges):
        if len(group) > 1 and signatures[group[0]] != 0:
            yield np.sort(group)


def content_digest(video: VideoLike) -> bytes | None:
    """BLAKE2b of the coded samples in decode order (of the whole file where they lie in pieces); None: unreadable."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open_source(video.uri, video.identity) as source:
            for offset, size in _ranges(video, source.identity.size_bytes):
                digest.update(source.read_at(offset, size))
    except MediaError:
        return None
    return digest.digest()


def _ranges(video: VideoLike, size_bytes: int) -> Iterable[tuple[int, int]]:
    """(offset, size) of what is digested; samples that follow each other are read at once."""
    if video.access == "demux":
        return ((at, READ_BYTES) for at in range(0, size_bytes, READ_BYTES))
    offsets, sizes = video.table.offset, video.table.size
    ends = offsets + sizes
    firsts = np.flatnonzero(np.concatenate(([True], offsets[1:] != ends[:-1])))
    lasts = np.append(firsts[1:], len(offsets)) - 1
    return _pieces(zip(offsets[firsts].tolist(), ends[lasts].tolist(), strict=True))


def _pieces(runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for begin, end in runs:
        for at in range(begin, end, READ_BYTES):
            yield at, min(READ_BYTES, end - at)


def same_content(videos: Any, group: IntArray) -> Iterator[tuple[int, int]]:
    """(video, the first video with the same bytes) among a group of candidates."""
    first: dict[bytes, int] = {}
    with ThreadPoolExecutor(DIGESTS_AT_ONCE) as threads:  # reading and hashing are both done without the GIL
        for begin in range(0, len(group), VIDEOS_AT_ONCE):
            places = group[begin : begin + VIDEOS_AT_ONCE].tolist()
            digests = threads.map(content_digest, [videos[place] for place in places])
            for place, digest in zip(places, digests, strict=True):
                if digest is not None and (earlier := first.setdefault(digest, place)) != place:
                    yield place, earlier
