"""vidprep.loaders.engines.result_memory: memory comes back when the last view is gone, and not before."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from vidprep.loaders.engines.result_memory import MIN_BYTES, ResultMemory

SHAPE = (4, MIN_BYTES // 2)


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_an_array_is_as_numpy_would_make_it(dtype):
    for shape in (SHAPE, (0, 5), (3,), (2, *SHAPE)):
        array = ResultMemory().empty(shape, dtype)
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.flags.writeable
        assert array.flags.c_contiguous


def test_memory_is_used_again_when_nothing_looks_at_it():
    memory = ResultMemory()
    first = address(memory.empty(SHAPE, "uint8"))
    again = memory.empty(SHAPE, "uint8")
    assert address(again) == first
    assert address(memory.empty(SHAPE, "uint8")) != first


@pytest.mark.parametrize(
    "look", [lambda a: a[1], lambda a: a[1][::2].T, lambda a: memoryview(a), lambda a: np.frombuffer(a, np.uint8)]
)
def test_any_view_keeps_it(look):
    memory = ResultMemory()
    array = memory.empty(SHAPE, "uint8")
    array[:] = 7
    view = look(array)
    del array
    gc.collect()
    memory.empty(SHAPE, "uint8")[:] = 0
    assert (np.asarray(view) == 7).all()


def test_no_more_free_memory_is_kept_than_stated():
    memory = ResultMemory(max_free_bytes=3 * MIN_BYTES)
    arrays = [memory.empty((MIN_BYTES,), "uint8") for _ in range(9)]
    del arrays
    assert sum(map(len, memory._free)) <= 3 * MIN_BYTES
    memory.empty((4 * MIN_BYTES,), "uint8")
    assert sum(map(len, memory._free)) <= 3 * MIN_BYTES


def test_threads_never_share_memory():
    memory = ResultMemory()

    def fill(value):
        array = memory.empty(SHAPE, "uint8")
        array[:] = value
        return bool((array == value).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(fill, range(200)))
