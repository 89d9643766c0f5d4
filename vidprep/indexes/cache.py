"""The memory-mapped form of an index, derived from its parts once per host and shared by all its processes.

`rows.arrow`: the columns with one value per video, uncompressed Arrow IPC in one batch, so that they are mapped and
never copied. `frames.bin`: the sample tables as narrow blocks (see `frames`). `meta.json`: the content's fingerprint.
A cache is a folder named after its parts' names, sizes and times; it is built aside under a lock and renamed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from vidprep.indexes.frames import pack
from vidprep.indexes.schema import FRAME_NAMES, VIDEO_COLUMNS, arrow_schema, open_part
from vidprep.indexes.state import state_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Raise when the files' layout changes.
_LAYOUT = 2
#: Column of rows.arrow: where a video's block starts in frames.bin (it ends where the next one starts).
FRAMES_AT = "frames_at"
_DIGEST_ROWS = 1 << 14
#: What the fingerprint covers besides the frames.
_FINGERPRINTED = ("uri", "status", "size_bytes", "mtime_ns", "etag", "time_base", "num_frames", "num_samples")


def ensure_cache(index: Path, parts: Sequence[Path], cache_dir: Path | None) -> Path:
    """The folder of an up-to-date cache; built in the first place that can be written, if there is none.

    Raises:
        OSError: no place can be written.
    """
    name = _cache_name(parts)
    places = [cache_dir] if cache_dir else _places(index)
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
    return hashlib.blake2b(repr((_LAYOUT, facts)).encode(), digest_size=12).hexdigest()


def _places(index: Path) -> list[Path]:
    """Beside the index; else the user's cache folder; else the temporary folder."""
    name = hashlib.blake2b(os.fsencode(index), digest_size=8).hexdigest()
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
    tables, digest, at = [], hashlib.blake2b(digest_size=16), 0
    with (folder / "frames.bin").open("wb") as frames:
        for part in parts:
            for table, starts, at_next in _part_tables(part, frames, digest, at):
                tables.append(table.append_column(FRAMES_AT, pa.array(starts)))
                at = at_next
    schema = _cache_schema()
    rows = pa.concat_tables(tables) if tables else schema.empty_table()
    rows = rows.cast(schema).unify_dictionaries().combine_chunks()
    for first in range(0, rows.num_rows, _DIGEST_ROWS):  # a slice at a time: Python objects are large
        some = rows.select(_FINGERPRINTED).slice(first, _DIGEST_ROWS)
        digest.update(repr(list(some.to_pydict().items())).encode())
    with pa.OSFile(str(folder / "rows.arrow"), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        for batch in rows.to_batches():
            writer.write_batch(batch)
    meta = {"layout": _LAYOUT, "num_videos": rows.num_rows, "fingerprint": digest.hexdigest()}
    (folder / "meta.json").write_text(json.dumps(meta))


def _cache_schema() -> pa.Schema:
    fields = [
        pa.field(column.name, pa.dictionary(pa.int32(), column.type) if column.words else column.type)
        for column in VIDEO_COLUMNS
    ]
    return pa.schema([*fields, pa.field(FRAMES_AT, pa.int64())])


def _part_tables(part: Path, frames: IO[bytes], digest: Any, at: int) -> Iterator[tuple[pa.Table, list[int], int]]:
    """Row groups of a part: its columns, and where each video's block starts in `frames`, to which it is written."""
    with open_part(part) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            starts = []
            for block in _blocks(table):
                starts.append(at)
                frames.write(block)
                digest.update(block)
                at += len(block)
            yield _video_columns(table), starts, at


def _video_columns(table: pa.Table) -> pa.Table:
    schema = _cache_schema().remove(len(VIDEO_COLUMNS))
    return pa.Table.from_arrays([_video_column(table, field) for field in schema], schema=schema)


def _video_column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(field.type):
        column = table[field.name] if field.name in table.schema.names else pa.nulls(len(table), field.type)
        return column.cast(field.type)
    words = pa.nulls(len(table), field.type.value_type)
    if field.name in table.schema.names:
        words = table[field.name].cast(field.type.value_type)
    return words.dictionary_encode().cast(field.type)


def _blocks(table: pa.Table) -> Iterator[bytes]:
    columns = [_lists(table, name) for name in FRAME_NAMES]
    for row in range(table.num_rows):
        yield pack(*(column(row) for column in columns))


def _lists(table: pa.Table, name: str) -> Any:
    """Row → its list as an array; None where the row or the whole column is null."""
    if name not in table.schema.names:
        return lambda _row: None
    array = table[name].cast(arrow_schema().field(name).type).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    values = array.values.to_numpy()
    offsets = array.offsets.to_numpy().tolist()
    absent = np.asarray(array.is_null()) if array.null_count else None
    return lambda row: None if absent is not None and absent[row] else values[offsets[row] : offsets[row + 1]]
