"""Open an index: lazy, memory-mapped, cheap to filter, to fork and to pickle."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import zlib
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from vidprep.errors import ArgumentError, IndexFormatError
from vidprep.indexes.cache import FRAMES_AT, ensure_cache, map_column
from vidprep.indexes.failed import read_failed
from vidprep.indexes.frames import unpack
from vidprep.indexes.mirror import local_folder
from vidprep.indexes.rows import INFO_NAMES, Row, info_of, text_of, uri_of
from vidprep.indexes.schema import VIDEO_COLUMNS, VIDEO_NAMES
from vidprep.indexes.state import part_paths
from vidprep.records import Identity, Timeline
from vidprep.sources.open import is_remote
from vidprep.timebase import parse_time_base

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from vidprep.records import SampleTable, StreamInfo

    Rows = npt.NDArray[np.int64]

_TYPES = {column.name: column.type for column in VIDEO_COLUMNS}

#: Short names that `where(min_..., max_...)` knows besides the columns' own.
_SHORT = {"frames": "num_frames", "duration": "duration_seconds", "seconds": "duration_seconds", "fps": "avg_fps"}


def open_index(path: str | os.PathLike[str], *, cache_dir: str | os.PathLike[str] | None = None) -> Index:
    """Open an index folder (or one part of one).

    The first opening on a host derives the memory-mapped cache from the parts; later ones, from any process, map it.

    Args:
        path: the folder that `build_index` wrote; `s3://...` and `gs://...` are copied to local disk first.
        cache_dir: where the cache lies; by default `PATH.vidprep/cache`, or the user's cache folder where that
            cannot be written.

    Raises:
        IndexFormatError: no parts there, a newer schema, or missing columns.
        OSError: the parts cannot be read, or the cache can be written nowhere.
    """
    where = os.fspath(path)
    where = where if is_remote(where) else os.path.realpath(where)
    return Index(_open_store(where, None if cache_dir is None else os.path.realpath(cache_dir)))


def _open_store(path: str, cache_dir: str | None) -> Store:
    index = local_folder(path, Path(cache_dir) if cache_dir else None)
    if index.is_file() and index.suffix != ".parquet":
        raise IndexFormatError(f"{path}: a file, and no index: give the folder that was made of it")
    parts = [index] if index.is_file() else part_paths(index)
    if not parts:
        what = "holds no *.parquet parts" if index.is_dir() else "no such index"
        raise IndexFormatError(f"{path}: {what}")
    return _map_store(path, cache_dir, str(ensure_cache(index, parts, Path(cache_dir) if cache_dir else None)))


@lru_cache(maxsize=8)
def _map_store(path: str, cache_dir: str | None, cache: str) -> Store:
    return Store(path, cache_dir, Path(cache))


class Store:
    """The mapped cache of one index: columns and blocks by row number."""

    def __init__(self, path: str, cache_dir: str | None, cache: Path) -> None:
        self.path, self.cache_dir = path, cache_dir
        facts = json.loads((cache / "meta.json").read_text())
        self.fingerprint, self._num_videos = str(facts["fingerprint"]), int(facts["num_videos"])
        # All at once: the files go when a newer cache takes their place, what is mapped stays.
        self._columns = {name: map_column(cache, name) for name in (*VIDEO_NAMES, FRAMES_AT)}
        self._starts = self.array(FRAMES_AT).to_numpy()
        self._frames = _map(cache / "frames.bin")
        self._getters: dict[str, Callable[[int], Any]] = {}

    def __len__(self) -> int:
        return self._num_videos

    def array(self, name: str) -> pa.Array:
        """A column."""
        return self._columns[name]

    def table(self, names: Sequence[str] = VIDEO_NAMES) -> pa.Table:
        """Columns."""
        return pa.Table.from_arrays([self.array(name) for name in names], list(names))

    def mask(self, expression: pc.Expression) -> npt.NDArray[np.bool_]:
        """Bool per row: the expression holds."""
        table = self.table().append_column("row", pa.array(np.arange(len(self))))
        rows = dataset.dataset(table).scanner(columns=["row"], filter=expression).to_table()["row"].to_numpy()
        keep = np.zeros(len(self), bool)
        keep[rows] = True
        return keep

    def get(self, name: str, row: int) -> Any:
        """One value as a Python object, null as None."""
        getter = self._getters.get(name)
        if getter is None:
            getter = self._getters[name] = _getter(self.array(name))
        return getter(row)

    def samples(self, row: int) -> SampleTable:
        """The sample table of a row."""
        return unpack(self._frames[int(self._starts[row]) :], self.get("num_samples", row) or 0)


def _map(path: Path) -> memoryview:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _getter(array: pa.Array) -> Callable[[int], Any]:
    """Row → value; several times faster than Arrow's scalars for numbers and words."""
    if pa.types.is_dictionary(array.type):
        words = array.dictionary.to_pylist()
        return _masked(array, array.indices, lambda value: words[value])
    if pa.types.is_integer(array.type):
        return _masked(array, array, int)
    if pa.types.is_floating(array.type):
        return _masked(array, array, float)
    return lambda row: array[row].as_py()


