"""Shell completion, in a real shell."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from vidprep.cli import COMMANDS, main

if TYPE_CHECKING:
    from pathlib import Path

COMPLETE = """
source "$1"
COMP_WORDS=(vidprep $2)
COMP_CWORD=$3
_vidprep_completion vidprep 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(("words", "place", "offers"), [("st", "1", "stats"), ("stats --h", "2", "--html")])
def test_bash_completes_commands_and_options(tmp_path: Path, words: str, place: str, offers: str) -> None:
    script, program = tmp_path / "script", tmp_path / "vidprep"
    script.write_text(CliRunner().invoke(main, ["completion", "bash"]).stdout)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m vidprep "$@"\n')
    program.chmod(0o755)
    result = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", script, words, place],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert offers in result.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_VIDPREP_COMPLETE={shell}_complete" in result.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=result.stdout, text=True, check=True)


def test_every_command_is_documented(request: pytest.FixtureRequest) -> None:
    page = (request.config.rootpath / "docs" / "commands.md").read_text()
    for name in COMMANDS:
        section = page.partition(f"\n## vidprep {name}\n")[2].partition("\n## ")[0]
        assert "Example" in section
        assert "--help" in section
