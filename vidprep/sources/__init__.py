"""Where bytes are: local files, members of tar shards, objects in a store. `open_source` opens any of them."""

from vidprep.sources.base import CountingSource, Source
from vidprep.sources.open import open_source

__all__ = ["CountingSource", "Source", "open_source"]