def _masked(array: pa.Array, numbers: pa.Array, convert: Callable[[Any], Any]) -> Callable[[int], Any]:
    if array.null_count == 0:
        values = numbers.to_numpy()
        return lambda row: convert(values[row])
    values = pc.fill_null(numbers, 0).to_numpy()
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return lambda row: convert(values[row]) if valid[row] else None


@lru_cache(maxsize=1024)
def _time_base(text: str | None) -> Fraction:
    return parse_time_base(text) if text else Fraction(1)


class VideoRow:
    """One video of an index (a `VideoLike`); what is asked for is made once, from mapped memory.

    `row["name"]` gives any column.
    """

    def __init__(self, store: Store, number: int) -> None:
        self._store = store
        self.number = number
        """row of the index, whatever view it was taken from"""

    def __getitem__(self, name: str) -> Any:
        return self._store.get(name, self.number)

    def __repr__(self) -> str:
        return f"VideoRow({self.uri!r}, row {self.number}, {self['status']})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopen_row, (self._store.path, self._store.cache_dir, self._store.fingerprint, self.number))

    @property
    def status(self) -> str:
        """One of "ok", "error"."""
        return str(self["status"])

    @property
    def access(self) -> str:
        """As ParsedVideo.access."""
        return str(self["access"])

    @property
    def keys_verified(self) -> bool:
        """As ParsedVideo.keys_verified."""
        return bool(self["keys_verified"])

    @cached_property
    def uri(self) -> str:
        """Where it is."""
        return uri_of({"uri": self["uri"], "uri_bytes": self["uri_bytes"]})

    @cached_property
    def identity(self) -> Identity:
        """The content that the tables describe."""
        return Identity(
            size_bytes=self["size_bytes"] or 0,
            mtime_ns=self["mtime_ns"],
            etag=self["etag"],
            member_offset=self["member_offset"],
        )

    @cached_property
    def info(self) -> StreamInfo:
        """Stream facts."""
        return info_of({name: self[name] for name in INFO_NAMES})

    @cached_property
    def table(self) -> SampleTable:
        """Coded samples."""
        return self._store.samples(self.number)

    @cached_property
    def timeline(self) -> Timeline:
        """When its frames are shown."""
        return Timeline(
            pts=self.table.frame_pts,
            time_base=_time_base(self["time_base"]),
            last_duration_ticks=self["last_duration_ticks"] or 0,
            keyframes=self.table.keyframes,
        )

    def values(self) -> Row:
        """All columns with one value per video."""
        return {name: self[name] for name in VIDEO_NAMES}


