"""Policies from text and dicts.

    NAME:key=value,key=value      uniform:frames=8   random:frames=16,stride=4,pad=edge   list:frames=0/7/33   rate:fps=30000/1001

NAME is a policy's `name`, a key one of its parameters; entries of a list are parted by "/", and a fraction in a list is
written num:den. `Policy.to_text` and `Policy.to_dict` write what is read here.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from vidprep.errors import SamplingError
from vidprep.samplers.policies import POLICIES, Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["parse_policy"]


def parse_policy(spec: str | Mapping[str, Any]) -> Policy:
    """The policy that a text or a dict describes.

    Args:
        spec: "NAME:key=value,...", or {"name": NAME, key: value, ...} with values as texts or as Python's own.

    Raises:
        SamplingError: unknown name or key, or a value outside its range; names it and what is allowed.
    """
    given = _pairs(spec) if isinstance(spec, str) else dict(spec)
    name = given.pop("name", None)
    if name not in POLICIES:
        raise SamplingError(f"policy {name!r}: expected one of {', '.join(POLICIES)}")
    kind = POLICIES[name]
    types = {f.name: str(f.type) for f in fields(kind)}
    for key in given:
        if key not in types:
            raise SamplingError(f"{name}: {key}={given[key]!r}: no such parameter; expected {', '.join(types)}")
    values: dict[str, Any] = {key: _value(types[key], value) for key, value in given.items()}
    return kind(**values)


def _pairs(text: str) -> dict[str, Any]:
    name, _, rest = text.strip().partition(":")
    given: dict[str, Any] = {"name": name.strip()}
    for part in filter(None, (piece.strip() for piece in rest.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise SamplingError(f"{name}: {part!r}: expected key=value")
        if key in given:
            raise SamplingError(f"{name}: {key}={value!r}: given twice")
        given[key] = value
    return given


def _value(type_name: str, value: object) -> object:
    """A text as the parameter's type; what cannot be one is left as it is, for the policy to refuse."""
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, tuple):
        return tuple(_value(_ENTRY.get(type_name, type_name), entry) for entry in value)
    if not isinstance(value, str) or type_name in ("str", "str | None"):
        return value
    if type_name in _ENTRY:
        return tuple(_value(_ENTRY[type_name], entry) for entry in value.split("/"))
    if type_name == "FillValue":
        entries = tuple(_value("int", entry) for entry in value.split("/"))
        return entries if len(entries) > 1 else entries[0]
    if type_name.endswith("| None") and value.lower() == "none":
        return None
    return _integer(value) if type_name.startswith("int") else value.replace(":", "/")


_ENTRY = {"tuple[int, ...]": "int", "tuple[Seconds, ...]": "Seconds"}


def _integer(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text
