"""The loader over a long time, with hostile videos among good ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.dali
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nothing_grows_and_nothing_hangs():
    minutes = os.environ.get("VIDPREP_SOAK_MINUTES", "2")
    command = [sys.executable, str(ROOT / "scripts" / "soak_loader"), "--minutes", minutes]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
