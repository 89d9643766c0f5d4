"""The command line as a whole: help everywhere, exit codes for wrong usage."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from vidprep import __version__
from vidprep.cli import COMMANDS, main


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"], prog_name="vidprep")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"vidprep {name}" in result.output


def test_the_group_lists_every_command_with_a_line() -> None:
    output = CliRunner().invoke(main, ["--help"]).output
    for name, (_, line) in COMMANDS.items():
        assert name in output
        assert line.split(":")[0] in output


def test_python_dash_m_is_the_command_too() -> None:
    result = subprocess.run([sys.executable, "-m", "vidprep", "--version"], check=True, capture_output=True, text=True)
    assert __version__ in result.stdout


def test_an_unknown_command_is_wrong_usage() -> None:
    assert CliRunner().invoke(main, ["frobnicate"]).exit_code == 2
