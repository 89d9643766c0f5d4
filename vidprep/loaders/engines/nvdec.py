"""The nvdec engine: PyNvVideoCodec's low-level decoders, kept between clips, fed straight from the cut.

What makes it exact: decoders run without delay, so that the call which feeds a packet gives that packet's picture, and
none other; one too many or too few, a surface of another size, or an exception, and the decoder is thrown away and the
cpu engine decodes the clip or says what is wrong with it. (Time stamps do not tell pictures apart: NVDEC's parser hands
them out anew in ascending order to pictures in display order, and not at all in decode order; so measured on an H200.)
A decoder serves streams with equal sequence parameters only, `sequences` says why. What makes it fast: decoders persist
(making one costs 54 ms on an H200), one thread feeds one decoder, the GIL is released while it decodes, a wanted
surface is copied once and all of a clip are converted to RGB by one kernel.

Memory, bounded: `num_decoders` decoders, each at most about 22 surfaces of 1.5 bytes a pixel (3 at 10 bits) of the
coded size: 70 MB at 1080p; and for each clip in work 4.5 bytes a pixel of its wanted frames (1.5 surface, 3 RGB).
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vidprep.containers.bitstream import sample_facts
from vidprep.errors import DecodeError, MissingDependencyError
from vidprep.loaders.engines.decoder_pool import DecoderPool
from vidprep.loaders.engines.leading import without_leading
from vidprep.loaders.engines.rgb import surface_rows, surface_to_rgb, warm_up
from vidprep.loaders.engines.sequences import Sequence, sequences
from vidprep.loaders.packet_forms import elementary_packets

if TYPE_CHECKING:
    from vidprep.loaders.cut import Cut, Packet
    from vidprep.records import StreamInfo

logger = logging.getLogger(__name__)

#: Three sessions for each of an H200's seven NVDEC engines keep them busy: without delay, a session waits for each of
#: its pictures (1080p H.264: 3,733 pictures/s with 14 sessions, 3,847 with 21, 3,875 with 28).
DEFAULT_NUM_DECODERS = 21

#: FFmpeg's codec name → (PyNvVideoCodec's name, bit depths that NVDEC decodes at 4:2:0).
CODECS = {
    "h264": ("H264", (8,)),
    "hevc": ("HEVC", (8, 10)),
    "vp8": ("VP8", (8,)),
    "vp9": ("VP9", (8, 10)),
}

#: NVDEC decodes these too, but their standards leave the inverse transform's rounding open (IEEE 1180), and errors add
#: up from picture to picture: up to 5 levels were seen between NVDEC and FFmpeg on an H200.
INEXACT_CODECS = frozenset({"mpeg1video", "mpeg2video", "mpeg4"})

#: Counted for clips that the cpu engine decoded after NVDEC had failed on them.
FAILED = "NVDEC failed"

#: Codecs that reorder pictures: those come without delay in decode order only. The others' come in either order, and in
#: display order without the hidden ones.
REORDERING_CODECS = frozenset({"h264", "hevc"})

#: Pixel formats that a session's surfaces can hold → bits.
PIXEL_FORMATS = {"yuv420p": 8, "yuvj420p": 8, "nv12": 8, "yuv420p10le": 10, "p010le": 10}


class StreamKind(NamedTuple):
    """What one decoder session serves."""

    codec: str
    bit_depth: int
    width: int
    height: int
    coded_width: int
    coded_height: int
    sequence: Sequence = Sequence()


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


class NvdecError(Exception):
    """NVDEC did not give the pictures that it was to give. Never leaves the engine: the cpu engine takes the clip."""


class NvdecEngine:
    """Decodes cuts on a GPU; share one among at least `num_decoders` threads to keep it busy.

    Args:
        device: "cuda:0".
        num_decoders: decoder sessions alive at once; a call that finds all of them busy waits.
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
        colour_default: str | None = None,
    ) -> None:
        torch, self._nvc = _import_torch(), _import_nvc()
        self._device = torch.device(device)
        self.num_decoders = num_decoders
        self._context = _primary_context(torch, self._device)
        self._colour_default = colour_default
        warm_up(self._device)
        self._pool: DecoderPool[StreamKind, _Session] = DecoderPool(self._new_session, num_decoders)
        self._fallback: Any = None
        self._limits: dict[tuple[str, int], Limits | None] = {}
        self._counting = threading.Lock()
        self.fallbacks: dict[str, int] = {}
        """clips that the cpu engine decoded, by reason"""
        self.num_pictures = 0
        """pictures that NVDEC decoded, wanted or not"""

    def decode(self, cut: Cut) -> Any:
        """RGB torch uint8 (len(cut.frames), H, W, 3) on the device, finished.

        Raises:
            DecodeError: a wanted frame is missing, damaged, or of another size; names video and frame.
        """
        cut = without_leading(cut)
        reason = unsupported_reason(cut.info) or self._size_reason(_kind(cut.info))
        if reason is None:
            try:
                return self._decode_on_gpu(cut)
            except NvdecError as error:
                logger.debug("%s: %s; the cpu engine takes it", cut.uri, error)
                reason = FAILED
        return self._decode_on_cpu(cut, reason)

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

    def _decode_on_gpu(self, cut: Cut) -> Any:
        packets = [data for _, data in elementary_packets(cut)]
        kind = _kind(cut.info)._replace(sequence=_only_sequence(cut.info, packets))
        with self._pool.lend(kind) as session:
            pictures, finished = session.decode(cut, packets, self._tagged(cut.info))
        finished.synchronize()  # after the decoder went back: its next clip need not wait for this one's conversion
        with self._counting:
            self.num_pictures += len(packets)
        return pictures

    def _decode_on_cpu(self, cut: Cut, reason: str) -> Any:
        import torch

        with self._counting:
            self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1
            if self._fallback is None:
                from vidprep.loaders.engines.cpu import CpuEngine

                self._fallback = CpuEngine(colour_default=self._colour_default)
        return torch.from_numpy(self._fallback.decode(cut)).to(self._device)

    def _tagged(self, info: StreamInfo) -> StreamInfo:
        return dataclasses.replace(info, colour_matrix=info.colour_matrix or self._colour_default)

    def _new_session(self, kind: StreamKind) -> _Session:
        return _Session(self._nvc, self._device, self._context, kind)

    def _size_reason(self, kind: StreamKind) -> str | None:
        """Why this GPU's NVDEC cannot take the size, or None."""
        key = (kind.codec, kind.bit_depth)
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
        logger.warning("NVDEC's limits for %s are unknown: %s", codec, _one_line(error))
        return None


