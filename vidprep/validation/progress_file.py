"""What was decoded so far, in a file that survives any end: one JSON line for each video."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

from vidprep.validation.examine import Examined

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

__all__ = ["ProgressFile"]


class ProgressFile:
    """An append-only file of examined videos.

    Args:
        path: the file; what a run with another `key` left is thrown away.
        key: says what the lines depend on: index, level, rules.
    """

    def __init__(self, path: Path, key: str) -> None:
        self._places: dict[int, int] = {}
        whole = _scan(path, key, self._places) if path.exists() else 0
        self._file = path.open("r+b" if whole else "w+b")
        self._file.truncate(whole)
        self._file.seek(whole)
        if not whole:
            self._file.write(json.dumps({"key": key}).encode() + b"\n")

    def __contains__(self, row: int) -> bool:
        return row in self._places

    def __len__(self) -> int:
        return len(self._places)

    def add(self, row: int, examined: Examined) -> None:
        """Note one video."""
        self._file.seek(0, 2)
        self._places[row] = self._file.tell()
        self._file.write(json.dumps({"row": row, **examined.to_dict()}).encode() + b"\n")
        self._file.flush()

    def __iter__(self) -> Iterator[tuple[int, Examined]]:
        """(row, what became of it), by row."""
        for _, at in sorted(self._places.items()):
            self._file.seek(at)
            values = json.loads(self._file.readline())
            yield values.pop("row"), Examined.from_dict(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _scan(path: Path, key: str, places: dict[int, int]) -> int:
    """Fill in where each row's line begins; gives the length of what is whole, 0 if it is another run's."""
    at = 0
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if not line.endswith(b"\n"):
                break
            values = json.loads(line)
            if number == 0 and values.get("key") != key:
                return 0
            if number:
                places[values["row"]] = at
            at += len(line)
    return at
