"""The memory-mapped form of an index, derived from its parts once per host and shared by all its processes.

`COLUMN.arrow`: a column with one value per video, uncompressed Arrow IPC in one batch, so that it is mapped and never
copied; building takes the memory of a few columns and of one row group. `frames.bin`: the sample tables as narrow
blocks (see `frames`). `meta.json`: the content's fingerprint.
A cache is a folder named after its parts' names, sizes and times; it is built aside under a lock and renamed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from vidprep.errors import IndexFormatError
from vidprep.indexes.frames import FrameLists, pack
from vidprep.indexes.schema import FRAME_NAMES, VIDEO_COLUMNS, arrow_schema, open_part
from vidprep.indexes.state import state_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vidprep.indexes.schema import Column
    from vidprep.timebase import IntArray

    _Packed = list[tuple[bytes, IntArray]]

#: Raise when the files' layout changes.
_LAYOUT = 3
#: The column that says where a video's block starts in frames.bin (it ends where the next one starts).
FRAMES_AT = "frames_at"
_DIGEST_ROWS = 1 << 14
_BATCH_SAMPLES = 100_000
#: That pack row groups; more wait for each other.
_MAX_THREADS = 4
#: Columns that are read and held together: each reading opens all parts, each column takes memory.
_COLUMNS_AT_ONCE = 8
#: What the fingerprint covers besides the frames.
_FINGERPRINTED = ("uri", "status", "size_bytes", "mtime_ns", "etag", "time_base", "num_frames", "num_samples")


def ensure_cache(index: Path, parts: Sequence[Path], cache_dir: Path | None) -> Path:
    """The folder of an up-to-date cache; built in the first place that can be written, if there is none.

    Raises:
        OSError: no place can be written.
    """
    name = _cache_name(parts)
    places = [cache_dir / _key(index)] if cache_dir else _places(index)
    for place in places:
        if (place / name / "meta.json").exists():
            return place / name
    for place in places[:-1]:
        try:
            return _build_locked(place, name, parts)
        except OSError:  # read-only, not ours, full: the next place may do
            continue
    return _build_locked(places[-1], name, parts)


def _cache_name(parts: Sequence[Path]) -> str:
    facts = [(part.name, part.stat().st_size, part.stat().st_mtime_ns) for part in parts]
    return hashlib.blake2b(
        repr((_LAYOUT, [column.name for column in VIDEO_COLUMNS], facts)).encode(), digest_size=12
    ).hexdigest()


def _key(index: Path) -> str:
    """A folder of its own for each index: a cache that was made anew takes the place of that index's old one only."""
    return hashlib.blake2b(os.fsencode(index), digest_size=8).hexdigest()


def _places(index: Path) -> list[Path]:
    """Beside the index; else the user's cache folder; else the temporary folder."""
    name = _key(index)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return [
        state_folder(index) / "cache",
        home / "vidprep" / name,
        Path(tempfile.gettempdir()) / f"vidprep-{os.getuid()}" / name,
    ]


def _build_locked(place: Path, name: str, parts: Sequence[Path]) -> Path:
    place.mkdir(parents=True, exist_ok=True, mode=0o755)
    with _lock(place / "lock"):
        final = place / name
        if not (final / "meta.json").exists():
            for old in place.iterdir():
                if old.is_dir():
                    shutil.rmtree(old, ignore_errors=True)  # open maps of it stay good
            aside = place / f"{name}.aside"
            aside.mkdir()
            try:
                _build(aside, parts)
                aside.rename(final)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
        return final


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(folder: Path, parts: Sequence[Path]) -> None:
    digest = hashlib.blake2b(digest_size=16)
    num_threads = min(len(os.sched_getaffinity(0)), _MAX_THREADS)
    with ThreadPoolExecutor(num_threads + 1, thread_name_prefix="cache") as threads:
        columns = threads.submit(_write_columns, folder, parts)
        with (folder / "frames.bin").open("wb") as frames:
            starts = _write_frames(parts, frames, digest, threads, num_threads)
        columns.result()
    _write_column(folder, FRAMES_AT, pa.chunked_array([pa.array(starts)]))
    _digest_columns(folder, len(starts), digest)
    meta = {"layout": _LAYOUT, "num_videos": len(starts), "fingerprint": digest.hexdigest()}
    (folder / "meta.json").write_text(json.dumps(meta))


def _write_columns(folder: Path, parts: Sequence[Path]) -> None:
    for first in range(0, len(VIDEO_COLUMNS), _COLUMNS_AT_ONCE):
        columns = VIDEO_COLUMNS[first : first + _COLUMNS_AT_ONCE]
        table = pa.concat_tables([_read_columns(part, columns) for part in parts])
        for column in columns:
            values = table[column.name]
            _write_column(folder, column.name, values.dictionary_encode() if column.words else values)


