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
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vidprep.containers.bitstream import sample_facts
from vidprep.errors import DecodeError, MissingDependencyError
from vidprep.loaders.engines.decoder_pool import DecoderPool
from vidprep.loaders.engines.device_copy import copied
from vidprep.loaders.engines.leading import without_leading
from vidprep.loaders.engines.rgb import surface_rows, surface_to_rgb, warm_up
from vidprep.loaders.engines.sequences import Sequence, sequences_of_runs
from vidprep.loaders.engines.tags import SEI_HEADER, number_of, place_of_tag, tag
from vidprep.loaders.packet_forms import elementary_runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as AnySequence

    from vidprep.loaders.cut import Cut, Packet
    from vidprep.loaders.packet_forms import Run
    from vidprep.records import StreamInfo

logger = logging.getLogger(__name__)

#: Three sessions for each of an H200's seven NVDEC engines keep them busy, while others are between two clips.
DEFAULT_NUM_DECODERS = 28

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

#: Codecs that reorder pictures, and whose streams can carry a number with each. Those of the others come in order.
TAGGED_CODECS = frozenset(SEI_HEADER)

#: A call costs the GIL twice, whatever it decodes; the pictures of one call are kept in the decoder until the next.
SAMPLES_AT_ONCE = 16
SURFACE_BYTES_AT_ONCE = 64 << 20

#: In place of the row of a packet that gives no picture.
NO_PICTURE = -1

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

    @property
    def surface_shape(self) -> tuple[int, int]:
        """Rows and columns of its surfaces."""
        return surface_rows(self.height), self.width + self.width % 2


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
        self._pool: DecoderPool[StreamKind, _Session] = DecoderPool(self._new_session, num_decoders)
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
        runs = elementary_runs(cut)
        kind = _kind(cut.info)._replace(sequence=_only_sequence(cut.info, runs))
        with self._pool.lend(kind) as session:
            pictures, finished = session.decode(cut, runs, self._tagged(cut.info))
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

    def _new_session(self, kind: StreamKind) -> _Session:
        return _Session(self._nvc, self._device, self._context, kind, self.dtype)

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
        logger.warning("NVDEC's limits for %s are unknown: %s", codec, _one_line(error))
        return None


def _only_sequence(info: StreamInfo, runs: list[Run]) -> Sequence:
    """The one sequence that the packets belong to. Raises NvdecError if there are more, or it cannot be served."""
    found = sequences_of_runs(info.codec, runs)
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

    def __init__(self, nvc: Any, device: Any, context: int, kind: StreamKind, dtype: str) -> None:
        import torch

        self._dtype = dtype

        self._stream = torch.cuda.Stream(device)
        self._kind = kind
        self._samples_at_once = _samples_at_once(kind)
        self._is_plain: bool | None = None
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
                enableSEIMessage=kind.codec in TAGGED_CODECS,
            )
        except Exception as error:
            raise NvdecError(_one_line(error)) from error
        self._packet = nvc.PacketData()
        self._end = nvc.PacketData()
        self._end.bsl = 0
        self._end.decode_flag = nvc.VideoPacketFlag.ENDOFSTREAM

    def decode(self, cut: Cut, runs: list[Run], info: StreamInfo) -> tuple[Any, Any]:
        """(RGB of the wanted frames, event that says when it is there). Raises NvdecError."""
        import torch

        with torch.cuda.device(self._stream.device), torch.cuda.stream(self._stream):
            feed = self._feed_tagged if self._kind.codec in TAGGED_CODECS else self._feed_singly
            wanted = _Wanted(cut, self._kind, self._stream.device, self._gives_plain_surfaces)
            for run, packets in zip(runs, cut.segments, strict=True):
                feed(run, _due(cut, packets), wanted)
            pictures = surface_to_rgb(wanted.complete(), info, self._kind.sequence.chroma_location, self._dtype)
            finished = torch.cuda.Event(blocking=True)  # threads that wait must not spin: the cores are needed
            finished.record(self._stream)
            return pictures, finished

    def _gives_plain_surfaces(self, picture: Any) -> bool:
        """Whether a picture, like all of this session, is 8-bit, of the right shape, without gaps, and where it says.

        Looked at once a session: it serves one size, and a wrong address would give wrong pixels without an error.
        """
        import torch

        if self._is_plain is None:
            shape = self._kind.surface_shape
            self._is_plain = (
                self._kind.bit_depth == 8
                and tuple(picture.shape) == shape
                and tuple(picture.strides) == (shape[1], 1)
                and torch.from_dlpack(picture).data_ptr() == picture.GetPtrToPlane(0)
            )
        return self._is_plain

    def _feed_tagged(self, run: Run, rows: list[int], wanted: _Wanted) -> None:
        """Decode one run of packets from its key frame to its end, many a call; pictures say which is which."""
        codec, whole, edges = self._kind.codec, memoryview(run.buffer), run.offsets.tolist()
        due: dict[int | None, int] = {}
        for first in range(0, len(rows), self._samples_at_once):
            last = min(first + self._samples_at_once, len(rows))
            pieces: list[bytes | memoryview] = []
            at = edges[first]
            for number in range(first, last):
                start, end = edges[number : number + 2]
                if start < end and rows[number] >= 0:
                    due[number] = rows[number]
                    place = place_of_tag(codec, run.buffer, start, end)
                    pieces += whole[at:place], tag(codec, number)
                    at = place
            pieces.append(whole[at : edges[last]])
            buffer = np.frombuffer(b"".join(pieces), np.uint8)
            wanted.take_numbered(self._decoded(buffer.ctypes.data, len(buffer)), due)
        wanted.take_numbered(self._flushed(), due)
        if due:
            raise NvdecError(f"no picture came for coded sample {next(iter(due.values()))}")

    def _feed_singly(self, run: Run, rows: list[int], wanted: _Wanted) -> None:
        """The same for codecs whose pictures come in the order of their packets, hidden ones left out."""
        edges = run.offsets.tolist()
        due = [row for row, start, end in zip(rows, edges[:-1], edges[1:], strict=True) if row >= 0 and start < end]
        address, num_came = np.frombuffer(run.buffer, np.uint8).ctypes.data, 0
        for start, end in pairwise(edges):
            if pictures := self._decoded(address + start, end - start):
                num_came += wanted.take_next(pictures, due[num_came:])
        num_came += wanted.take_next(self._flushed(), due[num_came:])
        if num_came < len(due):
            raise NvdecError(f"no picture came for coded sample {due[num_came]}")

    def _decoded(self, address: int, size: int) -> Any:
        if not size:  # no bytes would end the stream
            return ()
        self._packet.bsl_data, self._packet.bsl = address, size
        return self._called(self._packet)

    def _flushed(self) -> Any:
        return self._called(self._end)

    def _called(self, packet: Any) -> Any:
        try:
            return self._decoder.Decode(packet)
        except Exception as error:
            raise NvdecError(_one_line(error)) from error