class Index:
    """A view of an index's videos (a `VideoCollection`): all of them, or those that `where` left."""

    def __init__(self, store: Store, rows: Rows | None = None, filters: tuple[Any, ...] = ()) -> None:
        self._store = store
        self._rows = rows
        self._filters = filters

    def __len__(self) -> int:
        return len(self._store) if self._rows is None else len(self._rows)

    def __getitem__(self, position: int) -> VideoRow:
        n = len(self)
        if not -n <= position < n:
            raise IndexError(f"video {position} of {n}")
        position %= n
        return VideoRow(self._store, position if self._rows is None else int(self._rows[position]))

    def __iter__(self) -> Iterator[VideoRow]:
        return (self[position] for position in range(len(self)))

    def __repr__(self) -> str:
        return f"Index({self._store.path!r}, {len(self)} videos)"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopen, (self._store.path, self._store.cache_dir, self._store.fingerprint, self._filters))

    @property
    def path(self) -> str:
        """The index folder."""
        return self._store.path

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever the order or the content of the videos does; the same on every host."""
        if not self._filters:
            return self._store.fingerprint
        text = repr((self._store.fingerprint, [_text(expression) for expression in self._filters]))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def where(self, expression: pc.Expression | None = None, **conditions: Any) -> Index:
        """The videos for which all conditions hold; touches only the columns that they name.

        Args:
            expression: any pyarrow expression over the columns.
            conditions: `column=value` (a list, tuple or set: any of them; None: is null), `min_x=value` and
                `max_x=value` (inclusive) for a column x, or for frames, duration, fps.

        Raises:
            ArgumentError: no such column, or a value that does not compare with it.
        """
        terms: list[Any] = [] if expression is None else [expression]
        terms += [_condition(name, value) for name, value in conditions.items()]
        return self.narrowed(terms) if terms else self

    def narrowed(self, terms: Sequence[Any]) -> Index:
        """The view that is left by expressions and conditions."""
        keep = np.ones(len(self._store), bool)
        for term in terms:
            keep &= term.mask(self._store) if isinstance(term, Condition | Without) else self._store.mask(term)
        rows = np.flatnonzero(keep) if self._rows is None else self._rows[keep[self._rows]]
        return Index(self._store, rows, (*self._filters, *terms))

    def without(self, failures: str | os.PathLike[str] | Iterable[str]) -> Index:
        """The videos that are not known to be bad.

        Args:
            failures: what `ClipLoader.write_failures` wrote (a file, or a folder of them), or uris. A ledger's clips
                that a policy refused do not count.

        Raises:
            IndexFormatError: no ledger there.
        """
        is_path = isinstance(failures, (str, os.PathLike))
        uris = read_failed(failures) if is_path else frozenset(failures)  # type: ignore[arg-type]  # as is_path says
        return self.narrowed([Without(uris)])

    def column(self, name: str) -> npt.NDArray[Any]:
        """One value for each video; null is NaN in numbers, None in text."""
        values: npt.NDArray[Any] = self.to_table([name])[name].to_numpy()
        return values

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Columns with one value per video as an Arrow table. Raises ArgumentError: no such column."""
        names = list(VIDEO_NAMES if columns is None else columns)
        for name in names:
            _check_name(name)
        table = self._store.table(names)
        return table if self._rows is None else table.take(pa.array(self._rows))


class Condition(NamedTuple):
    """One comparison of a column; kernels over mapped memory, words by their codes."""

    column: str
    compare: str
    """"min", "max" (both inclusive) or "in" """
    value: Any
    """for "in": a sorted tuple, with None first for null"""

    def mask(self, store: Store) -> npt.NDArray[np.bool_]:
        """Bool per row of the store; null never compares."""
        array = store.array(self.column)
        if self.compare != "in":
            kernel = pc.greater_equal if self.compare == "min" else pc.less_equal
            return _mask(kernel(array, self.value))
        values = [value for value in self.value if value is not None]
        null = _mask(array.is_null()) if len(values) < len(self.value) else np.zeros(len(array), bool)
        if pa.types.is_dictionary(array.type):
            codes = pc.index_in(pa.array(values, array.type.value_type), array.dictionary)
            return null | _mask(pc.is_in(array.indices, codes.drop_null()))
        if pa.types.is_integer(array.type):
            top = 1 << (array.type.bit_width - 1)
            values = [value for value in values if -top <= value < top]  # no other can be in it
        return null | _mask(pc.is_in(array, pa.array(values, array.type)))


