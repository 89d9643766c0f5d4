#!/usr/bin/env python3
"""Coverage-guided fuzzing of the codec configurations and sample heads: any bytes give facts, never an exception.

The first byte of an input chooses the codec, the second how many of the rest are the configuration.
Ran 61 s (165,170 inputs, no seeds, no finding) when it was written. Run again::

    pip install atheris
    python tests/fuzz/fuzz_codecconfig.py -max_total_time=300 -max_len=2048 -rss_limit_mb=2048 -timeout=2
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["vidprep.containers"]):
    from vidprep.containers.bitstream import sample_facts
    from vidprep.containers.codecconfig import READERS, codec_facts

from vidprep.records import StreamInfo

CODECS = (*sorted(READERS), "unheard-of")


def fuzz_one(data: bytes) -> None:
    """Facts of a stream and of one of its samples."""
    if len(data) < 2:
        return
    codec, config, sample = CODECS[data[0] % len(CODECS)], data[2 : 2 + data[1]], data[2 + data[1] :]
    facts = codec_facts(codec, config, sample)
    assert facts.width >= 0
    assert facts.height >= 0
    info = StreamInfo(container="mp4", codec=codec, codec_config=config, nal_length_size=facts.nal_length_size)
    sample_facts(info, sample)


if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz_one)
    atheris.Fuzz()