def _samples_at_once(kind: StreamKind) -> int:
    """Coded samples that one call decodes (not of VP8 and VP9: where a frame ends is not in their streams)."""
    surface_bytes = surface_rows(kind.coded_height) * kind.coded_width * (1 if kind.bit_depth == 8 else 2)
    return max(1, min(SAMPLES_AT_ONCE, SURFACE_BYTES_AT_ONCE // surface_bytes))


def _due(cut: Cut, packets: AnySequence[Packet]) -> list[int]:
    """The row of each packet for which a decoder gives a picture, wanted or not, NO_PICTURE of the others."""
    return [packet.row if packet.shown or _gives_picture(cut, packet) else NO_PICTURE for packet in packets]


def _gives_picture(cut: Cut, packet: Packet) -> bool:
    """Not for headers, nor for hidden VP8 and VP9 frames."""
    facts = sample_facts(cut.info, packet.data)
    return facts.has_picture is not False and facts.shown is not False


class _Wanted:
    """The surfaces that a clip asks for, checked off as they come."""

    def __init__(self, cut: Cut, kind: StreamKind, device: Any, is_plain: Callable[[Any], bool]) -> None:
        import torch

        self.rows = {row: place for place, row in enumerate(cut.frame_rows.tolist())}
        self._num_copied = 0
        self._is_plain = is_plain
        self._shape = kind.surface_shape
        dtype = torch.uint8 if kind.bit_depth == 8 else torch.int16
        self._surfaces = torch.empty((len(cut.frames), *self._shape), dtype=dtype, device=device)
        self._stream = torch.cuda.current_stream(device).cuda_stream
        self._address = self._surfaces.data_ptr()
        self._surface_bytes = self._shape[0] * self._shape[1] * dtype.itemsize

    def take_numbered(self, pictures: Any, due: dict[int | None, int]) -> None:
        """Check pictures off by the numbers they carry, and copy the wanted ones, before the next call reuses them."""
        taken = []
        for picture in pictures:
            row = due.pop(number_of(picture.getSEIMessage()), None)
            if row is None:
                raise NvdecError("a picture came that is none, or not one, of the coded samples'")
            if row in self.rows:
                taken.append((row, picture))
        self._copy(taken)

    def take_next(self, pictures: Any, due: AnySequence[int]) -> int:
        """The same by order; how many came."""
        if len(pictures) > len(due):
            raise NvdecError("more pictures came than were due")
        self._copy([(row, picture) for row, picture in zip(due, pictures, strict=False) if row in self.rows])
        return len(pictures)

    def _copy(self, pictures: AnySequence[tuple[int, Any]]) -> None:
        """Copy (row, picture), all of one call of the decoder, on the current stream."""
        if pictures and not self._copied_at_once(pictures):
            for row, picture in pictures:
                self._copy_by_torch(picture, self.rows[row])
        self._num_copied += len(pictures)

    def complete(self) -> Any:
        """All surfaces. Raises NvdecError where one is missing."""
        if self._num_copied != len(self._surfaces):
            raise NvdecError(f"{self._num_copied} of {len(self._surfaces)} wanted pictures came")
        return self._surfaces

    def _copied_at_once(self, pictures: AnySequence[tuple[int, Any]]) -> bool:
        """Whether the driver did it in one call."""
        if not self._is_plain(pictures[0][1]) or any(
            picture.framesize() != self._surface_bytes for _, picture in pictures
        ):
            return False
        targets = [self._address + self.rows[row] * self._surface_bytes for row, _ in pictures]
        origins = [picture.GetPtrToPlane(0) for _, picture in pictures]
        return copied(targets, origins, self._surface_bytes, self._stream)

    def _copy_by_torch(self, picture: Any, place: int) -> None:
        import torch

        surface = torch.from_dlpack(picture)
        if tuple(surface.shape[:2]) != self._shape or surface.dtype.itemsize != self._surfaces.dtype.itemsize:
            raise NvdecError(f"the surface is {tuple(surface.shape)} {surface.dtype}, not {self._shape}")
        self._surfaces[place].copy_(surface.view(self._surfaces.dtype).reshape(self._shape))


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
