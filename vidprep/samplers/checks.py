"""Parameters of policies: what they may be, and errors that say so."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import SamplingError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LIMIT", "choice", "integer", "rate", "seconds"]

#: No count, stride or index is larger: places of a clip stay far inside int64, and a clip inside memory.
LIMIT = 1 << 24
#: No number that is meant has more characters.
LONGEST = 60


def integer(owner: str, name: str, value: object, low: int, high: int) -> int:
    """`value` as a plain int from `low` to `high`.

    Raises:
        SamplingError: it is none, or lies outside.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]  # what is no integer raises TypeError
    except TypeError:
        raise SamplingError(f"{owner}: {name}={value!r}: expected an integer from {low} to {high}") from None
    if not low <= number <= high:
        raise SamplingError(f"{owner}: {name}={number}: expected an integer from {low} to {high}")
    return number


def choice(owner: str, name: str, value: object, allowed: Sequence[str]) -> str:
    """`value`, which is one of `allowed`."""
    if value not in allowed:
        raise SamplingError(f"{owner}: {name}={value!r}: expected one of {', '.join(allowed)}")
    return str(value)


def _fraction(owner: str, name: str, value: object, expected: str) -> Fraction:
    try:
        if isinstance(value, bool):
            raise TypeError
        if isinstance(value, str) and (len(value) > LONGEST or "e" in value.lower()):
            value = float(value[: LONGEST + 1])  # "1e99999999" exactly would be a number of as many digits
        if isinstance(value, float | np.floating):  # the shortest decimal that is this float: what was meant
            return Fraction(str(value))
        if not isinstance(value, int | str | Fraction | np.integer):
            raise TypeError
        return Fraction(value if isinstance(value, str | Fraction) else int(value))
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise SamplingError(f"{owner}: {name}={value!r}: expected {expected}") from None


def seconds(owner: str, name: str, value: object, *, positive: bool = False) -> Fraction:
    """A time in seconds, exactly: a number, or text such as "0.5" or "1001/30000"; a float means its shortest decimal."""
    expected = "seconds from -1e9 to 1e9, above 0" if positive else "seconds from -1e9 to 1e9"
    number = _fraction(owner, name, value, expected)
    if abs(number) > 10**9 or (positive and number <= 0):
        raise SamplingError(f"{owner}: {name}={value!r}: expected {expected}")
    return number


def rate(owner: str, name: str, value: object) -> Fraction:
    """Frames per second: a number, or text such as "29.97" or "30000/1001"; 29.97002997002997 means the latter."""
    expected = "frames per second, above 0 and at most 1000000"
    number = _fraction(owner, name, value, expected).limit_denominator(1_001_000)
    if not 0 < number <= 10**6:
        raise SamplingError(f"{owner}: {name}={value!r}: expected {expected}")
    return number
