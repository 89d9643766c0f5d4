"""The walk over clusters: the header of each block is read, its payload is jumped over.

Elements are taken as a flat run: Segment, Cluster and BlockGroup are entered, everything else is passed. That makes
unknown sizes a matter of course. Cues and SeekHead are not needed and cannot mislead.
"""

from __future__ import annotations

import re
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers.matroska import ids
from vidprep.containers.matroska.ebml import HEADER_ROOM, VINT_LENGTH, VINT_MASK, Element, Window, element_at
from vidprep.containers.matroska.lacing import lace_sizes, max_header_bytes
from vidprep.errors import Reason
from vidprep.records import Finding

if TYPE_CHECKING:
    from vidprep.containers.matroska.tracks import Track

#: Columns of `Walk.rows`: HEAD is the payload's first byte, DURATION the block's own in ticks or −1, LACE the frame's
#: place in its block, LACES how many frames the block has.
OFFSET, SIZE, TIME, KEY, HEAD, DURATION, LACE, LACES = range(8)
NUM_COLUMNS = 8

_CLUSTER_ID = ids.CLUSTER.to_bytes(4, "big")
_STARTS_CLUSTER = ids.IN_CLUSTER | ids.ANYWHERE
_SCAN_BYTES = 64 << 10
#: One less than the longest of what a search for a start looks at.
_START_BYTES = 8
_MAX_FINDINGS = 16
#: Laced blocks up to this long are read whole, for their frames' first bytes.
_LACED_BYTES = 4 << 10
_MAX_RESYNCS = 1000
_KEY_FLAG, _LACING_FLAGS = 0x80, 0x06


