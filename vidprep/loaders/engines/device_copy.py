"""Copies within a GPU's memory: many by one driver call, the GIL released.

One copy for each of a clip's pictures costs 13 to 35 microseconds of the GIL where many threads wait for the driver's
lock (measured on an H200): they decode meanwhile, and need the GIL to go on.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

#: CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: the source is read in the stream's order.
IN_STREAM_ORDER = 1


class _Attributes(ctypes.Structure):
    """CUmemcpyAttributes; no hints, no flags."""

    _fields_ = (
        ("source_access_order", ctypes.c_int),
        ("source_location", ctypes.c_int * 2),
        ("target_location", ctypes.c_int * 2),
        ("flags", ctypes.c_uint),
    )


def copied(targets: Sequence[int], origins: Sequence[int], size_bytes: int, stream: int) -> bool:
    """Copy `size_bytes` from each origin to its target on a stream; False where the driver will not.

    Args:
        targets: device addresses.
        origins: device addresses, as many.
        size_bytes: bytes of each copy.
        stream: CUstream, not the default one.
    """
    if len(targets) == 1:
        return bool(_single()(targets[0], origins[0], size_bytes, stream) == 0)  # releasing the GIL costs more
    many = _batched()
    if many is None:
        return all(_single()(*pair, size_bytes, stream) == 0 for pair in zip(targets, origins, strict=True))
    num = len(targets)
    addresses = ctypes.c_uint64 * num
    sizes = (ctypes.c_size_t * num)(*[size_bytes] * num)
    attributes, first = _Attributes(IN_STREAM_ORDER), ctypes.c_size_t(0)
    status = many(
        addresses(*targets), addresses(*origins), sizes, num, ctypes.byref(attributes), ctypes.byref(first), 1, stream
    )
    return bool(status == 0)


@lru_cache(maxsize=1)
def _single() -> Any:
    function = ctypes.PyDLL("libcuda.so.1").cuMemcpyDtoDAsync_v2
    function.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
    return function


@lru_cache(maxsize=1)
def _batched() -> Any:
    """CuMemcpyBatchAsync as of CUDA 13; None where the driver is older."""
    function = getattr(ctypes.CDLL("libcuda.so.1"), "cuMemcpyBatchAsync_v2", None)
    if function is not None:
        function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t] + [ctypes.c_void_p] * 2 + [
            ctypes.c_size_t, ctypes.c_void_p,
        ]  # fmt: skip
    return function
