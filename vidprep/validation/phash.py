"""Perceptual hashes, and all pairs of them that differ in a few bits.

The hash is the common DCT hash (Zauner, "Implementation and Benchmarking of Perceptual Image Hash Functions", 2010): the
64 lowest frequencies of a 32 x 32 luma thumbnail, each compared with their median. The look-up is multi-index hashing
(Norouzi, Punjani, Fleet, "Fast Search in Hamming Space with Multi-Index Hashing", CVPR 2012): two hashes that differ in
at most 7 bits have one of four 16-bit bands that differs in at most 1 bit, so every pair is found by sorting each band
and probing 17 values of it. The work grows with n²/65536 for random hashes, not with n².
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from vidprep.timebase import IntArray

__all__ = ["MAX_BITS", "alike_pairs", "hash_of", "near_videos"]

Hashes = npt.NDArray[np.uint64]

SIDE, LOW = 32, 8
MAX_BITS = 7
BANDS, BAND_BITS = 4, 16
#: Pairs that are compared at a time.
CHUNK_PAIRS = 1 << 22


def _dct() -> npt.NDArray[np.float64]:
    """The lowest rows of the DCT-II matrix, without the constant one in each direction but the first."""
    k, x = np.arange(LOW)[:, None], np.arange(SIDE)[None, :]
    matrix: npt.NDArray[np.float64] = np.cos(np.pi * k * (2 * x + 1) / (2 * SIDE))
    return matrix


_DCT = _dct()


def hash_of(luma: npt.NDArray[np.uint8]) -> int:
    """64 bits of a uint8 (32, 32) thumbnail."""
    low = (_DCT @ luma.astype(np.float64) @ _DCT.T).ravel()
    bits = low > np.median(low[1:])
    bits[0] = False  # the mean: brightness says nothing
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


def alike_pairs(hashes: Hashes, max_bits: int) -> tuple[IntArray, IntArray]:
    """All pairs (i < j) of distinct hashes that differ in at most `max_bits`, each once.

    Args:
        hashes: uint64[n], ascending, no repeats.
        max_bits: 0 to 7.
    """
    if not 0 <= max_bits <= MAX_BITS:
        raise ValueError(f"max_bits is 0 to {MAX_BITS}, not {max_bits}")
    found = [np.zeros((2, 0), np.int64)]
    for band in range(BANDS):
        values = ((hashes >> np.uint64(band * BAND_BITS)) & np.uint64(0xFFFF)).astype(np.int64)
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        flips = (1 << bit for bit in range(BAND_BITS)) if max_bits >= BANDS else ()
        for flip in (0, *flips):
            low = np.searchsorted(ordered, values ^ flip, side="left")
            high = np.searchsorted(ordered, values ^ flip, side="right")
            found += _near(hashes, order, low, high, max_bits)
    pairs = np.unique(np.concatenate(found, axis=1), axis=1)
    return pairs[0], pairs[1]


def _num_bits(words: Hashes) -> npt.NDArray[np.uint64]:
    """Set bits of each word (the usual sums of neighbours; numpy counts them itself from 2.0 on)."""
    words = words - ((words >> np.uint64(1)) & np.uint64(0x5555555555555555))
    words = (words & np.uint64(0x3333333333333333)) + ((words >> np.uint64(2)) & np.uint64(0x3333333333333333))
    words = (words + (words >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (words * np.uint64(0x0101010101010101)) >> np.uint64(56)


def _near(hashes: Hashes, order: IntArray, low: IntArray, high: IntArray, max_bits: int) -> list[IntArray]:
    """Pairs (hash i, hash order[low[i]:high[i]]) that are alike, a bounded number compared at a time."""
    counts = high - low
    ends = np.cumsum(counts)
    found = []
    begin = 0
    while begin < len(counts):
        done = int(ends[begin - 1]) if begin else 0
        stop = max(int(np.searchsorted(ends, done + CHUNK_PAIRS, side="right")), begin + 1)
        some = counts[begin:stop]
        i = np.repeat(np.arange(begin, stop), some)
        j = order[
            np.arange(int(some.sum())) - np.repeat(np.cumsum(some) - some, some) + np.repeat(low[begin:stop], some)
        ]
        keep = (i < j) & (_num_bits(hashes[i] ^ hashes[j]) <= max_bits)
        found.append(np.stack([i[keep], j[keep]]))
        begin = stop
    return found


def near_videos(
    videos: IntArray, hashes: Hashes, *, max_bits: int, min_share: float
) -> list[tuple[int, int, int, int]]:
    """Videos that look alike.

    Args:
        videos: int64[n]: whose hash each is, ascending.
        hashes: uint64[n].
        max_bits: hashes that differ in at most so many are alike.
        min_share: of the fewer distinct hashes of the two that must be alike.

    Returns:
        (video, an earlier one, alike hashes, hashes of the one that has fewer): for each video the earlier one with
        most in common.
    """
    unique, which = np.unique(hashes, return_inverse=True)
    owners = np.unique(np.stack([which, videos]), axis=1)  # by hash, then video; one entry however often
    a, b = alike_pairs(unique, max_bits)
    same = np.arange(len(unique))
    a, b = np.concatenate([a, same]), np.concatenate([b, same])
    alike: dict[tuple[int, int], tuple[set[int], set[int]]] = {}
    bounds = np.searchsorted(owners[0], np.arange(len(unique) + 1))
    for one, other in zip(a.tolist(), b.tolist(), strict=True):
        _note(alike, owners[1], bounds, one, other)
    totals = np.bincount(owners[1], minlength=int(videos.max(initial=-1)) + 1)
    return _best(alike, totals, min_share)


#: Videos that share one picture (a title card) beyond which only neighbours among them are compared.
MAX_SHARERS = 64


def _note(
    alike: dict[tuple[int, int], tuple[set[int], set[int]]], owner: IntArray, bounds: IntArray, one: int, other: int
) -> None:
    """Note which videos have two alike hashes."""
    left = owner[bounds[one] : bounds[one + 1]].tolist()
    right = owner[bounds[other] : bounds[other + 1]].tolist()
    for place, x in enumerate(left):
        window = right[place + 1 : place + 1 + MAX_SHARERS] if one == other else right[:MAX_SHARERS]
        for y in window:
            if x != y:
                first, second, hashes = (y, x, (other, one)) if y < x else (x, y, (one, other))
                sets = alike.setdefault((first, second), (set(), set()))
                sets[0].add(hashes[0])
                sets[1].add(hashes[1])


def _best(
    alike: dict[tuple[int, int], tuple[set[int], set[int]]], totals: IntArray, min_share: float
) -> list[tuple[int, int, int, int]]:
    best: dict[int, tuple[int, int, int]] = {}
    for (earlier, video), (of_earlier, of_video) in alike.items():
        fewer = int(min(totals[earlier], totals[video]))
        common = min(len(of_video) if totals[video] <= totals[earlier] else len(of_earlier), fewer)
        if common >= min_share * fewer and (video not in best or common > best[video][1]):
            best[video] = (earlier, common, fewer)
    return sorted((video, earlier, common, fewer) for video, (earlier, common, fewer) in best.items())
