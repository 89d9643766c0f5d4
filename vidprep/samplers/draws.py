"""Random numbers that are a function of a key and nothing else.

A counter-based hash: the elements of the key (seed, epoch, position, clip, ...) are mixed in one after the other with the
finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants of
Stafford's variant 13), so that (1, 2) and (2, 1), or seed + 1 and epoch + 1, are unrelated streams. Bounded integers are
unbiased: Lemire, "Fast random integer generation in an interval" (ACM TOMACS 2019), 64-bit words, multiply-high with
rejection. Every function has a form for one key (Python ints) and one for many (numpy); they give the same numbers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vidprep.timebase import IntArray

__all__ = ["FEW", "Draw", "ManyDraws", "key_table", "mask_of", "mixed", "state_of", "states_of", "word"]

WordArray = npt.NDArray[np.uint64]
Key = tuple[int, ...]

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
#: Lane of the k-th retry of lane l is l + k * RETRY: lanes themselves stay far below.
RETRY = 1 << 40
#: Up to so many numbers Python's ints are quicker than numpy's arrays.
FEW = 32


def word(state: int, element: int) -> int:
    """The 64-bit word of `state` at `element`; also the state after mixing that element in."""
    z = ((state + GAMMA) & MASK) ^ (element & MASK)
    z = ((z ^ (z >> 30)) * MIX_1) & MASK
    z = ((z ^ (z >> 27)) * MIX_2) & MASK
    return z ^ (z >> 31)


def words(states: WordArray, elements: WordArray) -> WordArray:
    """`word`, elementwise with broadcasting; arrays of one dimension at least (they wrap silently, scalars warn)."""
    return mixed((states + np.uint64(GAMMA)) ^ elements)


def mask_of(state: int) -> int:
    """What an element is combined with: `word(state, element)` is `mixed(mask_of(state) ^ element)`."""
    return (state + GAMMA) & MASK


def mixed(z: WordArray) -> WordArray:
    """The finaliser of SplitMix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


def state_of(key: Iterable[int]) -> int:
    """State after all elements of the key, each taken modulo 2**64."""
    state = 0
    for element in key:
        state = word(state, int(element))
    return state


def key_table(keys: Sequence[Sequence[int]] | npt.NDArray[np.generic]) -> WordArray:
    """uint64[V, K] from V keys of equal length; negative elements and those past 2**63 as `state_of` takes them."""
    try:
        return np.asarray(keys, dtype=np.int64).view(np.uint64)
    except OverflowError:
        return np.array([[element & MASK for element in key] for key in keys], dtype=np.uint64)


def states_of(keys: WordArray, last: IntArray) -> WordArray:
    """uint64[V]: `state_of((*key, last))` of each row."""
    states = np.zeros(len(keys), dtype=np.uint64)
    for column in keys.T:
        states = words(states, column)
    return words(states, last.astype(np.uint64))


