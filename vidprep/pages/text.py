"""Text that came from a file, made fit to be shown: in a page, in a terminal, in a picture."""

from __future__ import annotations

import os
import re
import unicodedata

__all__ = ["shown"]

_PRINTABLE = re.compile(r"[ -~]*")
#: Controls, formats (bidirectional overrides), surrogates, private, unassigned; separators of lines and paragraphs.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def shown(text: str) -> str:
    r"""The same text with what cannot be seen, or would command a terminal, written out.

    Bytes that were not UTF-8 (lone surrogates, as Python names such files) become \xNN, as in the index; newlines,
    escapes and other controls \n, \x1b, ...; bidirectional overrides \u202e. Markup is left as it is: escaping that is
    the template's work.
    """
    if _PRINTABLE.fullmatch(text):
        return text
    try:
        text = os.fsencode(text).decode(errors="backslashreplace")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        text = text.encode(errors="backslashreplace").decode()
    return "".join(_written_out(char) if unicodedata.category(char) in _HIDDEN else char for char in text)


def _written_out(char: str) -> str:
    return char.encode("unicode_escape").decode()
