"""The table of columns: documented, complete, and guarding against what cannot be read."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from vidprep.errors import IndexFormatError
from vidprep.indexes import open_index
from vidprep.indexes.schema import COLUMNS, SCHEMA_VERSION, VERSION_KEY, arrow_schema, check_part
from vidprep.indexes.write import PartWriter
from vidprep.records import StreamInfo

ROOT = Path(__file__).parent.parent


def _part(folder: Path, schema: pa.Schema, metadata: dict[str, str]) -> Path:
    folder.mkdir()
    path = folder / "part.parquet"
    with parquet.ParquetWriter(path, schema) as writer:
        writer.write_table(schema.empty_table())
        writer.add_key_value_metadata(metadata)
    return path


def test_the_documentation_is_what_the_table_says() -> None:
    result = subprocess.run([sys.executable, ROOT / "scripts" / "make_docs", "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_every_stream_fact_has_a_column() -> None:
    names = {column.name for column in COLUMNS}
    assert {field.name for field in dataclasses.fields(StreamInfo)} <= names


def test_names_are_unique_and_meanings_are_given() -> None:
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    assert all(column.meaning for column in COLUMNS)


def test_a_written_part_carries_the_version_and_passes_the_check(tmp_path: Path) -> None:
    with PartWriter(tmp_path / "part.parquet"):
        pass
    with parquet.ParquetFile(tmp_path / "part.parquet") as file:
        assert file.metadata.metadata[VERSION_KEY.encode()] == str(SCHEMA_VERSION).encode()
        assert file.schema_arrow.names == arrow_schema().names
        check_part(file, "part")


def test_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    _part(tmp_path / "index", arrow_schema(), {VERSION_KEY: str(SCHEMA_VERSION + 1)})
    with pytest.raises(IndexFormatError, match=f"version {SCHEMA_VERSION + 1} is newer"):
        open_index(tmp_path / "index")


def test_a_missing_required_column_is_refused_by_name(tmp_path: Path) -> None:
    schema = arrow_schema()
    schema = schema.remove(schema.get_field_index("num_frames"))
    _part(tmp_path / "index", schema, {VERSION_KEY: str(SCHEMA_VERSION)})
    with pytest.raises(IndexFormatError, match="lacks the columns num_frames"):
        open_index(tmp_path / "index")


def test_a_missing_optional_column_reads_as_null(tmp_path: Path) -> None:
    schema = arrow_schema()
    for name in ("nvdec", "sample_crc32"):
        schema = schema.remove(schema.get_field_index(name))
    _part(tmp_path / "index", schema, {VERSION_KEY: str(SCHEMA_VERSION)})
    assert open_index(tmp_path / "index").to_table(["nvdec"]).num_rows == 0


def test_other_parquet_files_are_no_index(tmp_path: Path) -> None:
    _part(tmp_path / "index", pa.schema([pa.field("a", pa.int64())]), {})
    with pytest.raises(IndexFormatError, match="not a vidprep index"):
        open_index(tmp_path / "index")


def test_a_folder_without_parts_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(IndexFormatError, match="holds no"):
        open_index(tmp_path)
    with pytest.raises(IndexFormatError, match="no such index"):
        open_index(tmp_path / "nowhere")
