"""The fused NV12/P016 to RGB kernel: one pass over the surface, no temporaries. Imported only where Triton is."""

# ruff: noqa: N803 - kernel arguments follow Triton's conventions: constexpr in capitals, and many scalars
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

from vidprep.loaders.engines.rgb import launch_arguments

if TYPE_CHECKING:
    from vidprep.records import StreamInfo

BLOCK_PIXELS = 256


@triton.jit(do_not_specialize=["height", "width", "frame_stride", "pitch"])  # type: ignore[untyped-decorator]  # Triton has no types
def _kernel(  # type: ignore[no-untyped-def]  # Triton reads annotations as its own
    src, out, x_index, x_weight, y_index, y_weight,
    height, width, frame_stride, pitch, scale, limit,
    gain, top, zero_y, zero_cb, zero_cr, ry, rcb, rcr, gy, gcb, gcr, by, bcb, bcr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.program_id(1)
    frame = tl.program_id(2).to(tl.int64)
    inside = x < width
    base = src + frame * frame_stride
    luma = (tl.load(base + y * pitch + x, mask=inside, other=0).to(tl.int32) & 0xFFFF).to(tl.float32) * scale - zero_y
    cb = tl.zeros((BLOCK,), tl.float32) - zero_cb
    cr = tl.zeros((BLOCK,), tl.float32) - zero_cr
    for ky in tl.static_range(4):
        line = base + (height + tl.load(y_index + ky * height + y)) * pitch
        across_cb = tl.zeros((BLOCK,), tl.float32)
        across_cr = tl.zeros((BLOCK,), tl.float32)
        for kx in tl.static_range(4):
            column = tl.load(x_index + kx * width + x, mask=inside, other=0) * 2
            weight = tl.load(x_weight + kx * width + x, mask=inside, other=0.0) * scale
            across_cb += (tl.load(line + column, mask=inside, other=0).to(tl.int32) & 0xFFFF).to(tl.float32) * weight
            across_cr += (tl.load(line + column + 1, mask=inside, other=0).to(tl.int32) & 0xFFFF).to(
                tl.float32
            ) * weight
        down = tl.load(y_weight + ky * height + y)
        cb += tl.minimum(across_cb, limit) * down
        cr += tl.minimum(across_cr, limit) * down
    pixel = out + ((frame * height + y) * width + x) * 3
    red = tl.minimum(tl.maximum((luma * ry + cb * rcb + cr * rcr) * gain + 0.5, 0.0), top)
    green = tl.minimum(tl.maximum((luma * gy + cb * gcb + cr * gcr) * gain + 0.5, 0.0), top)
    blue = tl.minimum(tl.maximum((luma * by + cb * bcb + cr * bcr) * gain + 0.5, 0.0), top)
    kind = out.dtype.element_ty
    tl.store(pixel, red.to(tl.int32).to(kind), mask=inside)
    tl.store(pixel + 1, green.to(tl.int32).to(kind), mask=inside)
    tl.store(pixel + 2, blue.to(tl.int32).to(kind), mask=inside)


def convert(surfaces: Any, info: StreamInfo, siting: tuple[float, float], gain: float = 1) -> Any:
    """As surface_to_rgb, on the current stream."""
    import torch

    shape = (len(surfaces), info.height, info.width, 3)
    out = torch.empty(shape, dtype=torch.uint8 if gain == 1 else torch.int16, device=surfaces.device)
    grid = (triton.cdiv(info.width, BLOCK_PIXELS), info.height, len(surfaces))
    _kernel[grid](surfaces, out, *launch_arguments(surfaces, info, siting, gain), BLOCK=BLOCK_PIXELS)
    return out if gain == 1 else out.view(torch.uint16)
