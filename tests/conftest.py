"""Options, markers and where the real files are."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
CASES = Path(__file__).parent / "cases"

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run soaks, kills and million-row runs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Resolve the markers in one place; VIDPREP_REQUIRE_GPU=1 and VIDPREP_REQUIRE_DALI=1 turn skips into failures."""
    have = {
        "gpu": Path("/dev/nvidia0").exists() or os.environ.get("VIDPREP_REQUIRE_GPU") == "1",
        "dali": importlib.util.find_spec("nvidia.dali") is not None if importlib.util.find_spec("nvidia") else False,
        "long": config.getoption("--long"),
    }
    have["dali"] |= os.environ.get("VIDPREP_REQUIRE_DALI") == "1"
    reasons = {
        "gpu": "no NVIDIA GPU on this machine",
        "dali": "nvidia-dali is not installed",
        "long": "only with --long",
    }
    for item in items:
        for name, present in have.items():
            if item.get_closest_marker(name) and not present:
                item.add_marker(pytest.mark.skip(reason=reasons[name]))


@pytest.fixture(autouse=True)
def no_test_leaves_a_real_time_thread() -> Iterator[None]:
    """See `scheduling`: what such a test leaves behind makes others hang."""
    yield
    assert os.sched_getscheduler(0) not in (os.SCHED_FIFO, os.SCHED_RR)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Folder of real files with ground truth: VIDPREP_CORPUS, default ../shared/corpus."""
    folder = Path(os.environ.get("VIDPREP_CORPUS", ROOT.parent / "shared" / "corpus"))
    if not (folder / "manifest.jsonl").exists():
        pytest.skip(f"no corpus at {folder}; set VIDPREP_CORPUS")
    return folder


@pytest.fixture(scope="session")
def cases() -> Path:
    """Small files made from public bug reports, with their right values."""
    return CASES
