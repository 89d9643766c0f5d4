"""The nvdec engine: PyNvVideoCodec's low-level decoders, kept between clips, fed straight from the cut.

What makes it exact: each picture says whose it is. H.264 and HEVC samples go in with a number in an SEI message of their
own, which comes out with the picture (`tags`); VP8 and VP9 pictures come in the order of their packets. One too many or
too few, a surface of another size, or an exception, and the decoder is thrown away and the cpu engine decodes the clip
or says what is wrong with it. (Time stamps do not tell pictures apart: NVDEC's parser hands them out anew, in ascending
order, to pictures in display order; so measured on an H200.)
A decoder serves streams with equal sequence parameters only, `sequences` says why. What makes it fast: decoders persist
(making one costs 54 ms on an H200), one thread feeds one decoder, a call decodes many samples and releases the GIL,
wanted surfaces are copied once, all of a call together, and all of a clip are converted to RGB by one kernel.

Memory, bounded: `num_decoders` decoders, each at most about 22 surfaces of 1.5 bytes a pixel (3 at 10 bits) of the
coded size, and as many again as one call decodes, up to SAMPLES_AT_ONCE and 4: 130 MB at 1080p; and for each clip in
work 4.5 bytes a pixel of its wanted frames (1.5 surface, 3 RGB).
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from vidprep.errors import DecodeError, MissingDependencyError
from vidprep.loaders.elementary import elementary_pieces
from vidprep.loaders.engines.decoder_pool import DecoderPool
from vidprep.loaders.engines.leading import without_leading
from vidprep.loaders.engines.nvdec_session import CODECS, TAGGED_CODECS, NvdecError, Session, StreamKind, one_line
from vidprep.loaders.engines.rgb import warm_up
from vidprep.loaders.engines.sequences import Sequence, sequences_of_cut
from vidprep.loaders.engines.superframes import several_reason

if TYPE_CHECKING:
    from vidprep.loaders.cut import Cut
    from vidprep.loaders.elementary import Pieces
    from vidprep.records import StreamInfo

logger = logging.getLogger(__name__)

#: Four sessions for each of an H200's seven NVDEC engines keep them busy, while others are between two clips.
DEFAULT_NUM_DECODERS = 28

#: NVDEC decodes these too, but their standards leave the inverse transform's rounding open (IEEE 1180), and errors add
#: up from picture to picture: up to 5 levels were seen between NVDEC and FFmpeg on an H200.
INEXACT_CODECS = frozenset({"mpeg1video", "mpeg2video", "mpeg4"})

#: Counted for clips that the cpu engine decoded after NVDEC had failed on them.
FAILED = "NVDEC failed"

#: Pixel formats that a session's surfaces can hold → bits.
PIXEL_FORMATS = {"yuv420p": 8, "yuvj420p": 8, "nv12": 8, "yuv420p10le": 10, "p010le": 10}


def unsupported_reason(info: StreamInfo) -> str | None:
    """Why this stream goes to the cpu engine, or None."""
    if info.codec in INEXACT_CODECS:
        return f"{info.codec} is not decoded to the bit"
    if info.codec not in CODECS:
        return f"NVDEC does not decode {info.codec}"
    if info.chroma not in (None, "4:2:0") or (info.pix_fmt and info.pix_fmt not in PIXEL_FORMATS):
        return f"{info.pix_fmt or info.chroma} {info.codec}"
    if _bit_depth(info) not in CODECS[info.codec][1]:
        return f"{_bit_depth(info)}-bit {info.codec}"
    if info.height % 2:
        return "odd height: PyNvVideoCodec's surface lacks the last chroma row"
    if info.interlaced:
        return "interlaced pictures would be deinterlaced"
    return None


class NvdecEngine:
    """Decodes cuts on a GPU; share one among at least `num_decoders` threads to keep it busy.

    Args:
        device: "cuda:0".
        num_decoders: decoder sessions alive at once; a call that finds all of them busy waits.
        dtype: "uint8", or "uint16" for videos of more than 8 bits: white is 65535, as in swscale's rgb48.
        colour_default: matrix of pictures that are not tagged; None = "bt601", as swscale takes them.

    Raises:
        MissingDependencyError: no torch, or no PyNvVideoCodec.
    """

    name = "nvdec"

    def __init__(
        self,
        device: str = "cuda:0",
        *,
        num_decoders: int = DEFAULT_NUM_DECODERS,
        dtype: str = "uint8",
        colour_default: str | None = None,
    ) -> None:
        torch, self._nvc = _import_torch(), _import_nvc()
        self._device = torch.device(device)
        self.num_decoders = num_decoders
        self._context = _primary_context(torch, self._device)
        self.dtype = dtype
        self._colour_default = colour_default
        warm_up(self._device)
        self._pool: DecoderPool[StreamKind, Session] = DecoderPool(self._new_session, num_decoders)
        self._fallback: Any = None
        self._limits: dict[tuple[str, int], Limits | None] = {}
        self._counting = threading.Lock()
        self.fallbacks: dict[str, int] = {}
        """clips that the cpu engine decoded, by reason"""
        self.num_pictures = 0
        """pictures that NVDEC decoded, wanted or not"""

    def decode(self, cut: Cut) -> Any:
        """RGB (len(cut.frames), H, W, 3), torch of the engine's dtype on the device, finished.

        Raises:
            DecodeError: a wanted frame is missing, damaged, or of another size; names video and frame.
        """
        cut = without_leading(cut)
        reason = unsupported_reason(cut.info) or self._size_reason(_kind(cut.info)) or several_reason(cut)
        # An IDR picture may tell a decoder to drop what it still held (no_output_of_prior_pics_flag): drained before, none is.
        for is_drained in (False, True)[: len(cut.segment_starts)] if reason is None else ():
            try:
                return self._decode_on_gpu(cut, is_drained=is_drained)
            except NvdecError as error:
                logger.debug("%s: %s", cut.uri, error)
        return self._decode_on_cpu(cut, reason or FAILED)

    def close(self) -> None:
        """Drop the decoders and give torch's idle memory back to the GPU."""
        import torch

        self._pool.close()
        torch.cuda.empty_cache()

    def counts(self) -> dict[str, Any]:
        """What the engine did so far: pictures, fallbacks by reason, sessions made, given up and alive."""
        return {
            "pictures": self.num_pictures,
            "fallbacks": dict(self.fallbacks),
            "sessions_made": self._pool.num_created,
            "sessions_evicted": self._pool.num_evicted,
            "sessions_alive": self._pool.num_alive,
        }

    @property
    def num_fallbacks(self) -> int:
        """Clips that the cpu engine decoded."""
        return sum(self.fallbacks.values())

    def _decode_on_gpu(self, cut: Cut, *, is_drained: bool) -> Any:
        pieces = elementary_pieces(cut) if cut.info.codec in TAGGED_CODECS else None
        kind = _kind(cut.info)._replace(sequence=_only_sequence(cut, pieces))
        with self._pool.lend(kind) as session:
            pictures, finished = session.decode(cut, pieces, self._tagged(cut.info), is_drained=is_drained)
        finished.synchronize()  # after the decoder went back: its next clip need not wait for this one's conversion
        with self._counting:
            self.num_pictures += len(cut.packets)
        return pictures

    def _decode_on_cpu(self, cut: Cut, reason: str) -> Any:
        import torch

        with self._counting:
            self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1
            if self._fallback is None:
                from vidprep.loaders.engines.cpu import CpuEngine

                self._fallback = CpuEngine(dtype=self.dtype, colour_default=self._colour_default)
        return torch.from_numpy(self._fallback.decode(cut)).to(self._device)

    def _tagged(self, info: StreamInfo) -> StreamInfo:
        return dataclasses.replace(info, colour_matrix=info.colour_matrix or self._colour_default)

    def _new_session(self, kind: StreamKind) -> Session:
        return Session(self._nvc, self._device, self._context, kind, self.dtype)

    def _size_reason(self, kind: StreamKind) -> str | None:
        """Why this GPU's NVDEC cannot take the size, or None."""
        key = (kind.codec, kind.bit_depth)
        with self._counting:  # asked once, not by every thread: it takes a while
            if key not in self._limits:
                self._limits[key] = _limits(self._nvc, self._device.index or 0, *key)
            limits = self._limits[key]
        if limits is None:
            return None
        if kind.coded_width < limits.min_width or kind.coded_height < limits.min_height:
            return f"smaller than NVDEC's {kind.codec} takes"
        if kind.coded_width > limits.max_width or kind.coded_height > limits.max_height:
            return f"larger than NVDEC's {kind.codec} takes"
        return None


