"""Coded samples of a cut: columns over the bytes that were read, an object for each only where one is asked for.

Python pays for every object, and a GPU decodes thousands of samples a second while many threads share one interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from vidprep.timebase import IntArray

    BoolArray = npt.NDArray[np.bool_]
    Heads = npt.NDArray[np.uint8]
    Places = slice | BoolArray | IntArray

#: Bytes that tell where a sample stands among its references, nearly always: a four-byte length, a NAL unit header,
#: and four bytes of a slice header.
FIRST_BYTES = 4 + 1 + 4

_COLUMNS = np.arange(FIRST_BYTES)


class Packet(NamedTuple):
    """One coded sample to be fed to a decoder. `row` doubles as the pts that identifies its picture."""

    row: int
    payload: bytes | memoryview
    """its bytes, mostly a view of what was read"""
    key: bool
    pts: int = 0
    """ticks of the stream's time base"""
    shown: bool = True
    """its picture is a frame that a viewer sees"""

    @property
    def data(self) -> bytes:
        """The payload as bytes; a copy where it is a view."""
        return bytes(self.payload)


@dataclass(frozen=True, slots=True, eq=False)
class Payloads(Sequence[memoryview]):
    """The bytes of n samples, where they lie in one block: views, since copies would cost more than all the rest."""

    block: memoryview
    begin: IntArray
    """int64[n]: where each begins in the block"""
    size: IntArray
    """int64[n]: how many bytes of it are there"""

    @classmethod
    def of(cls, samples: Sequence[bytes | memoryview]) -> Payloads:
        """The given ones, copied one behind the other."""
        size = np.fromiter(map(len, samples), np.int64, len(samples))
        return cls(memoryview(b"".join(samples)), size.cumsum() - size, size)

    def __len__(self) -> int:
        return len(self.size)

    @overload
    def __getitem__(self, places: int) -> memoryview: ...

    @overload
    def __getitem__(self, places: Places) -> Payloads: ...

    def __getitem__(self, places: int | Places) -> memoryview | Payloads:
        if isinstance(places, int):
            begin = self.begin.item(places)
            return self.block[begin : begin + self.size.item(places)]
        return Payloads(self.block, self.begin[places], self.size[places])

    def __iter__(self) -> Iterator[memoryview]:
        return iter(self.pieces(self.begin, self.begin + self.size))

    def pieces(self, begin: IntArray, end: IntArray) -> list[memoryview]:
        """Views of [begin, end) of the block."""
        block = self.block
        return [block[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]

    def heads(self) -> Heads:
        """uint8 (n, FIRST_BYTES): the first bytes of each sample, zeros behind its end."""
        if len(self.block) == 0:
            return np.zeros((len(self), FIRST_BYTES), np.uint8)
        heads = np.frombuffer(self.block, np.uint8).take(self.begin[:, None] + _COLUMNS, mode="clip")
        if len(heads) and self.size.min() < FIRST_BYTES:
            heads[self.size[:, None] <= _COLUMNS] = 0
        return heads


@dataclass(frozen=True, slots=True, eq=False)
class Packets(Sequence[Packet]):
    """n coded samples in decode order, as columns."""

    rows: IntArray
    """int64[n]"""
    payloads: Payloads
    keys: BoolArray
    """bool[n]"""
    pts: IntArray
    """int64[n] ticks"""
    shown: BoolArray
    """bool[n]"""

    @classmethod
    def of(cls, packets: Iterable[Packet]) -> Packets:
        """The given ones; their bytes are copied."""
        rows, payloads, keys, pts, shown = zip(*packets, strict=True) if (packets := tuple(packets)) else ((),) * 5
        return cls(
            np.array(rows, np.int64), Payloads.of(payloads), np.array(keys, bool), np.array(pts, np.int64),
            np.array(shown, bool),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, places: int) -> Packet: ...

    @overload
    def __getitem__(self, places: Places) -> Packets: ...

    def __getitem__(self, places: int | Places) -> Packet | Packets:
        rows, payloads, keys, pts, shown = self._columns()
        if isinstance(places, int):
            return Packet(
                rows.item(places), payloads[places], keys.item(places), pts.item(places), shown.item(places)
            )  # fmt: skip
        return Packets(rows[places], payloads[places], keys[places], pts[places], shown[places])

    def __iter__(self) -> Iterator[Packet]:
        rows, payloads, *others = self._columns()
        return starmap(Packet, zip(rows.tolist(), payloads, *(column.tolist() for column in others), strict=True))

    def _columns(self) -> tuple[IntArray, Payloads, BoolArray, IntArray, BoolArray]:
        return self.rows, self.payloads, self.keys, self.pts, self.shown
