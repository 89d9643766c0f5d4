"""A keyed permutation of 0..n−1 that needs no table: any place of a shuffled epoch in O(1) time and memory.

A Feistel network over Z_a × Z_b with a·b just above n (Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
CT-RSA 2002: generalised Feistel, cycle walking). x = l·b + r; each half round adds a hash of one half to the other,
modulo a or b. Whatever the hash, a half round is undone by subtracting, so the network is a bijection of 0..a·b−1.
Values that fall at n or above are fed through again ("walked") until they fall below: that keeps the bijection, and
since a·b − n < a ≈ √n it hardly ever happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from vidprep.samplers.draws import MASK, MIX_1, MIX_2, WordArray, mask_of, mixed, state_of, word

if TYPE_CHECKING:
    from vidprep.timebase import IntArray

__all__ = ["Permutation"]

#: Half rounds, even. With n small the halves carry few bits: below FEW elements more rounds make all n! orders about
#: equally likely (chi-squared per degree of freedom for n = 5: 23 with 4 half rounds, 6 with 6, 1.1 with 12).
NUM_ROUNDS = 6
NUM_ROUNDS_FEW = 16
FEW = 4096


@dataclass(frozen=True, slots=True)
class Permutation:
    """A bijection of 0..n−1, picked by a key; build it with `keyed`."""

    n: int
    a: int
    b: int
    """a·b ≥ n, a·b − n < a: the halves of the network run over 0..a−1 and 0..b−1"""
    round_keys: tuple[tuple[int, int], ...]
    """64-bit words that the halves are combined with before they are mixed, two half rounds each"""

    @classmethod
    def keyed(cls, n: int, key: tuple[int, ...]) -> Permutation:
        """The permutation of 0..n−1 that belongs to a tuple of integers, such as (seed, epoch)."""
        a = isqrt(max(n - 1, 0)) + 1
        state = state_of(key)
        rounds = range(0, NUM_ROUNDS_FEW if n < FEW else NUM_ROUNDS, 2)
        return cls(n, a, -(-n // a), tuple((mask_of(word(state, i)), mask_of(word(state, i + 1))) for i in rounds))

    def __call__(self, index: int) -> int:
        """Where `index` goes; IndexError outside 0..n−1."""
        if not 0 <= index < self.n:
            raise IndexError(f"index {index} is outside 0..{self.n - 1}")
        a, b = self.a, self.b
        while True:
            left, right = divmod(index, b)
            for key_left, key_right in self.round_keys:  # `mixed` written out: calls would take half of the time
                z = key_left ^ right
                z = ((z ^ (z >> 30)) * MIX_1) & MASK
                z = ((z ^ (z >> 27)) * MIX_2) & MASK
                left = (left + (z ^ (z >> 31))) % a
                z = key_right ^ left
                z = ((z ^ (z >> 30)) * MIX_1) & MASK
                z = ((z ^ (z >> 27)) * MIX_2) & MASK
                right = (right + (z ^ (z >> 31))) % b
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

    def _network(self, x: WordArray) -> WordArray:
        a, b = np.uint64(self.a), np.uint64(max(self.b, 1))
        left, right = x // b, x % b
        for key_left, key_right in self.round_keys:
            left = (left + mixed(np.uint64(key_left) ^ right) % a) % a
            right = (right + mixed(np.uint64(key_right) ^ left) % b) % b
        return left * b + right
