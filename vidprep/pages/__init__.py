"""Self-contained HTML pages: templates, plots, and text of hostile names. No network, no file but the page itself."""

from __future__ import annotations

from vidprep.pages.render import render, write_page
from vidprep.pages.text import shown

__all__ = ["render", "shown", "write_page"]
