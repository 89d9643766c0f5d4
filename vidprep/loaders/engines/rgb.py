"""NV12 and P016 surfaces to RGB in torch: one fused Triton kernel on a GPU that has Triton, torch operations elsewhere.

Both follow the tables of `vidprep.loaders.colour` and differ by rounding only.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import numpy as np

from vidprep.loaders.colour import HORIZONTAL_LIMIT, chroma_siting, conversion_of, upsample_taps
from vidprep.records import StreamInfo

logger = logging.getLogger(__name__)

#: The smallest picture, to try a conversion with.
TWO_BY_TWO = StreamInfo(container="", codec="h264", width=2, height=2)

#: What an 8-bit level is in each dtype: white is 255, or 65535.
GAINS = {"uint8": 1, "uint16": 257}

#: Frames that the torch path converts at once; bounds its temporaries at about 40 bytes a pixel each.
TORCH_FRAMES_AT_ONCE = 8


def surface_rows(height: int) -> int:
    """Rows of a 4:2:0 semi-planar surface: luma, then chroma of half the height rounded up."""
    return height + (height + 1) // 2


def surface_to_rgb(surfaces: Any, info: StreamInfo, chroma_location: int | None = None, dtype: str = "uint8") -> Any:
    """Semi-planar 4:2:0 pictures to RGB.

    Args:
        surfaces: torch uint8 (NV12) or int16/uint16 (P016: samples in the high bits) tensor of shape
            (F, surface_rows(H), W rounded up to even), contiguous.
        info: the stream's size and colour tags.
        chroma_location: the stream's chroma sample location type (H.264, HEVC); None = not stated.
        dtype: a key of GAINS.

    Returns:
        torch (F, H, W, 3) of that dtype on the same device, ready on the current stream.
    """
    import torch

    if surfaces.dtype == torch.uint16:
        surfaces = surfaces.view(torch.int16)
    convert = _triton_converter() if surfaces.is_cuda else None
    return (convert or _convert_torch)(surfaces, info, chroma_siting(info, chroma_location), GAINS[dtype])


def warm_up(device: Any) -> None:
    """Compile what will be needed, in one thread, before many ask for it."""
    import torch

    for dtype in (torch.uint8, torch.int16):
        surface_to_rgb(torch.zeros((1, 3, 2), dtype=dtype, device=device), TWO_BY_TWO)


@lru_cache(maxsize=64)
def _device_taps(num_in: int, num_out: int, first: float, device: str) -> tuple[Any, Any]:
    """upsample_taps as (4, num_out) tensors."""
    import torch

    taps = [
        torch.from_numpy(np.ascontiguousarray(table.T)).to(device) for table in upsample_taps(num_in, num_out, first)
    ]
    if device != "cpu":
        torch.cuda.current_stream(device).synchronize()  # other streams will read them, too
    return taps[0], taps[1]


def _convert_torch(surfaces: Any, info: StreamInfo, siting: tuple[float, float], gain: float = 1) -> Any:
    import torch

    shape = (len(surfaces), info.height, info.width, 3)
    out = torch.empty(shape, dtype=torch.uint8 if gain == 1 else torch.uint16, device=surfaces.device)
    for start in range(0, len(surfaces), TORCH_FRAMES_AT_ONCE):
        part = slice(start, start + TORCH_FRAMES_AT_ONCE)
        out[part] = _convert_some(surfaces[part], info, siting, gain).to(out.dtype)
    return out


def _convert_some(surfaces: Any, info: StreamInfo, siting: tuple[float, float], gain: float) -> Any:
    import torch

    height, width = info.height, info.width
    planes = _levels(surfaces)
    chroma = planes[:, height:].reshape(len(planes), (height + 1) // 2, -1, 2)[:, :, : (width + 1) // 2]
    chroma = _upsampled(chroma, 2, width, siting[0]).clamp_(max=HORIZONTAL_LIMIT)
    chroma = _upsampled(chroma, 1, height, siting[1])
    table = conversion_of(info)
    y, cb, cr = (
        plane - float(zero)
        for plane, zero in zip((planes[:, :height, :width], chroma[..., 0], chroma[..., 1]), table.offset, strict=True)
    )
    rows = [float(a) * y + float(b) * cb + float(c) * cr for a, b, c in table.matrix]
    return torch.stack(rows, -1).mul_(gain).add_(0.5).clamp_(0, 255 * gain)


def _levels(surfaces: Any) -> Any:
    """Samples as float32 in units of 8-bit levels."""
    import torch

    if surfaces.dtype == torch.uint8:
        return surfaces.float()
    return (surfaces.int() & 0xFFFF).float() / 256


def _upsampled(planes: Any, axis: int, num_out: int, first: float) -> Any:
    """Four taps along one axis of (F, H, W, 2)."""
    index, weight = _device_taps(planes.shape[axis], num_out, first, str(planes.device))
    shape = [1, 1, 1, 1]
    shape[axis] = num_out
    return sum(planes.index_select(axis, index[k]) * weight[k].view(shape) for k in range(4))


@lru_cache(maxsize=1)
def _triton_converter() -> Any:
    """The fused kernel's launcher, or None where Triton is not installed or cannot compile (it needs a C compiler)."""
    import torch

    try:
        from vidprep.loaders.engines.rgb_triton import convert

        convert(torch.zeros((1, 3, 2), dtype=torch.uint8, device="cuda"), TWO_BY_TWO, chroma_siting(TWO_BY_TWO))
    except ImportError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, torch can do the work
        logger.warning("Triton cannot compile, RGB conversion falls back to torch: %s", error)
        return None
    return convert


def launch_arguments(surfaces: Any, info: StreamInfo, siting: tuple[float, float], gain: float = 1) -> tuple[Any, ...]:
    """What the fused kernel takes after source and destination."""
    import torch

    height, width = info.height, info.width
    device = str(surfaces.device)
    table = conversion_of(info)
    return (
        *_device_taps((width + 1) // 2, width, siting[0], device),
        *_device_taps((height + 1) // 2, height, siting[1], device),
        height,
        width,
        surfaces.shape[1] * surfaces.shape[2],
        surfaces.shape[2],
        1.0 if surfaces.dtype == torch.uint8 else 1 / 256,
        HORIZONTAL_LIMIT,
        float(gain),
        255.0 * gain,
        *(float(value) for value in table.offset),
        *(float(value) for value in table.matrix.reshape(-1)),
    )
