"""Indexes of any size, written without a video: columns drawn at random, one sample a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from vidprep.indexes.schema import arrow_schema, file_metadata

if TYPE_CHECKING:
    from pathlib import Path

CODECS, SIZES = ("h264", "hevc", "av1", "vp9"), ((1920, 1080), (1280, 720), (640, 360), (3840, 2160), (1080, 1920))


def write_made_index(folder: Path, count: int, *, seed: int = 1, failed_every: int = 50, rows: int = 100_000) -> Path:
    """An index of `count` videos; every `failed_every`-th could not be read, and its name is markup."""
    folder.mkdir()
    for part, first in enumerate(range(0, count, rows)):
        table = _table(first, min(rows, count - first), np.random.default_rng((seed, part)), failed_every)
        with parquet.ParquetWriter(folder / f"part-{part:07}-000.parquet", table.schema) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(file_metadata())
    return folder


def _table(first: int, n: int, rng: np.random.Generator, failed_every: int) -> pa.Table:
    bad = (np.arange(first, first + n) % failed_every) == failed_every - 1
    seconds = rng.lognormal(2.5, 0.8, n)
    fps = rng.choice([24.0, 25.0, 30000 / 1001, 60.0], n)
    frames = np.maximum((seconds * fps).astype(int), 1)
    size = np.array(SIZES)[rng.integers(0, len(SIZES), n)]
    values = {
        "uri": [f"/data/{first + i:09}{'<b>&' if bad[i] else ''}.mp4" for i in range(n)],
        "status": np.where(bad, "error", "ok"),
        "error_reason": np.where(bad, "truncated", ""),
        "error_message": np.where(bad, "the file ends <early>", ""),
        "codec": np.array(CODECS)[rng.integers(0, len(CODECS), n)],
        "container": np.full(n, "mp4"),
        "width": size[:, 0], "height": size[:, 1],
        "vfr_class": np.where(rng.random(n) < 0.1, "vfr", "cfr"),
        "method": np.full(n, "header"), "nvdec": np.full(n, "yes"), "pix_fmt": np.full(n, "yuv420p"),
        "rotation": np.zeros(n, int),
        "num_frames": np.where(bad, 0, frames), "num_samples": np.where(bad, 0, 1),
        "num_keyframes": np.where(bad, 0, -(-frames // rng.choice([12, 48, 250], n))),
        "duration_seconds": frames / fps, "avg_fps": fps,
        "size_bytes": (seconds * rng.lognormal(14, 1, n) / 8).astype(int),
    }  # fmt: skip
    one = [[] if is_bad else [1] for is_bad in bad.tolist()]
    lists = dict.fromkeys(("sample_sizes", "sample_gaps", "sample_pts_deltas", "sample_flags"), one)
    schema = arrow_schema()
    columns = [
        pa.array({**values, **lists}[field.name]).cast(field.type)
        if field.name in values or field.name in lists
        else pa.nulls(n, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
