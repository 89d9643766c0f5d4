"""Long keys do not pile up, and are not computed over and over either."""

from __future__ import annotations

import tracemalloc

from vidprep.containers.codecconfig import codec_facts
from vidprep.containers.remembered import MAX_KEY_BYTES, remembered


def test_calls_with_short_keys_are_all_remembered() -> None:
    calls: list[bytes] = []
    look_up = remembered(8)(calls.append)
    for key in (b"a", b"b", b"a", b"b"):
        look_up(key)
    assert calls == [b"a", b"b"]


def test_of_long_keys_the_last_is_remembered() -> None:
    calls: list[bytes] = []
    look_up = remembered(8)(calls.append)
    first, second = bytes(MAX_KEY_BYTES + 1), bytes(MAX_KEY_BYTES + 2)
    for key in (first, first, second, first):
        look_up(key)
    assert calls == [first, second, first]


def test_megabytes_of_configuration_do_not_stay_in_memory() -> None:
    tracemalloc.start()
    try:
        for number in range(20):
            codec_facts("h264", number.to_bytes(4, "big") + bytes(1 << 20))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3 << 20
