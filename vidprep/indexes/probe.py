"""Probe one file: in this process (`probe`), or to an index row that always comes (`probe_row`)."""

from __future__ import annotations

import zlib
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from vidprep.containers import parse_container
from vidprep.errors import LimitError, MalformedContainerError, MediaError, Reason
from vidprep.indexes.rows import Row, error_row, video_row
from vidprep.records import Video
from vidprep.sources import open_source
from vidprep.sources.local import local_identity
from vidprep.sources.tar import archive_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vidprep.records import Identity, SampleTable
    from vidprep.sources import Source

#: Least bytes of a request to an object store: at 30 ms a request and 100 MB/s they take no longer than one byte.
OBJECT_READ_BYTES = 64 << 10


def probe(
    uri: str,
    *,
    verify_keys: bool = False,
    checksums: bool = False,
    identity: Identity | None = None,
    source: Source | None = None,
) -> Video:
    """Everything an index says of one file, without an index.

    Args:
        uri: local path, `SHARD.tar::MEMBER`, or object.
        verify_keys: check key flags against the heads of all samples, not only where the tables give reason to doubt.
        checksums: add the CRC-32 of each sample's bytes; reads the whole track.
        identity: what a listing already said of it; spares a look-up in a tar or an object store.
        source: its bytes, where they are open already; left open.

    Raises:
        MediaError: it cannot be read; `uri`, `reason`, `offset` and `message` say what and why.
    """
    try:
        if source is not None:
            return _probe_source(uri, source, verify_keys=verify_keys, checksums=checksums)
        with open_source(uri, identity) as opened:
            return _probe_source(uri, opened, verify_keys=verify_keys, checksums=checksums)
    except MediaError as error:
        raise (archive_error(uri) or error).with_uri(uri) from error.__cause__
    except MemoryError as error:
        raise LimitError("memory ran out while it was read", reason=Reason.OUT_OF_MEMORY, uri=uri) from error


def _probe_source(uri: str, source: Source, *, verify_keys: bool, checksums: bool) -> Video:
    parsed = parse_container(
        source.read_at,
        source.identity.size_bytes,
        verify_keys=verify_keys,
        min_read_bytes=OBJECT_READ_BYTES if "://" in uri else 0,
    )
    if checksums:
        samples = _demuxed(source) if parsed.access == "demux" else _ranges(source, parsed.table)
        parsed = replace(parsed, table=replace(parsed.table, crc32=_checksums(samples, len(parsed.table))))
    return Video(uri=uri, identity=source.identity, parsed=parsed)


def _ranges(source: Source, table: SampleTable) -> Iterator[bytes]:
    """The bytes of each row, as the cut reads them."""
    for offset, size in zip(table.offset.tolist(), table.size.tolist(), strict=True):
        yield source.read_at(offset, size)


def _demuxed(source: Source) -> Iterator[bytes]:
    """The same, of samples that lie in pieces."""
    from vidprep.containers import demux  # imports PyAV, which is slow to load

    for packet in demux.iter_packets(source.read_at, source.identity.size_bytes):
        yield packet.data


def _checksums(samples: Iterable[bytes], count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    sums = np.zeros(count, np.uint32)
    for row, data in enumerate(islice(samples, count)):
        sums[row] = zlib.crc32(data)
    return sums


def probe_row(
    uri: str,
    *,
    path: str | None = None,
    verify_keys: bool = False,
    checksums: bool = False,
    identity: Identity | None = None,
    source: Source | None = None,
) -> Row:
    """The index row of one file, by column name; a file that cannot be read gives an error row, never an exception."""
    path = uri if path is None else path
    failure: MediaError
    try:
        video = probe(uri, verify_keys=verify_keys, checksums=checksums, identity=identity, source=source)
        return video_row(video, path)
    except MediaError as error:
        failure = error
    except MemoryError:
        failure = LimitError("memory ran out", reason=Reason.OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - a parser's mistake on a hostile file costs that file's row, not the run
        failure = MalformedContainerError(f"{type(error).__name__}: {error}")
    return error_row(uri, path, failure, identity or local_identity(uri))