def _mask(found: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = pc.fill_null(found, fill_value=False).to_numpy(zero_copy_only=False)
    return mask


def _condition(name: str, value: Any) -> Condition:
    for compare in ("min", "max"):
        if name.startswith(f"{compare}_"):
            bare = name.removeprefix(f"{compare}_")
            column = _SHORT.get(bare, bare)
            return Condition(column, compare, _comparable(name, value, _kind(column), exactly=False))
    many = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    null = [None] if None in many else []
    kind = _kind(name)
    known = [_comparable(name, one, kind, exactly=True) for one in many if one is not None]
    return Condition(name, "in", (*null, *sorted(known)))


def _kind(column: str) -> pa.DataType:
    """Type of a column that can be compared."""
    kind = _TYPES[_check_name(column)]
    if pa.types.is_nested(kind):
        raise ArgumentError(f"where: column {column!r} holds lists, which are not compared; give an expression")
    return kind


def _comparable(name: str, value: Any, kind: pa.DataType, *, exactly: bool) -> Any:
    """A value that compares with a column's; where it need not equal one, of any kind of number."""
    value = value.item() if isinstance(value, np.generic) else value
    whole = pa.types.is_integer(kind) and exactly
    types, expected = _EXPECTED["int64" if whole else "double" if pa.types.is_integer(kind) else str(kind)]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ArgumentError(f"where: {name}={value!r}: expected {expected}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ArgumentError(f"where: {name}={value!r}: expected {expected} of 64 bits")
    return text_of(value) if isinstance(value, str) else value


#: type of a column → Python's types that compare with it, and what they are called
_EXPECTED: dict[str, tuple[tuple[type, ...], str]] = {
    "int64": ((int,), "an integer"),
    "double": ((int, float), "a number"),
    "bool": ((bool,), "True or False"),
    "string": ((str,), "text"),
    "binary": ((bytes,), "bytes"),
}


class Without:
    """The filter that leaves videos out by name."""

    def __init__(self, uris: frozenset[str]) -> None:
        self.uris = uris

    def __str__(self) -> str:
        names = b"\0".join(sorted(os.fsencode(uri) for uri in self.uris))
        return f"without {hashlib.blake2b(names, digest_size=16).hexdigest()}"

    def mask(self, store: Store) -> npt.NDArray[np.bool_]:
        """Bool per row of the store: the video is not named."""
        shown = [os.fsencode(uri).decode("utf-8", "backslashreplace") for uri in sorted(self.uris)]
        keep = np.ones(len(store), bool)
        for row in np.flatnonzero(_mask(pc.is_in(store.array("uri"), pa.array(shown, pa.string())))).tolist():
            keep[row] = VideoRow(store, row).uri not in self.uris  # what is shown alike may differ in its bytes
        return keep


def _text(expression: Any) -> str:
    """The filter in words that differ where filters do."""
    text = str(expression)
    if isinstance(expression, Condition | Without) or "..." not in text:
        return text
    serialised: pa.Buffer = expression.__reduce__()[1][0]  # pyarrow's words leave out the middle
    return f"{text} {zlib.crc32(serialised)}"


def _check_name(name: str) -> str:
    if name not in VIDEO_NAMES:
        raise ArgumentError(f"no column {name!r}; there are {', '.join(VIDEO_NAMES)}")
    return name


def _reopen(path: str, cache_dir: str | None, fingerprint: str, filters: tuple[Any, ...]) -> Index:
    whole = Index(_same_store(path, cache_dir, fingerprint))
    return whole.narrowed(filters) if filters else whole


def _reopen_row(path: str, cache_dir: str | None, fingerprint: str, number: int) -> VideoRow:
    return VideoRow(_same_store(path, cache_dir, fingerprint), number)


def _same_store(path: str, cache_dir: str | None, fingerprint: str) -> Store:
    store = _open_store(path, cache_dir)
    if store.fingerprint != fingerprint:
        raise IndexFormatError(f"{path}: the index changed since this view of it was pickled")
    return store
