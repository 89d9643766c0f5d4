"""The Parquet index: build it, open it, probe one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Not lazily: the module `probe` would take the place of the function as soon as anything imports it.
from vidprep.indexes.probe import probe, probe_row

if TYPE_CHECKING:
    from vidprep.indexes.build import Summary, build_index
    from vidprep.indexes.read import Index, VideoRow, open_index

__all__ = ["Index", "Summary", "VideoRow", "build_index", "open_index", "probe", "probe_row"]

_HOMES = {"Index": "read", "Summary": "build", "VideoRow": "read", "build_index": "build", "open_index": "read"}


def __getattr__(name: str) -> Any:
    """Import a name's module when it is first asked for: `probe` needs no pyarrow."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
