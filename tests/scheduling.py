"""What libsvtav1 does to whoever encodes with it as root: the calling thread becomes a real-time one of highest priority.

So do all threads and processes that it starts from then on, which then starve the whole machine: new threads never get
to run, servers spin, and tests hang far from the cause.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def scheduling_kept() -> Iterator[None]:
    """The calling thread is scheduled afterwards as it was before."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)
