"""Real files cut off anywhere and with damaged headers, each read in a process that may use 200 MB and little time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "cases" / "files"
FILES = (
    "open_gop.mp4", "fmp4_plain.mp4", "many_mdat_moov_end.mp4", "stz2_16.mp4", "cover_first.mp4", "mkv_no_cues.mkv",
    "mkv_lacing_ebml.mkv", "vp9_altref.webm", "webm_live_unknown.webm", "avi_null_chunks.avi",
)  # fmt: skip

#: Runs in the process with the limit; prints how many inputs gave a table, how many an error, and the longest time.
SCRIPT = """
import random, resource, sys, time
import av
from vidprep.containers import parse_container
from vidprep.containers import demux
from vidprep.errors import MediaError

av.logging.set_level(None)
data = open(sys.argv[1], "rb").read()
draw = random.Random(sys.argv[1].rpartition("/")[2])

def inputs():
    step = max(len(data) // 150, 1)
    for cut in [*range(0, 64), *range(64, len(data), step)]:
        yield data[:cut]
    heads = [at for at in range(len(data) - 4) if data[at : at + 4].isalpha()] or [0]
    for number in range(150):
        damaged = bytearray(data)
        for _ in range(1 + number % 4):
            at = max(draw.choice(heads) + draw.randrange(-8, 24), 0)
            damaged[at : at + 4] = draw.choice([b"\\xff" * 4, b"\\0" * 4, b"\\x7f\\xff\\xff\\xff", draw.randbytes(4)])
        yield bytes(damaged)

def parse(data):
    started = time.process_time()
    try:
        table = parse_container(lambda offset, size: data[offset : offset + size], len(data), verify_keys=True).table
        assert table.num_frames > 0
    except MediaError:
        return False, time.process_time() - started
    return True, time.process_time() - started

parse(data)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000,) * 2)
results = [parse(each) for each in inputs()]
print(sum(good for good, _ in results), sum(not good for good, _ in results), max(taken for _, taken in results))
"""


@pytest.mark.parametrize("name", FILES)
def test_cut_and_damaged_files_take_little_time_and_memory(name: str) -> None:
    command = [sys.executable, "-c", SCRIPT, str(CASES / name)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    good, bad, longest = result.stdout.split()
    assert int(good)
    assert int(bad)
    assert float(longest) < 3, "three times the promise: machines under test are slow"
