"""THE table of columns of an index. `docs/index-format.md`, the writer and the reader all follow it.

Promise on versions: a reader of version V opens every index whose version is at most V (columns that an older index
lacks read as null); an index with a newer version, or without the required columns, raises `IndexFormatError`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from vidprep.errors import IndexFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA_VERSION = 1
VERSION_KEY = "vidprep.schema_version"

_TEXTS = pa.list_(pa.string())
_FINDINGS = pa.list_(
    pa.struct([pa.field("reason", pa.string()), pa.field("message", pa.string()), pa.field("offset", pa.int64())])
)
_INTS = pa.list_(pa.int64())
_CONFIGS = pa.list_(pa.struct([pa.field("row", pa.int64()), pa.field("config", pa.binary())]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the index."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str
    words: bool = False
    """few distinct values: dictionary-coded on disk and in the cache"""
    required: bool = False
    """an index without it cannot be read"""


def _word(name: str, meaning: str, *, required: bool = False) -> Column:
    return Column(name=name, type=pa.string(), unit="", meaning=meaning, words=True, required=required)


def _column(name: str, type_: pa.DataType, unit: str, meaning: str, *, required: bool = False) -> Column:
    return Column(name=name, type=type_, unit=unit, meaning=meaning, required=required)


#: One value per video.
VIDEO_COLUMNS: tuple[Column, ...] = (
    _column(
        "uri", pa.string(), "", "where it is: absolute local path, `s3://...`, or `SHARD.tar::MEMBER`", required=True
    ),
    _column(
        "uri_bytes",
        pa.binary(),
        "",
        "the uri's own bytes, only where they are not UTF-8 (`uri` then shows them as \\xNN)",
    ),
    _column("path", pa.string(), "", "the uri as it was given or found, before it was made absolute"),
    _word("status", '"ok" or "error"', required=True),
    _word("error_class", "name of the exception, for errors"),
    _word("error_reason", "one of `vidprep.errors.Reason`"),
    _column("error_message", pa.string(), "", "what is wrong and what was expected"),
    _column("error_offset", pa.int64(), "bytes", "where in the file it was seen"),
    _column("warnings", _FINDINGS, "", "what is wrong although the file could be read: reason, message, offset"),
    _word("container", "short name: mp4, mov, matroska, webm, avi, mpegts, ..."),
    _word("codec", "FFmpeg's name: h264, hevc, vp9, av1, ..."),
    _word("codec_tag", "fourcc, or empty"),
    Column(
        name="codec_config",
        type=pa.binary(),
        unit="",
        words=True,
        meaning="the decoder's set-up as FFmpeg calls extradata: avcC, hvcC, av1C, ...",
    ),
    Column(
        name="later_configs",
        type=_CONFIGS,
        unit="",
        meaning="rows of the frame table from which on another codec_config holds (several sample descriptions)",
    ),
    _column("nal_length_size", pa.int8(), "bytes", "length prefix of each NAL unit; 0 = start codes, or no NAL units"),
    _column("stream_index", pa.int32(), "", "place among the container's tracks, counted as FFmpeg counts"),
    _column("track_id", pa.int64(), "", "the container's own number of the track"),
    _column("width", pa.int32(), "pixels", "after cropping, before rotation"),
    _column("height", pa.int32(), "pixels", "after cropping, before rotation"),
    _column("coded_width", pa.int32(), "pixels", "as coded, before cropping"),
    _column("coded_height", pa.int32(), "pixels", "as coded, before cropping"),
    _column("display_width", pa.int32(), "pixels", "as shown: sample aspect ratio and rotation applied"),
    _column("display_height", pa.int32(), "pixels", "as shown: sample aspect ratio and rotation applied"),
    _word("sar", 'sample aspect ratio, "num/den"'),
    _column("rotation", pa.int16(), "degrees", "clockwise, to be applied for display: 0, 90, 180, 270"),
    _word("profile", "codec profile"),
    _word("level", "codec level"),
    _word("pix_fmt", "FFmpeg's name"),
    _column("bit_depth", pa.int8(), "bits", "of a luma sample"),
    _word("chroma", '"4:2:0", "4:2:2", "4:4:4", "4:0:0", "rgb"'),
    _column("interlaced", pa.bool_(), "", "fields, not whole pictures"),
    _word("colour_matrix", '"bt709", "bt601", "bt2020", ...; null = untagged'),
    _word("colour_range", '"limited" or "full"; null = untagged'),
    _word("colour_primaries", "null = untagged"),
    _word("colour_transfer", "null = untagged"),
    _word("time_base", 'seconds per tick, "num/den"'),
    _column("last_duration_ticks", pa.int64(), "ticks", "how long the last frame is shown"),
    _column("header_num_frames", pa.int64(), "frames", "the header's own count, right or wrong"),
    _column("header_fps", pa.float64(), "1/s", "the header's own frame rate claim"),
    _column("reorder_depth", pa.int16(), "pictures", "how far decode order may run ahead of presentation order"),
    _word("nvdec", 'NVDEC capability class: "yes", "some", "no", "unknown"'),
    _column("has_audio", pa.bool_(), "", "an audio track is there"),
    _column("audio_duration_seconds", pa.float64(), "s", "length of the audio track"),
    Column(name="other_streams", type=_TEXTS, unit="", meaning="other video tracks, one phrase each"),
    _column("num_frames", pa.int64(), "frames", "frames that a viewer sees", required=True),
    _column("num_samples", pa.int64(), "rows", "rows of the frame table", required=True),
    _column("num_keyframes", pa.int64(), "frames", "frames at which decoding can start"),
    _column("first_pts", pa.int64(), "ticks", "presentation time of frame 0"),
    _column("last_pts", pa.int64(), "ticks", "presentation time of the last frame"),
    _column("duration_seconds", pa.float64(), "s", "last pts + its duration − first pts"),
    _column("avg_fps", pa.float64(), "1/s", "(n−1) / (last − first pts); 0 where undefined"),
    _column("is_vfr", pa.bool_(), "", "deltas differ by more than one tick"),
    _word("vfr_class", '"cfr", "quantised_cfr", "vfr"'),
    _column("num_gaps", pa.int64(), "", "deltas longer than 3 medians"),
    _column("num_duplicates", pa.int64(), "", "deltas of zero"),
    _column("num_backward", pa.int64(), "", "deltas below zero"),
    _column("jitter_seconds", pa.float64(), "s", "standard deviation of the deltas"),
    _word("method", '"header" (sample tables), "scan" (fragments or blocks walked), "demux" (PyAV)'),
    _word("access", '"ranges": each sample lies at offset..offset+size; "demux": it must be demuxed again'),
    _column("keys_verified", pa.bool_(), "", "key flags were checked against the heads of the samples"),
    Column(name="doubts", type=_TEXTS, unit="", meaning="why sample heads were read although the tables looked whole"),
    _column("size_bytes", pa.int64(), "bytes", "length of the file (or tar member)"),
    _column("mtime_ns", pa.int64(), "ns", "modification time since 1970 (a tar member has its archive's)"),
    _column("etag", pa.string(), "", "the object store's tag of the content"),
    _column("member_offset", pa.int64(), "bytes", "where a tar member's data starts in the archive"),
)

#: One list per video, an entry for each coded sample in decode order.
FRAME_COLUMNS: tuple[Column, ...] = (
    _column("sample_sizes", _INTS, "bytes", "size of each sample", required=True),
    _column("sample_gaps", _INTS, "bytes", "offset − end of the sample before (the first: its offset)", required=True),
    _column("sample_pts_deltas", _INTS, "ticks", "pts − pts of the sample before (the first: its pts)", required=True),
    _column(
        "sample_flags",
        pa.list_(pa.int32()),
        "bits",
        "1 = key, 2 = shown, 4 = no other picture refers to it, 8 = a decoder starts afresh here",
        required=True,
    ),
    _column("frame_order", _INTS, "rows", "row of each frame; null = shown rows sorted by pts, stable"),
    _column("sample_crc32", pa.list_(pa.uint32()), "", "CRC-32 of each sample's bytes (`--checksums`), else null"),
)

COLUMNS = VIDEO_COLUMNS + FRAME_COLUMNS
VIDEO_NAMES = tuple(column.name for column in VIDEO_COLUMNS)
FRAME_NAMES = tuple(column.name for column in FRAME_COLUMNS)


@lru_cache(maxsize=1)
def arrow_schema() -> pa.Schema:
    """The Arrow schema of a part."""
    return pa.schema([pa.field(column.name, column.type) for column in COLUMNS])


def file_metadata() -> dict[str, str]:
    """Key-value metadata of a part."""
    return {VERSION_KEY: str(SCHEMA_VERSION)}


def check_part(file: Any, where: str) -> None:
    """Raise IndexFormatError if an open `pyarrow.parquet.ParquetFile` is no part that this version can read."""
    version = (file.metadata.metadata or {}).get(VERSION_KEY.encode())
    if version is None or not version.isdigit():
        raise IndexFormatError(f"{where}: not a vidprep index (no {VERSION_KEY} in its metadata)")
    if int(version) > SCHEMA_VERSION:
        raise IndexFormatError(
            f"{where}: schema version {int(version)} is newer than {SCHEMA_VERSION}, the newest this vidprep reads; "
            "upgrade it"
        )
    names = file.schema_arrow.names
    missing = [column.name for column in COLUMNS if column.required and column.name not in names]
    if missing:
        raise IndexFormatError(f"{where}: lacks the columns {', '.join(missing)}")


@contextmanager
def open_part(part: Path) -> Iterator[Any]:
    """An open `pyarrow.parquet.ParquetFile` of one part.

    Raises:
        IndexFormatError: it is no part that this version can read, or not whole, also where that shows while it is read.
    """
    try:
        with parquet.ParquetFile(part) as file:
            check_part(file, str(part))
            yield file
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the file system's own
            raise
        why = str(error).partition("\n")[0]
        raise IndexFormatError(f"{part}: not a whole Parquet file ({why}); remove it, then index again") from error
