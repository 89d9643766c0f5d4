"""Times on the command line."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from vidprep.cli import main


@pytest.mark.parametrize(
    "arguments",
    [
        ["index", ".", "-o", "never", "--timeout"],
        ["validate", ".", "--timeout"],
        ["bench", "never", "--policy", "first", "--seconds"],
        ["bench", "never", "--policy", "first", "--step-seconds"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("text", ["nan", "inf", "1e300", "-1"])
def test_a_time_that_no_clock_can_wait_for_is_wrong_usage(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(main, [*arguments, text])
    assert result.exit_code == 2
    assert arguments[-1] in result.stderr
