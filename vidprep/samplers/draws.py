"""Random numbers that are a function of a key and nothing else.

A counter-based hash: the elements of the key (seed, epoch, position, clip, ...) are mixed in one after the other with the
finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants of
Stafford's variant 13), so that (1, 2) and (2, 1), or seed + 1 and epoch + 1, are unrelated streams. Bounded integers are
unbiased: Lemire, "Fast random integer generation in an interval" (ACM TOMACS 2019), 64-bit words, multiply-high with
rejection. Every function has a form for one key (Python ints) and one for many (numpy); they give the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vidprep.timebase import IntArray

__all__ = ["Draw", "ManyDraws", "key_table", "state_of", "states_of", "word"]

WordArray = npt.NDArray[np.uint64]

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
#: Lane of the k-th retry of lane l is l + k * RETRY: lanes themselves stay far below.
RETRY = 1 << 40
#: Up to so many numbers Python's ints are quicker than numpy's arrays.
SHORT = 24


def word(state: int, element: int) -> int:
    """The 64-bit word of `state` at `element`; also the state after mixing that element in."""
    z = ((state + GAMMA) & MASK) ^ (element & MASK)
    z = ((z ^ (z >> 30)) * MIX_1) & MASK
    z = ((z ^ (z >> 27)) * MIX_2) & MASK
    return z ^ (z >> 31)


def words(states: WordArray, elements: WordArray) -> WordArray:
    """`word`, elementwise with broadcasting; arrays of one dimension at least (they wrap silently, scalars warn)."""
    z = (states + np.uint64(GAMMA)) ^ elements
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


@dataclass(frozen=True, slots=True)
class Draw:
    """The random numbers of one clip."""

    state: int

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
        if len(bounds) <= SHORT:
            return np.array(_below_few(self.state, bounds.tolist()), np.int64)
        return below_each(np.array([self.state], np.uint64), np.arange(1, bounds.shape[-1] + 1), bounds)


def _below_few(state: int, bounds: list[int]) -> list[int]:
    """`Draw.below` of each bound, lanes 1, 2, ...; `word` written out, as calls would take most of the time."""
    base = (state + GAMMA) & MASK
    drawn = []
    for lane, bound in enumerate(bounds, 1):
        z = base ^ lane
        z = ((z ^ (z >> 30)) * MIX_1) & MASK
        z = ((z ^ (z >> 27)) * MIX_2) & MASK
        product = (z ^ (z >> 31)) * bound
        drawn.append(product >> 64 if product & MASK >= bound else Draw(state).below(bound, lane))
    return drawn


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
