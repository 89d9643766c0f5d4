"""Which engine decodes, and how many threads feed it."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

from vidprep.errors import ArgumentError
from vidprep.loaders import arguments

if TYPE_CHECKING:
    from vidprep.loaders.engines import Engine

#: Matrices that untagged pictures may be taken to have.
COLOUR_DEFAULTS = ("bt601", "bt709", "bt2020")

ENGINES = ("auto", "cpu", "dali", "nvdec")

#: Threads beyond the number of decoders: they read and cut while all decoders are busy.
SPARE_THREADS = 6


#: DALI's threads for a graph on the CPU, at most; each does a clip of a batch.
MAX_GRAPH_THREADS = 16

#: Engines that give more than 8 bits.
WIDE_ENGINES = ("cpu", "nvdec")


def choose_engine(
    engine: str | Engine, device: str, *, dtype: str = "uint8", colour_default: str | None = None
) -> Engine:
    """An engine by name, or the one given.

    "auto" is nvdec on a GPU where PyNvVideoCodec is installed, dali where it is not, and cpu on the CPU.

    Raises:
        ArgumentError: an unknown name, nvdec without a GPU, uint16 of an engine that gives 8 bits.
        MissingDependencyError: what the engine needs is not installed.
    """
    if not isinstance(engine, str):
        return _checked(engine, dtype)
    arguments.choice("engine", engine, ENGINES)
    if colour_default is not None:
        arguments.choice("colour_default", colour_default, COLOUR_DEFAULTS)
    if engine == "auto":
        engine = _automatic(device)
    if engine == "nvdec" and device == "cpu":
        raise ArgumentError('engine="nvdec" needs device="cuda:N"')
    if dtype != "uint8" and engine not in WIDE_ENGINES:
        raise ArgumentError(f"dtype={dtype!r}: engine {engine!r} gives uint8; take engine cpu, or nvdec on a GPU")
    return _make(engine, device, dtype, colour_default)


def _checked(engine: Any, dtype: str) -> Engine:
    """An engine that was made elsewhere, if it serves."""
    if not hasattr(engine, "decode"):
        raise arguments.wrong("engine", engine, f"one of {', '.join(ENGINES)}, or an object with decode(cut)")
    if getattr(engine, "dtype", "uint8") != dtype:
        raise ArgumentError(f"dtype={dtype!r}: this engine gives {getattr(engine, 'dtype', 'uint8')}")
    made: Engine = engine
    return made


def default_threads(engine: Any) -> int:
    """Threads that keep an engine busy on this machine, which the processes that torchrun started here share."""
    decoders = getattr(engine, "num_decoders", None)
    if decoders is not None:
        return int(decoders) + SPARE_THREADS
    processes = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(len(os.sched_getaffinity(0)) // max(int(processes) if processes.isdecimal() else 1, 1), 1)


def graph_threads(device: str, threads: int) -> int:
    """DALI's threads beside so many that decode: a graph on the CPU has to keep up with them, one on a GPU starts kernels."""
    return 2 if device != "cpu" else min(max(threads // 4, 2), MAX_GRAPH_THREADS)


def _automatic(device: str) -> str:
    if device == "cpu":
        return "cpu"
    return "nvdec" if importlib.util.find_spec("PyNvVideoCodec") is not None else "dali"


def _make(engine: str, device: str, dtype: str, colour_default: str | None) -> Engine:
    if engine == "nvdec":
        from vidprep.loaders.engines.nvdec import NvdecEngine

        return NvdecEngine(device, dtype=dtype, colour_default=colour_default)
    if engine == "dali":
        from vidprep.loaders.engines.dali import DaliEngine

        return DaliEngine(device, colour_default=colour_default)
    from vidprep.loaders.engines.cpu import CpuEngine

    return CpuEngine(dtype=dtype, colour_default=colour_default)
