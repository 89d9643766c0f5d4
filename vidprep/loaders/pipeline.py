"""One DALI graph for every device: decoded clips in, resized, cropped, transformed and laid out batches out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import ArgumentError, MissingDependencyError
from vidprep.loaders import arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Transform = Callable[[Any], Any]

#: layout → order of the axes F, H, W, C in it
LAYOUTS = {"FHWC": None, "FCHW": (0, 3, 1, 2), "CFHW": (3, 0, 1, 2)}
#: dtype → DALI's name for it, and its bytes
DTYPES = {"uint8": ("UINT8", 1), "uint16": ("UINT16", 2), "float16": ("FLOAT16", 2), "float32": ("FLOAT", 4)}
SIZE_MODES = ("crop", "stretch")

_INPUT = "clips"


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """What the graph does to each clip."""

    size: tuple[int, int] | None = None
    """(height, width) of what comes out; None = as decoded"""
    size_mode: str = "crop"
    """"crop": resize to cover, cut the middle out; "stretch": resize, changing the aspect ratio"""
    transform: Transform | None = None
    """a function of the DataNode of a batch of clips (FHWC, as decoded), applied after the resize"""
    layout: str = "FHWC"
    """"FHWC", "FCHW" or "CFHW" """
    dtype: str = "uint8"
    """"uint8", "float16" or "float32": a conversion without scaling; "uint16": clips come as uint16 and stay it"""

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("layout", self.layout, LAYOUTS),
            ("dtype", self.dtype, DTYPES),
            ("size_mode", self.size_mode, SIZE_MODES),
        ):
            arguments.choice(name, value, allowed)
        object.__setattr__(self, "size", arguments.size_of("size", self.size))
        if self.transform is not None and not callable(self.transform):
            raise arguments.wrong("transform", self.transform, "a function of the DataNode of clips")

    @property
    def decoded_dtype(self) -> str:
        """What clips must come as."""
        return "uint16" if self.dtype == "uint16" else "uint8"

    @property
    def pixel_bytes(self) -> int:
        """Of a pixel that comes out."""
        return 3 * DTYPES[self.dtype][1]


class ClipPipeline:
    """Runs batches of decoded clips through the graph, in the thread that calls.

    The number of clips may differ from batch to batch, and without `size` so may their sizes. Memory: one batch of
    decoded clips that is lent (on a GPU: a copy of it), and one batch that comes out; outputs live as long as they are referred to.

    Args:
        batch_size: most clips in a batch.
        device: "cpu", or "cuda:0" for torch CUDA clips.
        options: what is done to each clip.
        num_threads: DALI's own threads.

    Raises:
        MissingDependencyError: DALI is not installed.
    """

    def __init__(self, *, batch_size: int, device: str, options: GraphOptions, num_threads: int = 2) -> None:
        dali = import_dali()
        on_gpu, wide = device != "cpu", options.decoded_dtype == "uint16"
        self.device = device
        self._pipe: Any = dali.Pipeline(
            batch_size=batch_size,
            num_threads=num_threads,
            device_id=device_ordinal(device),
            exec_dynamic=True,
            prefetch_queue_depth=1,  # reading and decoding run ahead outside; the graph is an order above their speed
        )
        with self._pipe:
            clips = dali.fn.external_source(
                name=_INPUT,
                device="gpu" if on_gpu else "cpu",
                layout="FHWC",
                dtype=dali.types.INT16 if wide else dali.types.UINT8,
                batch=True,
                # GPU clips lie apart and are gathered in any case; lent, those that happen to lie side by side are not, and
                # DALI warns that batches of both kinds may corrupt each other.
                no_copy=not on_gpu,
            )
            if wide:
                clips = dali.fn.reinterpret(clips, dtype=dali.types.UINT16)
            self._pipe.set_outputs(shaped(dali, clips, options))
        self._pipe.build()

    def run(self, clips: Sequence[Any]) -> Any:
        """A DALI TensorList of the batch, finished.

        Args:
            clips: (F, H, W, 3) each, of the options' `decoded_dtype`: numpy on the CPU, torch CUDA tensors on a GPU.
        """
        if self.device != "cpu":
            _bind_context(self.device)
        self._pipe.feed_input(_INPUT, [_signed(clip) for clip in clips])
        (batch,) = self._pipe.run()
        return batch

    def close(self) -> None:
        """Free the graph and the memory that DALI keeps for it; batches that came out live on. Twice is harmless."""
        if self._pipe is not None:
            self._pipe = None
            release_unused_memory()


def _signed(clip: Any) -> Any:
    """Samples of 16 bits as int16, a view: DALI takes no others from torch."""
    if clip.dtype.itemsize == 1:
        return clip
    return clip.view(np.int16) if isinstance(clip, np.ndarray) else clip.view(_torch().int16)


def _torch() -> Any:
    import torch

    return torch


def _bind_context(device: str) -> None:
    """Make the GPU's context current in this thread: DALI takes input by driver calls, which need one.

    A CUDA runtime call does it; setting the device does not where it is the default one.
    """
    _torch().cuda.current_stream(device).query()


def import_dali() -> Any:
    """The nvidia.dali package. Raises MissingDependencyError, naming the pip command."""
    try:
        import nvidia.dali
        import nvidia.dali.fn
        import nvidia.dali.types
    except ImportError:
        raise MissingDependencyError("nvidia-dali", "dali") from None
    return nvidia.dali


def release_unused_memory() -> None:
    """Give back what DALI's pools hold of the GPU's and of pinned memory, and do not use."""
    import_dali().backend.ReleaseUnusedMemory()


def device_ordinal(device: str) -> int | None:
    """Number of the GPU that "cuda:0" or "cuda" names, None for "cpu"."""
    if device == "cpu":
        return None
    kind, _, ordinal = device.partition(":")
    if kind != "cuda" or not (ordinal or "0").isdecimal():
        raise ArgumentError(f'device={device!r} is neither "cpu" nor "cuda:N"')
    return int(ordinal or 0)


def check_gpu(device: str) -> None:
    """Raise ArgumentError if torch, which must be installed, sees no such GPU."""
    ordinal = device_ordinal(device)
    if ordinal is None:
        return
    cuda = _torch().cuda
    count = cuda.device_count() if cuda.is_available() else 0
    if ordinal >= count:
        expected = f"cuda:0 to cuda:{count - 1}, or cpu" if count else "cpu: torch sees no GPU here"
        raise arguments.wrong("device", device, expected)


def shaped(dali: Any, clips: Any, options: GraphOptions) -> Any:
    """The DataNode of finished clips from that of decoded ones (FHWC)."""
    fn = dali.fn
    if options.size is None:
        clips = fn.copy(clips)  # an output must not lie in the memory that is lent for the input
    else:
        height, width = options.size
        mode = "stretch" if options.size_mode == "stretch" else "not_smaller"
        clips = fn.resize(clips, resize_y=height, resize_x=width, mode=mode, antialias=True)
        if options.size_mode == "crop":
            clips = fn.crop(clips, crop=(height, width))
    if options.transform is not None:
        clips = options.transform(clips)
    if options.dtype != options.decoded_dtype or options.transform is not None:
        clips = fn.cast(clips, dtype=getattr(dali.types, DTYPES[options.dtype][0]))
    order = LAYOUTS[options.layout]
    return clips if order is None else fn.transpose(clips, perm=list(order))