def _only_sequence(info: StreamInfo, packets: list[bytes]) -> Sequence:
    """The one sequence that the packets belong to. Raises NvdecError if there are more, or it cannot be served."""
    found = sequences(info.codec, packets)
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


class _Session:
    """One decoder, its CUDA stream and its packets; for one thread at a time."""

    def __init__(self, nvc: Any, device: Any, context: int, kind: StreamKind) -> None:
        import torch

        self._stream = torch.cuda.Stream(device)
        self._kind = kind
        latency = nvc.DisplayDecodeLatencyType
        try:
            # On our own stream the decoder's copies and ours are in order: no surface is reused that we still read.
            self._decoder = nvc.CreateDecoder(
                gpuid=device.index or 0,
                codec=getattr(nvc.cudaVideoCodec, CODECS[kind.codec][0]),
                cudacontext=context,
                cudastream=self._stream.cuda_stream,
                usedevicememory=True,
                maxwidth=kind.coded_width,
                maxheight=kind.coded_height,
                latency=latency.ZERO if kind.codec in REORDERING_CODECS else latency.LOW,
            )
        except Exception as error:
            raise NvdecError(_one_line(error)) from error
        self._packet = nvc.PacketData()
        self._packet.decode_flag = nvc.VideoPacketFlag.ENDOFPICTURE
        self._end = nvc.PacketData()
        self._end.bsl = 0
        self._end.decode_flag = nvc.VideoPacketFlag.ENDOFSTREAM

    def decode(self, cut: Cut, packets: list[bytes], info: StreamInfo) -> tuple[Any, Any]:
        """(RGB of the wanted frames, event that says when it is there). Raises NvdecError."""
        import torch

        with torch.cuda.device(self._stream.device), torch.cuda.stream(self._stream):
            wanted = _Wanted(cut, self._kind, self._stream.device)
            for segment in _segments(cut, packets):
                self._feed(cut, segment, wanted)
            pictures = surface_to_rgb(wanted.complete(), info, self._kind.sequence.chroma_location)
            finished = torch.cuda.Event(blocking=True)  # threads that wait must not spin: the cores are needed
            finished.record(self._stream)
            return pictures, finished

    def _feed(self, cut: Cut, segment: list[tuple[Packet, bytes]], wanted: _Wanted) -> None:
        """Decode one run of packets from its key frame to its end."""
        fed = self._packet
        buffer = np.frombuffer(b"".join([data for _, data in segment]), np.uint8)
        address = buffer.ctypes.data
        for packet, data in segment:
            fed.bsl_data, fed.bsl = address, len(data)
            address += len(data)
            pictures = self._decoded(fed) if data else []  # an empty packet would end the stream
            if len(pictures) != (_gives_picture(cut, packet) and len(data) > 0):
                raise NvdecError(f"coded sample {packet.row} gave {len(pictures)} pictures")
            if pictures and packet.row in wanted.rows:
                wanted.take(packet.row, pictures[0])
        if self._decoded(self._end):
            raise NvdecError("a picture came after the last coded sample's")

    def _decoded(self, packet: Any) -> Any:
        try:
            return self._decoder.Decode(packet)
        except Exception as error:
            raise NvdecError(_one_line(error)) from error


