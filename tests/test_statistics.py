"""What a loader says of its speed."""

from __future__ import annotations

import pytest

from vidprep.loaders.statistics import bottleneck, bottleneck_between


@pytest.mark.parametrize(
    ("waited", "reading", "decoding", "graph", "told"),
    [(0.01, 0.5, 0.5, 0.9, "The consumer"), (0.3, 0.2, 0.3, 0.9, "The DALI graph"), (0.3, 0.6, 0.3, 0.1, "Reading"),
     (0.3, 0.1, 0.85, 0.1, "Decoding: 4 threads spent 85% of their time on it")],
)  # fmt: skip
def test_the_sentence_names_what_holds_the_run_up(waited, reading, decoding, graph, told):
    assert bottleneck(waited, reading, decoding, graph, 4, 4).startswith(told)


def test_between_two_reports_only_what_happened_since_counts():
    shares = {"reading_share": 0.0, "decoding_share": 0.5, "graph_share": 0.0, "threads": 2, "readers": 2}
    before = {**shares, "seconds": 10.0, "wait_share": 1.0}  # the first batch
    after = {**shares, "seconds": 20.0, "wait_share": 0.5}  # nothing since
    assert bottleneck_between(before, after).startswith("The consumer: it waited 0.0%")
