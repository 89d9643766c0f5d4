"""The pool of persistent decoders, over plain objects."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from vidprep.loaders.engines.decoder_pool import DecoderPool

pytestmark = pytest.mark.timeout(60)


class Decoder:
    def __init__(self, key):
        self.key, self.users = key, 0


def test_a_decoder_is_used_again_for_its_kind_only():
    pool = DecoderPool(Decoder, 4)
    with pool.lend("a") as first:
        pass
    with pool.lend("b") as other, pool.lend("a") as again:
        assert again is first
        assert other.key == "b"
    assert pool.num_created == 2


def test_the_decoder_idle_for_longest_gives_way():
    pool = DecoderPool(Decoder, 2)
    for key in ("a", "b", "a", "c", "a"):
        with pool.lend(key) as decoder:
            assert decoder.key == key
    assert (pool.num_created, pool.num_evicted, pool.num_alive) == (3, 1, 2)


def test_a_decoder_whose_user_failed_is_not_used_again():
    pool = DecoderPool(Decoder, 1)
    with pytest.raises(KeyError), pool.lend("a") as first:
        raise KeyError
    assert pool.num_alive == 0
    with pool.lend("a") as second:
        assert second is not first


def test_a_decoder_that_cannot_be_made_frees_its_place():
    def fail(key):
        raise OSError(key)

    pool = DecoderPool(fail, 1)
    for _ in range(3):
        with pytest.raises(OSError, match="a"), pool.lend("a"):
            pass
    assert pool.num_alive == 0


def test_threads_never_share_a_decoder_and_never_exceed_the_limit():
    pool, lock, most = DecoderPool(Decoder, 3), threading.Lock(), [0]

    def work(n):
        with pool.lend(n % 5) as decoder:
            with lock:
                decoder.users += 1
                most[0] = max(most[0], pool.num_alive)
            assert decoder.users == 1
            decoder.users -= 1

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(work, range(600)))
    assert most[0] <= 3


def test_closing_wakes_those_who_wait_with_an_error():
    pool, errors = DecoderPool(Decoder, 1), []

    def wait():
        try:
            with pool.lend("b"):
                pass
        except RuntimeError as error:
            errors.append(str(error))

    with pool.lend("a"):
        thread = threading.Thread(target=wait)
        thread.start()
        pool.close()
        thread.join()
    assert errors == ["the decoder pool is closed"]
    assert pool.num_alive == 0
