"""vidprep.loaders.engines.choose: defaults that suit 2 and 128 cores, alone and with other ranks on the host."""

from __future__ import annotations

import os

import pytest

from vidprep.loaders.engines.choose import SPARE_THREADS, default_threads, graph_threads
from vidprep.loaders.engines.cpu import CpuEngine


class Decoders:
    num_decoders = 28


@pytest.mark.parametrize(
    ("cores", "ranks", "threads"),
    [(2, None, 2), (128, None, 128), (128, "8", 16), (2, "8", 1), (4, "", 4), (4, "0", 4), (4, "x", 4)],
)
def test_ranks_of_a_host_share_its_cores(monkeypatch, cores, ranks, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if ranks is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert default_threads(CpuEngine()) == threads
    assert default_threads(Decoders()) == 28 + SPARE_THREADS


@pytest.mark.parametrize(("threads", "graph"), [(1, 2), (2, 2), (16, 4), (128, 16), (1024, 16)])
def test_a_graph_on_the_cpu_keeps_up_with_the_threads_that_decode(threads, graph):
    assert graph_threads("cpu", threads) == graph
    assert graph_threads("cuda:0", threads) == 2
