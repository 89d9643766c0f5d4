"""The public surface: what is importable, and what importing costs."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest

PACKAGES = ["vidprep.indexes", "vidprep.samplers", "vidprep.loaders", "vidprep.sources", "vidprep.containers"]
RELIED_UPON = {
    "vidprep.indexes": ["build_index", "open_index", "probe"],
    "vidprep.samplers": [
        "AtRate", "Dense", "First", "FrameList", "Keyframes", "Last", "Plan", "RandomClip", "Segments", "Strided",
        "Uniform", "parse_policy",
    ],
    "vidprep.loaders": ["ClipLoader", "iter_clips", "read_frames"],
}  # fmt: skip
HEAVY = ["av", "nvidia", "pyarrow", "torch", "PyNvVideoCodec", "ray", "PIL"]


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_sorted_and_importable(name: str) -> None:
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(module.__all__)
    for member in module.__all__:
        assert getattr(module, member) is not None


@pytest.mark.parametrize("name", RELIED_UPON)
def test_the_names_that_scripts_rely_on_are_there(name: str) -> None:
    assert set(RELIED_UPON[name]) <= set(importlib.import_module(name).__all__)


@pytest.mark.parametrize(
    "name", ["vidprep", "vidprep.samplers", "vidprep.loaders", "vidprep.containers", "vidprep.cli"]
)
def test_importing_loads_nothing_heavy(name: str) -> None:
    code = f"import sys, json, {name}; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert json.loads(output) == []