class Walk:
    """Blocks of one track, and what was met on the way to them. Times are ticks: the cluster's plus the block's.

    Attributes:
        rows: NUM_COLUMNS numbers a frame.
        cluster_rows: the row at which each cluster starts.
        audio_span: first and last time of an audio block, or None.
        findings: what was wrong, at most _MAX_FINDINGS.
        losses: rows before which blocks may have been lost.
    """

    def __init__(self, window: Window, video: Track, audio: Track | None) -> None:
        self.rows = array("q")
        self.cluster_rows: list[int] = []
        self.audio_span: tuple[int, int] | None = None
        self.findings: list[Finding] = []
        self.losses: list[int] = []
        self._window = window
        self._video = video.number
        self._audio = audio.number if audio else None
        self._position = 0
        self._cluster_time = 0
        self._limit = window.size_bytes
        self._num_resyncs = 0

    def run(self, position: int) -> None:
        """Walk from `position`, a Cluster or anything beside one, to the end of the file."""
        self._position = position
        window = self._window
        size_bytes = window.size_bytes
        while self._position < size_bytes:
            position = self._position
            index = position - window.start
            data = window.data
            if index < 0 or index + HEADER_ROOM > len(data):
                data, index = window.move(position), 0
            if data[index] == ids.SIMPLE_BLOCK and (length := VINT_LENGTH[data[index + 1]]) <= 8:
                start = index + 1 + length
                size = int.from_bytes(data[index + 1 : start], "big") & VINT_MASK[length]
                end = position + 1 + length + size
                if end <= self._limit:
                    self._block(data, start, end, None, -1)
                    self._position = end
                    continue
            self._other(element_at(data, index, position - index))

    def _other(self, found: Element) -> None:
        """Enter, read or pass one element; `_position` moves behind what was dealt with."""
        if found.id in ids.ANYWHERE and found.end is not None and found.end <= self._limit:
            self._position = found.end
        elif found.id not in ids.KNOWN and not self._window.lands_well(found, ids.KNOWN):
            self._resync("no Matroska element starts here")
        elif found.id in (ids.SEGMENT, ids.CLUSTER):
            self._enter(found)
        elif found.end is None:
            self._resync(f"element {found.id:X} has no size and must have one")
        elif found.end > self._limit and not self._window.lands_well(found, ids.KNOWN):
            self._resync(f"element {found.id:X} does not end in the cluster that holds it")
        elif found.id == ids.BLOCK_GROUP:
            self._group(found.start, found.end)
            self._position = found.end
        else:
            self._read(found.id, found.start, found.end)
            self._position = found.end

    def _enter(self, found: Element) -> None:
        size_bytes = self._window.size_bytes
        self._limit = size_bytes
        if found.id == ids.CLUSTER:
            self.cluster_rows.append(len(self.rows) // NUM_COLUMNS)
            self._limit = min(found.end or size_bytes, size_bytes)
        self._position = found.start

    def _read(self, name: int, start: int, end: int) -> None:
        if name == ids.TIMESTAMP:
            self._cluster_time = self._uint(start, end)
        elif name == ids.SIMPLE_BLOCK:
            self._block(*self._room(start), end, None, -1)
        elif name == ids.ENCRYPTED_BLOCK:
            self._find(Reason.ENCRYPTED, "an encrypted block is left out", start)

    def _group(self, position: int, end: int) -> None:
        """A BlockGroup: its block is a key frame if it refers to no other."""
        block: tuple[int, int] | None = None
        key, duration = True, -1
        while position < end:
            found = self._window.element(position)
            if not found.id or found.end is None or found.end > end:
                key = False
                self._find(Reason.CORRUPT_TABLE, "a block group holds an element that does not end in it", position)
                break
            if found.id == ids.BLOCK:
                block = (found.start, found.end)
                if self._track_at(found.start) not in (self._video, self._audio):
                    return
            elif found.id == ids.REFERENCE_BLOCK:
                key = False
            elif found.id == ids.BLOCK_DURATION:
                duration = self._uint(found.start, found.end)
            position = found.end
        if block:
            self._block(*self._room(block[0]), block[1], key, duration)

    def _block(self, data: bytes, index: int, end: int, key: bool | None, duration: int) -> None:
        """One Block or SimpleBlock whose header is at data[index] and whose last byte is at end − 1."""
        length = VINT_LENGTH[data[index]]
        if length > 8:
            return
        number = data[index] & 0x7F if length == 1 else _vint(data, index, length)
        index += length
        time = self._cluster_time + ((data[index] << 8 | data[index + 1]) ^ 0x8000) - 0x8000
        if number != self._video:
            if number == self._audio:
                self.audio_span = (self.audio_span[0] if self.audio_span else time, time)
            return
        flags = data[index + 2]
        is_key = flags & _KEY_FLAG != 0 if key is None else key
        offset = self._window.start + index + 3
        if flags & _LACING_FLAGS:
            self._laced(offset, end, flags, time, is_key, duration)
        elif end > offset:
            self.rows.extend((offset, end - offset, time, is_key, data[index + 3], duration, 0, 1))

    def _laced(self, offset: int, end: int, flags: int, time: int, is_key: bool, duration: int) -> None:
        total = end - offset
        head = (
            self._window.read_at(offset, min(total, max(max_header_bytes(total), _LACED_BYTES))) if total > 0 else b""
        )
        laces = lace_sizes((flags & _LACING_FLAGS) >> 1, head, total)
        if laces is None:
            self._find(Reason.CORRUPT_TABLE, "the lace sizes do not fit into their block, which is left out", offset)
            self._lose()
            return
        skip, sizes = laces
        size = np.array(sizes, np.int64)
        place = skip + np.cumsum(size) - size
        lace = size.nonzero()[0]
        rows = np.empty((len(lace), NUM_COLUMNS), np.int64)
        for column, values in (
            (OFFSET, offset + place[lace]), (SIZE, size[lace]), (TIME, time), (KEY, is_key),
            (HEAD, [self._first_byte(offset, head, at) for at in place[lace].tolist()]), (DURATION, duration),
            (LACE, lace), (LACES, len(sizes)),
        ):  # fmt: skip
            rows[:, column] = values
        self.rows.frombytes(rows.tobytes())

    def _first_byte(self, offset: int, head: bytes, at: int) -> int:
        return head[at] if at < len(head) else self._window.read_at(offset + at, 1)[0]

    def _room(self, position: int) -> tuple[bytes, int]:
        """Bytes that hold HEADER_ROOM from `position` on, and where in them it is."""
        index = position - self._window.start
        if index < 0 or index + HEADER_ROOM > len(self._window.data):
            return self._window.move(position), 0
        return self._window.data, index

    def _uint(self, start: int, end: int) -> int:
        data, index = self._room(start)
        return int.from_bytes(data[index : index + end - start], "big") & 0x7FFF_FFFF_FFFF if end - start <= 8 else 0

    def _track_at(self, position: int) -> int:
        data, index = self._room(position)
        return _vint(data, index, VINT_LENGTH[data[index]])

    def _resync(self, why: str) -> None:
        """Go on at the next cluster, or key frame of this one; without either, the file ends here."""
        position = self._position
        self._num_resyncs += 1
        self._lose()
        self._position = self._next_start(position + 1) if self._num_resyncs <= _MAX_RESYNCS else -1
        if self._position < 0:
            self._position = self._window.size_bytes
            self._find(Reason.TRUNCATED, f"{why}, and no cluster follows", position)
        else:
            self._find(Reason.CORRUPT_TABLE, f"{why}; {self._position - position} bytes are passed over", position)

    def _next_start(self, position: int) -> int:
        """Where decoding can start again: the next plausible cluster or key frame in this one; −1 if there is none."""
        starts = _starts(self._video)
        while position < self._window.size_bytes:
            data = self._window.read_at(position, _SCAN_BYTES)
            for match in starts.finditer(data):
                at = position + match.start()
                if self._is_cluster(at) if match[0] == _CLUSTER_ID else self._is_block(at):
                    return at
            position += max(len(data) - _START_BYTES, 1) if len(data) == _SCAN_BYTES else len(data) or 1 << 62
        return -1

    def _is_cluster(self, position: int) -> bool:
        return self._window.element(self._window.element(position).start).id in _STARTS_CLUSTER

    def _is_block(self, position: int) -> bool:
        """Whether a block of this cluster is followed by two elements, or by the cluster's end."""
        end: int | None = self._window.element(position).end
        for _ in range(2):
            if end is None or end >= self._limit:
                return end == self._limit
            following = self._window.element(end)
            if following.id not in ids.KNOWN:
                return False
            if following.id == ids.CLUSTER:
                return True
            end = following.end
        return end is not None and end <= self._limit

    def _lose(self) -> None:
        self.losses.append(len(self.rows) // NUM_COLUMNS)

    def _find(self, reason: Reason, message: str, offset: int) -> None:
        if len(self.findings) < _MAX_FINDINGS:
            self.findings.append(Finding(reason=reason, message=message, offset=offset))


@lru_cache(maxsize=64)
def _starts(track: int) -> re.Pattern[bytes]:
    """A cluster's id, or the header of a SimpleBlock that holds a key frame of a track of a one-byte number."""
    number = re.escape(bytes([0x80 | track & 0x7F]))
    block = rb"\xa3(?:[\x80-\xff]|[\x40-\x7f].|[\x20-\x3f]..|[\x10-\x1f]...)" + number + rb"..[\x80-\x8f]"
    cluster = re.escape(_CLUSTER_ID)
    return re.compile(cluster + (rb"|" + block if track < 0x7F else b""), re.DOTALL)


def _vint(data: bytes, index: int, length: int) -> int:
    return int.from_bytes(data[index : index + length], "big") & VINT_MASK[length]