def _gives_picture(cut: Cut, packet: Packet) -> bool:
    """Whether a decoder gives a picture for it, wanted or not: not for headers, nor for hidden VP8 and VP9 frames."""
    if packet.shown:
        return True
    facts = sample_facts(cut.info, packet.data)
    return facts.has_picture is not False and facts.shown is not False


class _Wanted:
    """The surfaces that a clip asks for, checked off as they come."""

    def __init__(self, cut: Cut, kind: StreamKind, device: Any) -> None:
        import torch

        self.rows = {row: place for place, row in enumerate(cut.frame_rows.tolist())}
        self._num_copied = 0
        self._shape = (surface_rows(kind.height), kind.width + kind.width % 2)
        dtype = torch.uint8 if kind.bit_depth == 8 else torch.int16
        self._surfaces = torch.empty((len(cut.frames), *self._shape), dtype=dtype, device=device)
        self._stream = torch.cuda.current_stream(device).cuda_stream
        self._address = self._surfaces.data_ptr()
        self._surface_bytes = self._shape[0] * self._shape[1] * dtype.itemsize

    def take(self, row: int, frame: Any) -> None:
        """Copy the picture of a wanted row, on the current stream."""
        place = self.rows[row]
        if not self._copied_whole(frame, place):
            self._copied_by_torch(frame, place)
        self._num_copied += 1

    def complete(self) -> Any:
        """All surfaces. Raises NvdecError where one is missing."""
        if self._num_copied != len(self._surfaces):
            raise NvdecError(f"{self._num_copied} of {len(self._surfaces)} wanted pictures came")
        return self._surfaces

    def _copied_whole(self, frame: Any, place: int) -> bool:
        """Whether one copy by the driver did it: an 8-bit surface without gaps, of the right shape."""
        if tuple(frame.shape) != self._shape or tuple(frame.strides) != (self._shape[1], 1):
            return False
        if self._surfaces.dtype.itemsize != 1 or frame.framesize() != self._surface_bytes:
            return False
        origin = frame.GetPtrToPlane(0)
        if self._num_copied == 0 and not self._is_where_dlpack_says(frame, origin):
            return False
        target = self._address + place * self._surface_bytes
        return _copied(target, origin, self._surface_bytes, self._stream) == 0

    def _is_where_dlpack_says(self, frame: Any, address: int) -> bool:
        """Looked at once a clip: a wrong address would give wrong pixels without an error."""
        import torch

        return bool(torch.from_dlpack(frame).data_ptr() == address)

    def _copied_by_torch(self, frame: Any, place: int) -> None:
        import torch

        surface = torch.from_dlpack(frame)
        if tuple(surface.shape[:2]) != self._shape or surface.dtype.itemsize != self._surfaces.dtype.itemsize:
            raise NvdecError(f"the surface is {tuple(surface.shape)} {surface.dtype}, not {self._shape}")
        self._surfaces[place].copy_(surface.view(self._surfaces.dtype).reshape(self._shape))


@lru_cache(maxsize=1)
def _copy_function() -> Any:
    import ctypes

    function = ctypes.PyDLL("libcuda.so.1").cuMemcpyDtoDAsync_v2
    function.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
    return function


def _copied(target: int, origin: int, size_bytes: int, stream: int) -> int:
    """Copy on the device; 0, or the driver's error (no context in this thread yet).

    By the driver, the GIL held: from_dlpack and copy_ cost 45 microseconds of Python where this costs 13 (measured on
    an H200), and give the GIL up several times on the way.
    """
    return int(_copy_function()(target, origin, size_bytes, stream))


def _segments(cut: Cut, packets: list[bytes]) -> list[list[tuple[Packet, bytes]]]:
    pairs = list(zip(cut.packets, packets, strict=True))
    return [pairs[start:end] for start, end in pairwise((*cut.segment_starts, len(pairs)))]


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


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
