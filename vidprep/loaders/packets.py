"""Coded samples of a cut: columns over the bytes that were read, an object for each only where one is asked for.

Python pays for every object, and a GPU decodes thousands of samples a second while many threads share one interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from vidprep.records import SampleFlag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from vidprep.timebase import IntArray

    BoolArray = npt.NDArray[np.bool_]
    Heads = npt.NDArray[np.uint8]
    Places = slice | BoolArray | IntArray

#: Bytes that tell where a sample stands among its references, nearly always: a four-byte length, a NAL unit header,
#: and three bytes of a slice header.
FIRST_BYTES = 4 + 1 + 3

_COLUMNS = np.arange(FIRST_BYTES)
_HEAD: Any = np.dtype((np.uint8, FIRST_BYTES))
_KEY, _SHOWN = np.array(SampleFlag.KEY, np.uint8), np.array(SampleFlag.SHOWN, np.uint8)


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


class Payloads(Sequence[memoryview]):
    """The bytes of n samples, where they lie in one block: views, since copies would cost more than all the rest.

    Args:
        block: holds all of them.
        begin: int64[n]: where each begins in the block.
        size: int64[n]: how many bytes of it are there.
        heads: as the property, where it is known.
    """

    __slots__ = ("_heads", "begin", "block", "size")

    def __init__(self, block: memoryview, begin: IntArray, size: IntArray, heads: Heads | None = None) -> None:
        self.block, self.begin, self.size, self._heads = block, begin, size, heads

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
        heads = None if self._heads is None else self._heads[places]
        return Payloads(self.block, self.begin[places], self.size[places], heads)

    def __iter__(self) -> Iterator[memoryview]:
        block = self.block
        return iter([block[begin:end] for begin, end in self.edges()])

    def edges(self) -> Iterator[tuple[int, int]]:
        """Where in the block each begins and ends."""
        return zip(self.begin.tolist(), (self.begin + self.size).tolist(), strict=True)

    @property
    def heads(self) -> Heads:
        """uint8 (n, FIRST_BYTES): the first bytes of each sample, zeros behind its end."""
        if self._heads is None:
            self._heads = self._first_bytes()
        return self._heads

    def _first_bytes(self) -> Heads:
        try:  # all FIRST_BYTES at once, as a number, whatever its alignment
            everywhere = np.ndarray(max(len(self.block) - FIRST_BYTES + 1, 0), np.uint64, self.block, 0, (1,))
            heads: Heads = everywhere[self.begin].view(_HEAD)
        except IndexError:  # one begins in the block's last bytes, or behind them
            if len(self.block) == 0:
                return np.zeros((len(self), FIRST_BYTES), np.uint8)
            heads = np.frombuffer(self.block, np.uint8).take(self.begin[:, None] + _COLUMNS, mode="clip")
        if np.count_nonzero(self.size < FIRST_BYTES):
            heads[self.size[:, None] <= _COLUMNS] = 0
        return heads


@dataclass(frozen=True, slots=True, eq=False)
class Packets(Sequence[Packet]):
    """n coded samples in decode order, as columns."""

    rows: IntArray
    """int64[n]"""
    payloads: Payloads
    pts: IntArray
    """int64[n] ticks"""
    flags: npt.NDArray[np.uint8]
    """uint8[n] of SampleFlag: KEY and SHOWN"""

    @classmethod
    def of(cls, packets: Iterable[Packet]) -> Packets:
        """The given ones; their bytes are copied."""
        rows, payloads, keys, pts, shown = zip(*packets, strict=True) if (packets := tuple(packets)) else ((),) * 5
        flags = [SampleFlag.KEY * key | SampleFlag.SHOWN * is_shown for key, is_shown in zip(keys, shown, strict=True)]
        return cls(np.array(rows, np.int64), Payloads.of(payloads), np.array(pts, np.int64), np.array(flags, np.uint8))

    @property
    def keys(self) -> BoolArray:
        """bool[n]."""
        keys: BoolArray = self.flags & _KEY != 0
        return keys

    @property
    def shown(self) -> BoolArray:
        """bool[n]."""
        shown: BoolArray = self.flags & _SHOWN != 0
        return shown

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, places: int) -> Packet: ...

    @overload
    def __getitem__(self, places: Places) -> Packets: ...

    def __getitem__(self, places: int | Places) -> Packet | Packets:
        if isinstance(places, int):
            flags = SampleFlag(self.flags.item(places))
            is_key, is_shown = SampleFlag.KEY in flags, SampleFlag.SHOWN in flags
            return Packet(self.rows.item(places), self.payloads[places], is_key, self.pts.item(places), is_shown)
        return Packets(self.rows[places], self.payloads[places], self.pts[places], self.flags[places])

    def __iter__(self) -> Iterator[Packet]:
        columns = (self.keys.tolist(), self.pts.tolist(), self.shown.tolist())
        return map(Packet, self.rows.tolist(), self.payloads, *columns)
