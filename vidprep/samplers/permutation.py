"""A keyed permutation of 0..n−1 that needs no table: any place of a shuffled epoch in O(1) time and memory.

A Feistel network over Z_a × Z_b with a·b just above n (Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
CT-RSA 2002, generalised Feistel with cycle walking). x = l·b + r; each round adds a hash of one half to the other,
modulo a or b. Whatever the hash, a round is undone by subtracting, so the network is a bijection of 0..a·b−1.
Values that fall at n or above are fed through again ("walked") until they fall below: that keeps the bijection, and
since a·b − n < a ≈ √n it hardly ever happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from vidprep.samplers.random import key_bits

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.timebase import IntArray

#: Half rounds; even, so that both halves are mixed equally often.
NUM_ROUNDS = 8
_MASK = (1 << 64) - 1
_MUL_1, _MUL_2 = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53


def _mix(x: int) -> int:
    """MurmurHash3's 64-bit finaliser (Appleby): a fixed bijection of 64-bit words in which every bit matters."""
    x = (x ^ (x >> 33)) * _MUL_1 & _MASK
    x = (x ^ (x >> 33)) * _MUL_2 & _MASK
    return x ^ (x >> 33)


def _mix_many(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`_mix` of each element."""
    x = (x ^ (x >> np.uint64(33))) * np.uint64(_MUL_1)
    x = (x ^ (x >> np.uint64(33))) * np.uint64(_MUL_2)
    return x ^ (x >> np.uint64(33))


@dataclass(frozen=True, slots=True)
class Permutation:
    """A bijection of 0..n−1, picked by round keys.

    Args:
        n: number of elements.
        round_keys: NUM_ROUNDS 64-bit words.
    """

    n: int
    round_keys: tuple[int, ...]

    @classmethod
    def keyed(cls, n: int, *key: int) -> Permutation:
        """The permutation of 0..n−1 that belongs to a tuple of integers, such as (seed, epoch)."""
        return cls(n, tuple(key_bits(*key, n, i) for i in range(NUM_ROUNDS)))

    @property
    def shape(self) -> tuple[int, int]:
        """(a, b), as square as can be, with a·b ≥ n and a·b − n < a."""
        a = isqrt(max(self.n - 1, 0)) + 1
        return a, -(-self.n // a) or 1

    def __call__(self, index: int) -> int:
        """Where `index` goes; IndexError outside 0..n−1."""
        if not 0 <= index < self.n:
            raise IndexError(f"index {index} is outside 0..{self.n - 1}")
        a, b = self.shape
        while True:
            left, right = divmod(index, b)
            keys = iter(self.round_keys)
            for key in keys:
                left = (left + _mix(right ^ key)) % a
                right = (right + _mix(left ^ next(keys))) % b
            index = left * b + right
            if index < self.n:
                return index

    def many(self, indices: IntArray) -> IntArray:
        """Where each of int64[m] indices goes: `__call__`, element by element; IndexError outside 0..n−1."""
        if len(indices) and not (int(indices.min()) >= 0 and int(indices.max()) < self.n):
            raise IndexError(f"an index is outside 0..{self.n - 1}")
        moved = self._network(indices.astype(np.uint64))
        outside = np.flatnonzero(moved >= self.n)
        while len(outside):
            moved[outside] = self._network(moved[outside])
            outside = outside[moved[outside] >= self.n]
        return moved.astype(np.int64)

    def _network(self, x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        a, b = map(np.uint64, self.shape)
        left, right = x // b, x % b
        keys = iter(self.round_keys)
        for key in keys:
            left = (left + _mix_many(right ^ np.uint64(key)) % a) % a
            right = (right + _mix_many(left ^ np.uint64(next(keys))) % b) % b
        return left * b + right
