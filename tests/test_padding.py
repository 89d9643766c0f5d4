"""Paddings: laws for any range, against numpy.pad where it has the mode."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidprep.errors import SamplingError
from vidprep.samplers.padding import ALIASES, PAD_MODES, canonical_pad, resolve

NUMPY_MODES = {"edge": "edge", "reflect_101": "reflect", "reflect_1001": "symmetric", "wrap": "wrap"}


@pytest.mark.parametrize(("ours", "theirs"), NUMPY_MODES.items())
@given(low=st.integers(0, 50), n=st.integers(1, 12), front=st.integers(0, 40), back=st.integers(0, 40))
def test_pads_are_numpys(ours: str, theirs: str, low: int, n: int, front: int, back: int) -> None:
    places = np.arange(low - front, low + n + back)
    index, is_padding = resolve(places, low, low + n, ours)
    assert index.tolist() == np.pad(np.arange(low, low + n), (front, back), mode=theirs).tolist()
    assert is_padding.tolist() == [True] * front + [False] * n + [True] * back


@given(st.integers(0, 9), st.integers(1, 9), st.lists(st.integers(-30, 30), min_size=1, max_size=12))
def test_every_mode_fills_with_frames_of_the_range_or_says_no(low: int, n: int, places: list[int]) -> None:
    wanted = np.array(places)
    for mode in PAD_MODES:
        try:
            index, is_padding = resolve(wanted, low, low + n, mode)
        except SamplingError:
            assert mode in ("drop", "error")
            assert ((wanted < low) | (wanted >= low + n)).any()
            continue
        inside = (index >= low) & (index < low + n)
        assert inside.all() if mode != "constant" else (inside | (is_padding & (index == -1))).all()


def test_shift_moves_the_whole_clip_and_marks_only_what_does_not_fit() -> None:
    assert resolve(np.array([8, 9, 10, 11]), 0, 10, "shift")[0].tolist() == [6, 7, 8, 9]
    index, is_padding = resolve(np.array([0, 1, 2, 3]), 0, 3, "shift")
    assert (index.tolist(), is_padding.tolist()) == ([0, 1, 2, 2], [False, False, False, True])


def test_an_entry_of_a_list_outside_is_an_error_with_none() -> None:
    assert resolve(np.array([8, 9, 10]), 0, 10, "none")[0].tolist() == [8, 9]
    with pytest.raises(SamplingError, match="frames 10 lie outside"):
        resolve(np.array([8, 9, 10]), 0, 10, "none", is_list=True)


def test_aliases_are_other_peoples_names_and_others_are_refused() -> None:
    assert {alias: canonical_pad(alias) for alias in ALIASES} == ALIASES
    with pytest.raises(SamplingError, match="expected one of"):
        canonical_pad("blah")