class Limits(NamedTuple):
    """Coded sizes that NVDEC takes."""

    min_width: int
    min_height: int
    max_width: int
    max_height: int


def _limits(nvc: Any, gpu: int, codec: str, bit_depth: int) -> Limits | None:
    """What the driver says; None where it does not."""
    try:
        caps = nvc.GetDecoderCaps(
            gpuid=gpu,
            codec=getattr(nvc.cudaVideoCodec, CODECS[codec][0]),
            bitdepth=bit_depth,  # the chroma format is 4:2:0 where none is given
        )
        return Limits(*(int(caps[name]) for name in ("width_min", "height_min", "width_max", "height_max")))
    except Exception as error:  # noqa: BLE001 - PyNvVideoCodec's own class derives from Exception alone
        logger.warning("NVDEC's limits for %s are unknown: %s", codec, one_line(error))
        return None


def _only_sequence(cut: Cut, pieces: Pieces | None) -> Sequence:
    """The one sequence that the packets belong to. Raises NvdecError if there are more, or it cannot be served."""
    info, found = cut.info, sequences_of_cut(cut, pieces)
    if len(found) != 1:
        raise NvdecError(f"the packets hold {len(found)} kinds of sequence header")
    (sequence,) = found
    if (sequence.width, sequence.height) != (info.width, info.height):
        raise NvdecError(f"the packets' size is {sequence.width}x{sequence.height}, not {info.width}x{info.height}")
    if any(sequence.crop):
        raise NvdecError("pictures are cropped at the left or the top, PyNvVideoCodec's surfaces are not")
    return sequence


def _bit_depth(info: StreamInfo) -> int:
    return info.bit_depth or PIXEL_FORMATS.get(info.pix_fmt or "", 8)


def _kind(info: StreamInfo) -> StreamKind:
    return StreamKind(
        codec=info.codec,
        bit_depth=_bit_depth(info),
        width=info.width,
        height=info.height,
        coded_width=info.coded_width or info.width,
        coded_height=info.coded_height or info.height,
    )


def _import_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingDependencyError("torch", "torch") from None
    return torch


def _import_nvc() -> Any:
    try:
        import PyNvVideoCodec
    except ImportError:
        raise MissingDependencyError("PyNvVideoCodec", "nvdec") from None
    return PyNvVideoCodec


def _primary_context(torch: Any, device: Any) -> int:
    """The CUcontext that torch uses on the device; PyNvVideoCodec takes a stream only together with its context."""
    import ctypes

    torch.cuda.init()
    with torch.cuda.device(device):
        torch.cuda.synchronize()
        context = ctypes.c_void_p()
        status = ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context))
    if status != 0 or not context.value:
        raise DecodeError(f"no CUDA context on {device} (cuCtxGetCurrent returned {status})")
    return context.value
