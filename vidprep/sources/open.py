"""From a uri to an open source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vidprep.sources.local import LocalSource

if TYPE_CHECKING:
    from vidprep.sources.base import Source


def open_source(uri: str) -> Source:
    """Open the file that `uri` names.

    Raises:
        SourceError: it does not exist, is not a regular file, or may not be read.
    """
    return LocalSource(uri)