def high_product(a: WordArray, b: WordArray) -> WordArray:
    """Upper 64 bits of a * b, from four products of 32-bit halves."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    product: WordArray = a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & low)) >> half)
    return product


def below_each(states: WordArray, lanes: IntArray, bounds: IntArray) -> IntArray:
    """Uniform int64 in [0, bounds), broadcast over the three; bounds > 0."""
    elements, limits = lanes.astype(np.uint64), bounds.astype(np.uint64)
    drawn = words(states, elements)
    result = high_product(drawn, limits)
    low = drawn * limits
    doubtful = low < limits
    if doubtful.any():
        states, elements, limits = (np.broadcast_to(part, low.shape) for part in (states, elements, limits))
        _redraw(result, low, doubtful, states, elements, limits)
    return result.view(np.int64)


def _redraw(
    result: WordArray, low: WordArray, doubtful: npt.NDArray[np.bool_],
    states: WordArray, elements: WordArray, limits: WordArray,
) -> None:  # fmt: skip
    """Replace, in place, the few results whose low product falls under 2**64 mod bound (they would be too likely)."""
    for place in np.argwhere(doubtful):
        at = tuple(place)
        state, element, limit = int(states[at]), int(elements[at]), int(limits[at])
        if int(low[at]) < (1 << 64) % limit:
            result[at] = Draw(state).below(limit, lane=element)


class Draw:
    """The random numbers of one clip."""

    __slots__ = ("_key", "_state")

    def __init__(self, state: int | None, key: tuple[Key, int] = ((), 0)) -> None:
        self._state = state
        self._key = key

    @classmethod
    def of(cls, key: Key, last: int) -> Draw:
        """With the state `state_of((*key, last))`, mixed when the first number is drawn."""
        return cls(None, (key, last))

    @property
    def state(self) -> int:
        """64-bit word that stands for the key."""
        if self._state is None:
            key, last = self._key
            self._state = word(_state(key), int(last))
        return self._state

    def below(self, bound: int, lane: int = 0) -> int:
        """Uniform integer in [0, bound); bound > 0."""
        product = word(self.state, lane) * bound
        if (product & MASK) < bound:
            floor = (1 << 64) % bound
            while (product & MASK) < floor:
                lane += RETRY
                product = word(self.state, lane) * bound
        return product >> 64

    def below_each(self, bounds: IntArray) -> IntArray:
        """int64[F]: uniform in [0, bounds), a number for each frame (lanes 1, 2, ...)."""
        if len(bounds) <= FEW:
            return np.array(self._below_few(bounds.tolist()), np.int64)
        return below_each(np.array([self.state], np.uint64), np.arange(1, bounds.shape[-1] + 1), bounds)

    def _below_few(self, bounds: list[int]) -> list[int]:
        count = len(bounds)
        drawn = struct.unpack(f"<{2 * count}Q", _few_words(self.state, count).to_bytes(16 * count, "little"))[::2]
        products = [word * bound for word, bound in zip(drawn, bounds, strict=True)]
        if bounds and min([product & MASK for product in products]) < max(bounds):  # one may be too likely
            return [self.below(bound, lane) for lane, bound in enumerate(bounds, 1)]
        return [product >> 64 for product in products]

    def in_parts(self, bound: int, count: int) -> list[int]:
        """One number of each of `count` equal parts of 0 .. bound−1, that is, of [i·bound//count, (i+1)·bound//count).

        begin + `below` of lane i + 1 and the part's size; the begin of an empty part. At most FEW parts.
        """
        size, rest = divmod(bound, count)
        begins, longer = _parts(count, rest)
        drawn = _few_words(self.state, count)
        products = (drawn * size + (drawn & longer)).to_bytes(16 * count, "little")
        halves = struct.unpack(f"<{2 * count}Q", products)
        if size and min(halves[::2]) <= size:  # one may be too likely
            bounds = [i * bound // count for i in range(count + 1)]
            return [a + self.below(b - a, lane) for lane, (a, b) in enumerate(pairwise(bounds), 1)]
        return [i * size + begin + number for i, begin, number in zip(range(count), begins, halves[1::2], strict=True)]


def _state(key: Key) -> int:
    """`state_of`; what neighbouring clips share, all of the key but its last element, is mixed once."""
    return word(_shared(tuple(key[:-1])), int(key[-1])) if len(key) else 0


@lru_cache(maxsize=64)
def _shared(key: Key) -> int:
    return state_of(key)


def _few_words(state: int, count: int) -> int:
    """`word` of lanes 1 .. count, side by side in one long int: 128 bits a lane, which a product of two words fills."""
    each, lanes, mask = _lanes(count)
    z = each * ((state + GAMMA) & MASK) ^ lanes
    z = ((z ^ (z >> 30)) & mask) * MIX_1 & mask
    z = ((z ^ (z >> 27)) & mask) * MIX_2 & mask
    return (z ^ (z >> 31)) & mask


@lru_cache(maxsize=64)
def _lanes(count: int) -> tuple[int, int, int]:
    """1 in every lane, the lane's number in every lane, and the lower 64 bits of every lane."""
    each = sum(1 << 128 * lane for lane in range(count))
    return each, sum((lane + 1) << 128 * lane for lane in range(count)), each * MASK


@lru_cache(maxsize=1024)
def _parts(count: int, rest: int) -> tuple[tuple[int, ...], int]:
    """Where parts of 0 .. rest−1 begin, and the lanes of those that are longer (by one) than the others."""
    begins = [i * rest // count for i in range(count + 1)]
    longer = sum(MASK << 128 * i for i, (a, b) in enumerate(pairwise(begins)) if b > a)
    return tuple(begins[:-1]), longer


@dataclass(frozen=True, slots=True)
class ManyDraws:
    """`Draw` for V clips: every number is an int64[V, 1], or int64[V, F] where each frame has its own."""

    states: WordArray
    """uint64[V, 1]"""

    def below(self, bound: IntArray | int, lane: int = 0) -> IntArray:
        """int64[V, 1]: as `Draw.below`."""
        return below_each(self.states, np.array([lane]), np.atleast_1d(np.asarray(bound)))

    def below_each(self, bounds: IntArray) -> IntArray:
        """int64[V, F]: as `Draw.below_each`."""
        return below_each(self.states, np.arange(1, bounds.shape[-1] + 1), bounds)
