"""Work that runs ahead: order, bounds, errors and ends."""

from __future__ import annotations

import threading
import time

import pytest

from vidprep.loaders.readahead import Background, Depth, Ordered

pytestmark = pytest.mark.timeout(60)


def test_results_come_in_the_order_of_the_items():
    def work(n):
        time.sleep(0.002 * (n % 3))
        return n * n

    assert list(Ordered(work, range(40), threads=8, depth=16)) == [n * n for n in range(40)]


def test_no_more_than_depth_items_are_begun_and_not_taken():
    begun = []
    results = Ordered(lambda n: begun.append(n), range(100), threads=4, depth=5)
    for taken in range(1, 20):
        next(results)
        assert len(begun) <= taken + 5
    results.close()


def test_small_results_may_wait_in_greater_number_and_large_ones_never_push_below_the_least():
    depth = Depth(5, 20, 1000)
    assert depth() == 5
    for num_bytes, expected in ((10, 20), (50, 20), (100, 10), (60, 10), (500, 5), (10_000, 5)):
        depth.see(num_bytes)
        assert depth() == expected


def test_the_depth_is_asked_for_whenever_more_may_begin():
    begun = []
    depth = Depth(3, 8, 80)
    results = Ordered(lambda n: begun.append(n), range(100), threads=4, depth=depth)
    next(results)
    assert len(begun) <= 4
    depth.see(10)
    for taken in range(2, 12):
        next(results)
        assert len(begun) <= taken + 8
    depth.see(1000)  # fewer from now on: nothing begins until enough were taken
    before = len(results._begun)
    next(results)
    assert len(results._begun) < before
    results.close()


def test_an_error_comes_where_its_result_was_due():
    def work(n):
        return 1 // (3 - n)

    results = Ordered(work, range(6), threads=2, depth=6)
    assert [next(results) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_closing_cancels_what_has_not_begun():
    done = []

    def work(n):
        time.sleep(0.01)
        done.append(n)

    results = Ordered(work, range(1000), threads=1, depth=500)
    next(results)
    results.close()
    assert len(done) < 10


def test_background_hands_over_items_errors_and_the_end():
    assert list(Background(iter(range(10)), 2)) == list(range(10))

    def failing():
        yield 1
        raise KeyError("x")

    items = Background(failing(), 2)
    assert next(items) == 1
    with pytest.raises(KeyError):
        next(items)
    with pytest.raises(StopIteration):
        next(items)


def test_background_closes_its_source_in_its_own_thread_and_ends():
    closed = []

    def source():
        try:
            n = 0
            while True:
                yield n
                n += 1
        finally:
            closed.append(threading.current_thread().name)

    items = Background(source(), 2)
    next(items)
    items.close()
    items.close()
    assert closed == ["vidprep-batch"]


def test_a_thread_that_is_gone_without_a_word_is_an_error():
    items = Background(iter(range(1)), 1)
    assert next(items) == 0
    items._thread.join()
    items._drain()  # as if it had died before it could say that it ended
    with pytest.raises(RuntimeError, match="died"):
        next(items)
