"""What a loader needs and does not have is named at once."""

from __future__ import annotations

import sys

import pytest

from vidprep.errors import MissingDependencyError
from vidprep.loaders import ClipLoader
from vidprep.loaders.proxy import import_proxy
from vidprep.loaders.requirements import check_installed, is_installed, of_loader
from vidprep.records import Timeline
from vidprep.samplers import First
from vidprep.samplers.plan import Plan


@pytest.fixture
def bare(monkeypatch):
    """As in an environment that has none of them: None keeps a module from being found."""
    for name in ("nvidia", "torch", "PyNvVideoCodec"):
        for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def plan():
    return Plan([Timeline.regular(10, 25)], First(frames=2), seed=1)


def test_all_that_is_missing_is_named_with_one_command(bare, plan):
    told = r"not installed: nvidia-dali, torch; run: pip install 'vidprep\[dali,torch\]'"
    with pytest.raises(MissingDependencyError, match=told):
        ClipLoader(plan, batch_size=1)
    with pytest.raises(MissingDependencyError, match=told):
        import_proxy()
    with pytest.raises(MissingDependencyError, match=r"'vidprep\[dali,torch,nvdec\]'"):
        ClipLoader(plan, batch_size=1, device="cuda:0", engine="nvdec", output="numpy")


def test_only_what_is_needed_is_asked_for(bare, plan):
    with pytest.raises(MissingDependencyError, match=r"not installed: nvidia-dali; run: pip install 'vidprep\[dali\]'"):
        ClipLoader(plan, batch_size=1, output="numpy")
    assert of_loader(engine="auto", device="cpu", output="dlpack") == ["nvidia.dali"]
    check_installed([])


def test_a_module_is_found_without_being_imported():
    assert is_installed("xml.dom.pulldom")
    assert "xml.dom.pulldom" not in sys.modules
    assert not is_installed("no_such_package.module")
