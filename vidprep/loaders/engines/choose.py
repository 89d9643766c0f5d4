"""Which engine decodes, and how many threads feed it."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vidprep.loaders.engines import Engine

ENGINES = ("auto", "cpu", "dali", "nvdec")

#: Threads beyond the number of decoders: they read and cut while all decoders are busy.
SPARE_THREADS = 6


def choose_engine(engine: str | Engine, device: str, *, colour_default: str | None = None) -> Engine:
    """An engine by name, or the one given.

    "auto" is nvdec on a GPU where PyNvVideoCodec is installed, dali where it is not, and cpu on the CPU.

    Raises:
        ValueError: an unknown name, or nvdec without a GPU.
        MissingDependencyError: what the engine needs is not installed.
    """
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        raise ValueError(f"engine={engine!r} is none of {', '.join(ENGINES)}")
    if engine == "auto":
        engine = _automatic(device)
    if engine == "nvdec" and device == "cpu":
        raise ValueError('engine="nvdec" needs device="cuda:N"')
    return _make(engine, device, colour_default)


def default_threads(engine: Any) -> int:
    """Threads that keep an engine busy on this machine."""
    decoders = getattr(engine, "num_decoders", None)
    if decoders is not None:
        return int(decoders) + SPARE_THREADS
    return max(len(os.sched_getaffinity(0)), 1)


def _automatic(device: str) -> str:
    if device == "cpu":
        return "cpu"
    return "nvdec" if importlib.util.find_spec("PyNvVideoCodec") is not None else "dali"


def _make(engine: str, device: str, colour_default: str | None) -> Engine:
    if engine == "nvdec":
        from vidprep.loaders.engines.nvdec import NvdecEngine

        return NvdecEngine(device, colour_default=colour_default)
    if engine == "dali":
        from vidprep.loaders.engines.dali import DaliEngine

        return DaliEngine(device, colour_default=colour_default)
    from vidprep.loaders.engines.cpu import CpuEngine

    return CpuEngine(colour_default=colour_default)