def _write_frames(
    parts: Sequence[Path], frames: IO[bytes], digest: Any, threads: ThreadPoolExecutor, num_threads: int
) -> IntArray:
    """All blocks; gives where each starts. Most of the work on a row group leaves Python to other threads."""
    lengths = [np.zeros(1, np.int64)]
    ahead: deque[Future[_Packed]] = deque()
    groups = _groups(parts)
    while True:
        ahead.extend(threads.submit(_packed, *group) for group in islice(groups, num_threads + 1 - len(ahead)))
        if not ahead:
            break
        for data, sizes in ahead.popleft().result():
            frames.write(data)
            digest.update(data)
            lengths.append(sizes)
    starts: IntArray = np.cumsum(np.concatenate(lengths))[:-1]
    return starts


def _groups(parts: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    for part in parts:
        with open_part(part) as file:
            num_groups = file.num_row_groups
        yield from ((part, group) for group in range(num_groups))


def _packed(part: Path, group: int) -> _Packed:
    """The blocks of a row group, a batch at a time: their bytes, and the size of each."""
    packed = []
    for batch in _frame_batches(part, group):
        blocks = pack(frame_lists(batch))
        packed.append((b"".join(blocks), np.fromiter(map(len, blocks), np.int64, len(blocks))))
    return packed


def _frame_batches(part: Path, group: int) -> Iterator[pa.Table]:
    """Frame columns of a row group, so many rows at a time that they stay in the processor's cache."""
    with open_part(part) as file:
        names = [name for name in FRAME_NAMES if name in file.schema_arrow.names]
        facts = file.metadata.row_group(group)
        columns = (facts.column(number) for number in range(facts.num_columns))
        samples = next(column.num_values for column in columns if column.path_in_schema.startswith("sample_sizes."))
        rows = max(facts.num_rows * _BATCH_SAMPLES // max(samples, 1), 1)
        for batch in file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False):
            yield pa.Table.from_batches([batch])


def frame_lists(table: pa.Table) -> FrameLists:
    """The frame columns of a table of any version as flat arrays."""
    bounds, sizes = _flat(table, "sample_sizes")
    _, gaps = _flat(table, "sample_gaps")
    _, pts_deltas = _flat(table, "sample_pts_deltas")
    _, flags = _flat(table, "sample_flags")
    if not len(sizes) == len(gaps) == len(pts_deltas) == len(flags):
        raise IndexFormatError("the frame columns of a part differ in length")
    orders, crc32s = (_rare_lists(table, name) for name in ("frame_order", "sample_crc32"))
    return FrameLists(bounds, sizes, gaps, pts_deltas, flags, orders, crc32s)


def _flat(table: pa.Table, name: str) -> tuple[IntArray, Any]:
    """Where each row's list starts (and the last one's end), and the values of all lists."""
    array = _one_array(table[name].cast(arrow_schema().field(name).type))
    bounds = array.offsets.to_numpy().astype(np.int64)
    return bounds - bounds[0], array.flatten().to_numpy()


def _rare_lists(table: pa.Table, name: str) -> list[Any] | None:
    """The list of each row; None where no row has one."""
    if name not in table.schema.names or table[name].null_count == table.num_rows:
        return None
    array = _one_array(table[name].cast(arrow_schema().field(name).type))
    bounds, values = array.offsets.to_numpy().tolist(), array.values.to_numpy()
    valid = array.is_valid().to_pylist()
    return [values[start:end] if here else None for start, end, here in zip(bounds, bounds[1:], valid, strict=False)]


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def _read_columns(part: Path, columns: Sequence[Column]) -> pa.Table:
    with open_part(part) as file:
        have = file.schema_arrow.names
        table = file.read(columns=[column.name for column in columns if column.name in have])
        num_rows = file.metadata.num_rows
    arrays = [
        table[column.name].cast(column.type) if column.name in have else pa.nulls(num_rows, column.type)
        for column in columns
    ]
    return pa.Table.from_arrays(arrays, [column.name for column in columns])


def _write_column(folder: Path, name: str, values: pa.ChunkedArray) -> None:
    """One column as an Arrow file of one batch."""
    try:
        array = _one_array(values.unify_dictionaries())
    except pa.ArrowInvalid as error:  # offsets of 32 bits
        raise IndexFormatError(f"column {name} takes more than 2 GiB: open parts of the index by themselves") from error
    batch = pa.record_batch([array], [name])
    with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def map_column(folder: Path, name: str) -> pa.Array:
    """A column of a cache, mapped."""
    with pa.memory_map(str(folder / f"{name}.arrow")) as source:
        return pa.ipc.open_file(source).get_batch(0).column(0)


def _digest_columns(folder: Path, num_rows: int, digest: Any) -> None:
    rows = pa.Table.from_arrays([map_column(folder, name) for name in _FINGERPRINTED], list(_FINGERPRINTED))
    for first in range(0, num_rows, _DIGEST_ROWS):  # a slice at a time: Python objects are large
        digest.update(repr(list(rows.slice(first, _DIGEST_ROWS).to_pydict().items())).encode())
