"""Optional packages that a loader needs: all that are missing are named at once."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from vidprep.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: module → (name of the package, extra of vidprep that brings it)
PACKAGES = {
    "nvidia.dali": ("nvidia-dali", "dali"),
    "torch": ("torch", "torch"),
    "PyNvVideoCodec": ("PyNvVideoCodec", "nvdec"),
}


def check_installed(modules: Iterable[str]) -> None:
    """Raise MissingDependencyError, with one pip command, if any of these modules of PACKAGES is not installed."""
    missing = [PACKAGES[module] for module in modules if not is_installed(module)]
    if missing:
        packages, extras = zip(*missing, strict=True)
        raise MissingDependencyError(", ".join(packages), ",".join(extras))


def is_installed(module: str) -> bool:
    """Whether a module can be found; it is not imported."""
    package = module.rpartition(".")[0]
    return (not package or is_installed(package)) and importlib.util.find_spec(module) is not None


def of_loader(*, engine: object, device: str, output: str) -> list[str]:
    """The modules that a ClipLoader with these options needs."""
    needs_torch = output == "torch" or device != "cpu"
    return ["nvidia.dali"] + ["torch"] * needs_torch + ["PyNvVideoCodec"] * (engine == "nvdec" and device != "cpu")
