"""The keyed permutation: a bijection for every n and key, the same from both forms, all orders about equally likely."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, starmap
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.samplers.permutation import FEW, Permutation

SEED = st.integers(-(2**63), 2**64 - 1)


def order(n: int, *key: int) -> list[int]:
    return Permutation.keyed(n, key).many(np.arange(n)).tolist()


@pytest.mark.parametrize("n", [*range(130), FEW - 1, FEW, FEW + 1, 65_536, 65_537, 99_991])
def test_every_element_comes_once(n: int) -> None:
    assert sorted(order(n, 7, 1)) == list(range(n))


@given(n=st.integers(1, 3000), seed=SEED, epoch=SEED)
def test_every_element_comes_once_for_any_key(n: int, seed: int, epoch: int) -> None:
    assert sorted(order(n, seed, epoch)) == list(range(n))


@given(n=st.integers(1, 2**62), key=st.tuples(SEED, SEED), data=st.data())
def test_one_and_many_agree_and_stay_below_n(n: int, key: tuple[int, int], data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, n - 1), max_size=5))
    permutation = Permutation.keyed(n, key)
    many = permutation.many(np.array(indices, dtype=np.int64)).tolist()
    assert many == [permutation(i) for i in indices]
    assert all(0 <= i < n for i in many)


@given(n=st.integers(1, 2**62))
def test_the_network_is_hardly_larger_than_n(n: int) -> None:
    permutation = Permutation.keyed(n, (0,))
    assert 0 <= permutation.a * permutation.b - n < permutation.a


@pytest.mark.parametrize("index", [-1, 10])
def test_an_index_outside_is_refused(index: int) -> None:
    with pytest.raises(IndexError, match=r"outside 0\.\.9"):
        Permutation.keyed(10, (0,))(index)
    with pytest.raises(IndexError, match=r"outside 0\.\.9"):
        Permutation.keyed(10, (0,)).many(np.array([index]))


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_orders_of_a_few_elements_are_about_equally_likely(n: int) -> None:
    draws = 60 * factorial(n)
    seen = Counter(tuple(order(n, seed, 0)) for seed in range(draws))
    chi2_per_df = sum((seen[p] - 60) ** 2 / 60 for p in permutations(range(n))) / (factorial(n) - 1)
    assert chi2_per_df < 3  # 23 for n = 5 with four half rounds


def test_each_element_lands_everywhere_about_equally_often_just_above_few() -> None:
    n, draws, bins = FEW, 4000, 16
    lands = [Permutation.keyed(n, (seed, 3))(5) * bins // n for seed in range(draws)]
    expected = draws / bins
    assert sum((lands.count(b) - expected) ** 2 / expected for b in range(bins)) < 45  # p < 1e-4 for 15 df


def test_neighbouring_keys_and_swapped_keys_give_unrelated_orders() -> None:
    n = 5000
    keys = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (0, 2)]
    orders = [np.array(o) for o in starmap(order, [(n, *key) for key in keys])]
    fixed = [int((a == b).sum()) for i, a in enumerate(orders) for b in orders[:i]]
    assert max(fixed) < 12  # unrelated orders agree in one place on average
