"""A cache for pure functions of a stream's set-up, whose bytes come from the file: a hostile one may be megabytes."""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Longer keys are rare: of those only the last call is kept, so that asking again for each sample stays cheap.
MAX_KEY_BYTES = 1 << 14


def remembered(maxsize: int) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """As `lru_cache(maxsize)` for positional arguments, but calls with long bytes do not add up in memory."""

    def decorate(compute: Callable[_P, _T]) -> Callable[_P, _T]:
        many = cast("Callable[_P, _T]", lru_cache(maxsize)(compute))
        last = cast("Callable[_P, _T]", lru_cache(1)(compute))

        @wraps(compute)
        def look_up(*args: _P.args, **named: _P.kwargs) -> _T:
            for part in args:
                if part.__class__ is bytes and len(part) > MAX_KEY_BYTES:
                    return last(*args, **named)
            return many(*args, **named)

        return look_up

    return decorate
