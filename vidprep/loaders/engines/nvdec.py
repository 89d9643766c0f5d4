"""The nvdec engine: PyNvVideoCodec's low-level decoders, kept between clips, fed straight from the cut.

What makes it exact: each packet carries its row as time stamp, so that every surface says which picture it is; wanted
pictures are checked off, one that is missing, unknown or of another size is an error. What makes it fast: decoders
persist (making one costs 54 ms on an H200), one thread feeds one decoder, the GIL is released while it decodes, a
wanted surface is copied once and all of a clip are converted to RGB by one kernel.

Memory, bounded: `num_decoders` decoders, each at most about 22 surfaces of 1.5 bytes a pixel (3 at 10 bits) of the
coded size: 70 MB at 1080p; and for each clip in work 4.5 bytes a pixel of its wanted frames (1.5 surface, 3 RGB).
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vidprep.errors import DecodeError, MissingDependencyError
from vidprep.loaders.engines.decoder_pool import DecoderPool
from vidprep.loaders.engines.leading import without_leading
from vidprep.loaders.engines.rgb import surface_rows, surface_to_rgb, warm_up
from vidprep.loaders.packet_forms import elementary_packets

if TYPE_CHECKING:
    from vidprep.loaders.cut import Cut
    from vidprep.records import StreamInfo

#: Two sessions for each of an H200's seven NVDEC engines keep them busy (5,035 pictures/s against 4,974 with one).
DEFAULT_NUM_DECODERS = 14

#: FFmpeg's codec name → (PyNvVideoCodec's name, bit depths that NVDEC decodes at 4:2:0).
CODECS = {
    "h264": ("H264", (8,)),
    "hevc": ("HEVC", (8, 10)),
    "vp8": ("VP8", (8,)),
    "vp9": ("VP9", (8, 10)),
    "mpeg1video": ("MPEG1", (8,)),
    "mpeg2video": ("MPEG2", (8,)),
    "mpeg4": ("MPEG4", (8,)),
}

#: Pixel formats that a session's surfaces can hold → bits.
PIXEL_FORMATS = {"yuv420p": 8, "yuvj420p": 8, "nv12": 8, "yuv420p10le": 10, "p010le": 10}


class StreamKind(NamedTuple):
    """What one decoder session serves. A session that meets another size returns wrong pixels without an error."""

    codec: str
    bit_depth: int
    width: int
    height: int
    coded_width: int
    coded_height: int


def unsupported_reason(info: StreamInfo) -> str | None:
    """Why this stream goes to the cpu engine, or None."""
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
        reason = unsupported_reason(cut.info)
        if reason is not None:
            return self._decode_on_cpu(cut, reason)
        return self._decode_on_gpu(cut)

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
        cut = without_leading(cut)
        packets = elementary_packets(cut)
        with self._pool.lend(_kind(cut.info)) as session:
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
        # On our own stream the decoder's copies and ours are in order: it cannot reuse a surface that we still read.
        self._decoder = nvc.CreateDecoder(
            gpuid=device.index or 0,
            codec=getattr(nvc.cudaVideoCodec, CODECS[kind.codec][0]),
            cudacontext=context,
            cudastream=self._stream.cuda_stream,
            usedevicememory=True,
            maxwidth=kind.coded_width,
            maxheight=kind.coded_height,
        )
        self._packet = nvc.PacketData()
        self._end = nvc.PacketData()
        self._end.bsl = 0
        self._end.decode_flag = nvc.VideoPacketFlag.ENDOFSTREAM
        self._kind = kind

    def decode(self, cut: Cut, packets: list[tuple[int, bytes]], info: StreamInfo) -> tuple[Any, Any]:
        """(RGB of the wanted frames, event that says when it is there)."""
        import torch

        with torch.cuda.device(self._stream.device), torch.cuda.stream(self._stream):
            wanted = _Wanted(cut, self._kind, self._stream.device)
            try:
                for segment in _segments(cut, packets):
                    self._feed(segment, wanted)
            except RuntimeError as error:
                if isinstance(error, DecodeError):
                    raise
                raise DecodeError(
                    f"NVDEC: {_one_line(error)}", uri=cut.uri, frame_index=wanted.first_missing
                ) from error
            pictures = surface_to_rgb(wanted.complete(), info)
            finished = torch.cuda.Event(blocking=True)  # threads that wait must not spin: the cores are needed
            finished.record(self._stream)
            return pictures, finished

    def _feed(self, segment: list[tuple[int, bytes]], wanted: _Wanted) -> None:
        """Decode one run of packets from its key frame to its end."""
        packet, decode = self._packet, self._decoder.Decode
        buffer = np.frombuffer(b"".join([data for _, data in segment]), np.uint8)
        address = buffer.ctypes.data
        for row, data in segment:
            packet.bsl_data = address
            packet.bsl = len(data)
            packet.pts = row
            address += len(data)
            if data:  # an empty packet would end the stream
                for frame in decode(packet):
                    wanted.take(frame)
        for frame in decode(self._end):
            wanted.take(frame)


class _Wanted:
    """The surfaces that a clip asks for, checked off as they come."""

    def __init__(self, cut: Cut, kind: StreamKind, device: Any) -> None:
        import torch

        self._cut = cut
        self._places = {row: place for place, row in enumerate(cut.frame_rows.tolist())}
        self._next = 0
        self._fed = {packet.row for packet in cut.packets}
        self._shape = (surface_rows(kind.height), kind.width + kind.width % 2)
        dtype = torch.uint8 if kind.bit_depth == 8 else torch.int16
        self._surfaces = torch.empty((len(cut.frames), *self._shape), dtype=dtype, device=device)

    def take(self, frame: Any) -> None:
        """Copy a wanted picture; pass over one that is not wanted."""
        import torch

        row = frame.getPTS()
        place = self._places.get(row)
        if place is None:
            if row not in self._fed:
                raise DecodeError(f"NVDEC gave a picture of row {row}, which it was not fed", uri=self._cut.uri)
            return
        if place != self._next:
            raise self._error(f"the decoder gave frame {int(self._cut.frames[place])} where this one was due")
        surface = torch.from_dlpack(frame)
        if tuple(surface.shape[:2]) != self._shape:
            raise self._error(
                f"the surface is {tuple(surface.shape)}, not {self._shape}: the picture's size changes in mid-stream"
            )
        if surface.dtype == torch.uint16:
            surface = surface.view(torch.int16)
        self._surfaces[place].copy_(surface.reshape(self._shape))
        self._next += 1

    @property
    def first_missing(self) -> int | None:
        """Frame index of the first wanted picture that has not come."""
        return int(self._cut.frames[self._next]) if self._next < len(self._cut.frames) else None

    def complete(self) -> Any:
        """All surfaces. Raises DecodeError where one is missing."""
        if self._next < len(self._cut.frames):
            raise self._error("the decoder gave no picture for it")
        return self._surfaces

    def _error(self, message: str) -> DecodeError:
        return DecodeError(message, uri=self._cut.uri, frame_index=self.first_missing)


def _segments(cut: Cut, packets: list[tuple[int, bytes]]) -> list[list[tuple[int, bytes]]]:
    ends = (*cut.segment_starts[1:], len(packets))
    return [packets[start:end] for start, end in zip(cut.segment_starts, ends, strict=True)]


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
