"""Templates to pages. Whatever a page shows is escaped, and no script but the page's own may run in it."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from vidprep import __version__
from vidprep.pages.text import shown

if TYPE_CHECKING:
    import os

    from jinja2 import Environment

__all__ = ["render", "write_page"]


def render(template: str, **values: Any) -> str:
    """A page of `templates/`; strings in `values` may be anything, see `shown`.

    The page holds its style, its script and its pictures. A content security policy names the one script by its hash
    and forbids every request, so that markup which got through would neither run nor call home.
    """
    return _environment().get_template(template).render(**values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    import jinja2
    from markupsafe import Markup

    script = _asset("filter.js")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("vidprep.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "style": Markup(_asset("page.css")),  # noqa: S704 - our own files
        "script": Markup(script),  # noqa: S704
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "version": __version__,
    }
    environment.filters |= {"amount": amount, "data_bytes": data_bytes}
    return environment


def _asset(name: str) -> str:
    return files("vidprep.pages").joinpath("templates", name).read_text(encoding="utf-8")


def _finalized(value: Any) -> Any:
    """Every plain string goes through `shown`; markup is the templates' own."""
    return shown(value) if type(value) is str else value


def amount(value: float | None) -> str:
    """A number for people: 1,234,567; 12.35; 0.00123."""
    if value is None:
        return ""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 0.1 else f"{value:.3g}"


def data_bytes(value: float) -> str:
    """Bytes for people, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.2f} {unit}"
        value /= 1000
    return f"{value:,.2f} PB"


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page (or a picture's bytes) that appears whole or not at all. Raises OSError."""
    write_aside(path, page.encode())


def write_aside(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file under another name and rename it; its folder is made where there is none. Raises OSError."""
    final = Path(path)
    final.parent.mkdir(parents=True, exist_ok=True)
    aside = final.with_name(f"{final.name}.{uuid4().hex[:8]}.part")
    try:
        aside.write_bytes(data)
        aside.replace(final)
    finally:
        aside.unlink(missing_ok=True)
