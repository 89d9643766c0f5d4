"""Random numbers as a function of a key: one and many agree, bounded without bias, keys that add up differ."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vidprep.samplers.draws import FEW, MASK, Draw, ManyDraws, high_product, key_table, state_of, states_of, word

WORDS = st.integers(0, MASK)


def test_the_mixer_is_splitmix64_with_stafford_13() -> None:
    """First outputs of SplitMix64 from seed 0 (the generator's published test values)."""
    state, outputs = 0, []
    for _ in range(3):
        outputs.append(word(state, 0))
        state = (state + 0x9E3779B97F4A7C15) & MASK
    assert [hex(value) for value in outputs] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), WORDS, st.integers(0, 99)), min_size=1, max_size=20))
def test_many_states_are_each_as_one(keys: list[tuple[int, int, int]]) -> None:
    many = states_of(key_table([key[:2] for key in keys]), np.array([key[2] for key in keys]))
    assert [int(state) for state in many] == [state_of(key) for key in keys]


@given(st.lists(st.tuples(WORDS, st.integers(1, 2**62)), min_size=1, max_size=20))
def test_many_draws_are_each_as_one(pairs: list[tuple[int, int]]) -> None:
    states = np.array([[state] for state, _ in pairs], dtype=np.uint64)
    bounds = np.array([[bound] for _, bound in pairs])
    many = ManyDraws(states).below(bounds)[:, 0].tolist()
    assert many == [Draw(state).below(bound) for state, bound in pairs]
    assert all(0 <= value < bound for value, (_, bound) in zip(many, pairs, strict=True))


@given(WORDS, WORDS)
def test_the_high_word_of_a_product(a: int, b: int) -> None:
    got = high_product(np.array([a], np.uint64), np.array([b], np.uint64))
    assert int(got[0]) == (a * b) >> 64


def test_keys_whose_sums_agree_are_unrelated() -> None:
    states = {key: state_of(key) for key in product(range(6), repeat=3)}
    assert len(set(states.values())) == len(states)


def test_numbers_below_a_bound_are_even() -> None:
    drawn = ManyDraws(states_of(key_table(np.arange(60_000)[:, None]), np.zeros(60_000, np.int64))[:, None])
    counts = np.bincount(drawn.below(np.full((60_000, 1), 6))[:, 0], minlength=6)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 20.5  # chi-square, 5 degrees of freedom: once in a thousand


@given(st.tuples(st.integers(), st.integers(), st.integers()), st.integers(1, FEW), st.integers(0, 1 << 40))
def test_a_number_of_each_part_is_drawn_as_one_by_one(key: tuple[int, int, int], count: int, bound: int) -> None:
    draw = Draw.of(key, 4)
    assert draw.state == state_of((*key, 4))
    bounds = [i * bound // count for i in range(count + 1)]
    expected = [a + draw.below(max(b - a, 1), lane) for lane, (a, b) in enumerate(pairwise(bounds), 1)]
    assert draw.in_parts(bound, count) == expected


def test_a_number_that_would_be_too_likely_is_drawn_again_in_parts_too() -> None:
    bound = 3 * ((1 << 63) + 1)  # every second draw is refused
    for seed in range(40):
        draw = Draw(state_of((seed,)))
        expected = [lane * (bound // 3) + draw.below(bound // 3, lane + 1) for lane in range(3)]
        assert draw.in_parts(bound, 3) == expected
