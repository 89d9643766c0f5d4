"""Limits of one file among many, in a process of its own: what is over time or memory ends, the others go on."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _run(body: str) -> list[str]:
    head = "import resource, signal, time\nfrom vidprep.errors import LimitError\n"
    head += "from vidprep.indexes.limits import Limits, enforce\n"
    run = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(body)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_each_block_has_all_its_time_and_no_more() -> None:
    """The alarm of a block rings in a later one, which has only begun: that one must not pay for it."""
    out = _run("""
        enforce()
        limits = Limits(0.6, 1 << 30)
        for seconds in (0.4, 0.4, 0.4, 9.0, 0.4, 9.0, 0.4):
            begun = time.monotonic()
            try:
                with limits:
                    time.sleep(seconds)
                print("done")
            except LimitError as error:
                print(error.reason, "early" if time.monotonic() - begun < 0.6 else "")
        """)
    assert out == ["done", "done", "done", "timeout", "done", "timeout", "done"]


def test_time_between_blocks_is_nobodys() -> None:
    out = _run("""
        enforce()
        limits = Limits(0.3, 1 << 30)
        for _ in range(2):
            with limits:
                pass
            time.sleep(0.5)
        limits.lift()
        time.sleep(0.5)
        print(signal.getitimer(signal.ITIMER_REAL)[0])
        """)
    assert out == ["0.0"]


def test_memory_is_refused_in_a_block_and_given_after_it() -> None:
    out = _run("""
        enforce()
        limits = Limits(9.0, 64 << 20)
        usual = resource.getrlimit(resource.RLIMIT_AS)
        for size in (1 << 20, 256 << 20, 1 << 20):
            try:
                with limits:
                    bytearray(size)
                print("given")
            except MemoryError:
                print("refused")
        limits.lift()
        bytearray(256 << 20)
        print(resource.getrlimit(resource.RLIMIT_AS) == usual)
        """)
    assert out == ["given", "refused", "given", "True"]


def test_nothing_is_limited_where_limits_are_not_enforced() -> None:
    out = _run("""
        with Limits(0.1, 1):
            time.sleep(0.3)
            bytearray(64 << 20)
        print("done")
        """)
    assert out == ["done"]
