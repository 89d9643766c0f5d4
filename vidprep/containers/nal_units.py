"""Splitting configurations and samples of H.264, HEVC and VVC into NAL units."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Most NAL units that one sample or configuration is searched through: bounds the time on hostile input.
MAX_NAL_UNITS = 4096

#: Most parameter sets that one configuration or sample is believed to hold.
MAX_PARAMETER_SETS = 64


def nal_units(data: bytes, length_size: int) -> Iterator[bytes]:
    """NAL units of a sample: behind lengths of `length_size` bytes, or, for 0, between start codes."""
    return (data[start:end] for start, end in nal_spans(data, length_size))


def nal_spans(data: bytes, length_size: int) -> Iterator[tuple[int, int]]:
    """(first byte, place after the last byte) of each NAL unit that is not empty, without copying."""
    return _length_prefixed_spans(data, length_size) if length_size else _annex_b_spans(data)


def _length_prefixed_spans(data: bytes, length_size: int) -> Iterator[tuple[int, int]]:
    """Big-endian lengths; one that runs over the end gives what is there and stops."""
    at, end = 0, len(data)
    for _ in range(MAX_NAL_UNITS):
        if at + length_size >= end:
            return
        size = int.from_bytes(data[at : at + length_size], "big")
        at += length_size
        if size:
            yield at, min(at + size, end)
        at += size


def _annex_b_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Start codes (ITU-T H.264 annex B); the last unit may be cut off."""
    start = data.find(b"\0\0\1") + 3
    for _ in range(MAX_NAL_UNITS):
        if start < 3 or start >= len(data):
            return
        code = data.find(b"\0\0\1", start)
        end = len(data) if code < 0 else start + len(data[start:code].rstrip(b"\0"))
        if end > start:
            yield start, end
        start = code + 3


def annex_b_units(data: bytes) -> Iterator[bytes]:
    """NAL units between start codes."""
    return nal_units(data, 0)


def is_annex_b(data: bytes) -> bool:
    """A configuration that is start codes and NAL units instead of avcC, hvcC or vvcC."""
    return data[:3] == b"\0\0\1" or data[:4] == b"\0\0\0\1"


def avcc_units(config: bytes) -> Iterator[bytes]:
    """Parameter sets of an avcC (ISO/IEC 14496-15, 5.3.3.1): at most 31 SPS and 255 PPS."""
    at = 5
    for mask in (31, 255):
        count = config[at] & mask if at < len(config) else 0
        at += 1
        for _ in range(count):
            size = int.from_bytes(config[at : at + 2], "big")
            at += 2
            if size and at < len(config):
                yield config[at : at + size]
            at += size


def hvcc_units(config: bytes) -> Iterator[bytes]:
    """Parameter sets of an hvcC (ISO/IEC 14496-15, 8.3.2.1)."""
    at, end = 23, len(config)
    for _ in range(config[22] if end > 22 else 0):
        count = int.from_bytes(config[at + 1 : at + 3], "big")
        at += 3
        for _ in range(count):
            if at + 2 > end:
                return
            size = int.from_bytes(config[at : at + 2], "big")
            at += 2
            if size:
                yield config[at : at + size]
            at += size


def vvcc_units(arrays: bytes) -> Iterator[bytes]:
    """Parameter sets of a vvcC from its num_of_arrays on (ISO/IEC 14496-15, 11.2.4.2)."""
    at, end = 1, len(arrays)
    for _ in range(arrays[0] if arrays else 0):
        count = 1
        if at < end and arrays[at] & 31 not in (12, 13):  # OPI and DCI come alone and are not counted
            count = int.from_bytes(arrays[at + 1 : at + 3], "big")
            at += 2
        at += 1
        for _ in range(count):
            if at + 2 > end:
                return
            size = int.from_bytes(arrays[at : at + 2], "big")
            at += 2
            if size:
                yield arrays[at : at + size]
            at += size
