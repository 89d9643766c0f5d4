"""One NVDEC decoder and what it is fed: see `nvdec` for what makes it exact, fast and bounded."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vidprep.loaders.engines.device_copy import copied
from vidprep.loaders.engines.drains import drained_starts
from vidprep.loaders.engines.rgb import surface_rows, surface_to_rgb
from vidprep.loaders.engines.sequences import Sequence
from vidprep.loaders.engines.tags import SEI_HEADER, number_of, tagged
from vidprep.loaders.pictures_come import pictures_come

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as AnySequence

    from vidprep.loaders.cut import Cut
    from vidprep.loaders.elementary import Pieces
    from vidprep.loaders.packets import Payloads
    from vidprep.records import StreamInfo

#: FFmpeg's codec name → (PyNvVideoCodec's name, bit depths that NVDEC decodes at 4:2:0).
CODECS = {
    "h264": ("H264", (8,)),
    "hevc": ("HEVC", (8, 10)),
    "vp8": ("VP8", (8,)),
    "vp9": ("VP9", (8, 10)),
}

#: Codecs that reorder pictures, and whose streams can carry a number with each. Those of the others come in order.
TAGGED_CODECS = frozenset(SEI_HEADER)

#: A call costs the GIL twice, whatever it decodes; the pictures of one call are kept in the decoder until the next.
SAMPLES_AT_ONCE = 16
SURFACE_BYTES_AT_ONCE = 64 << 20

#: In place of the row of a packet that gives no picture.
NO_PICTURE = -1


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


class NvdecError(Exception):
    """NVDEC did not give the pictures that it was to give. Never leaves the engine: the cpu engine takes the clip."""


def one_line(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


class Session:
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
            raise NvdecError(one_line(error)) from error
        self._packet = nvc.PacketData()
        self._end = nvc.PacketData()
        self._end.bsl = 0
        self._end.decode_flag = nvc.VideoPacketFlag.ENDOFSTREAM

    def decode(self, cut: Cut, pieces: Pieces | None, info: StreamInfo, *, is_drained: bool) -> tuple[Any, Any]:
        """(RGB of the wanted frames, event that says when it is there). Raises NvdecError.

        Args:
            cut: what is to be decoded.
            pieces: its packets, where they are to be tagged.
            info: what the pictures' colours depend on.
            is_drained: whether the decoder is drained before each segment, also where that should not be needed.
        """
        import torch

        with torch.cuda.device(self._stream.device), torch.cuda.stream(self._stream):
            wanted = _Wanted(cut, self._kind, self._stream.device, self._gives_plain_surfaces)
            rows = _due(cut)
            if pieces is None:
                for edges in pairwise((*cut.segment_starts, len(rows))):
                    self._feed_singly(cut.packets.payloads, rows, *edges, wanted)
            else:
                starts = cut.segment_starts
                starts = starts if is_drained else drained_starts(self._kind.codec, pieces, starts)
                for edges in pairwise((*starts, len(rows))):
                    self._feed_tagged(pieces, rows, *edges, wanted)
            pictures = surface_to_rgb(wanted.complete(), info, self._kind.sequence.chroma_location, self._dtype)
            finished = torch.cuda.Event(blocking=True)  # threads that wait must not spin: the cores are needed
            finished.record(self._stream)
            return pictures, finished

    def _gives_plain_surfaces(self, picture: Any) -> bool:
        """Whether a picture, like all of this session, is 8-bit, of the right shape, without gaps, and where it says.

        Looked at once a session: it serves one size, and a wrong address would give wrong pixels without an error.
        """
        if self._is_plain is None:
            import torch

            shape = self._kind.surface_shape
            self._is_plain = (
                self._kind.bit_depth == 8
                and tuple(picture.shape) == shape
                and tuple(picture.strides) == (shape[1], 1)
                and torch.from_dlpack(picture).data_ptr() == picture.GetPtrToPlane(0)
            )
        return self._is_plain

    def _feed_tagged(self, pieces: Pieces, rows: list[int], start: int, stop: int, wanted: _Wanted) -> None:
        """Decode the packets [start, stop), the first a key frame, many a call; pictures say which is which."""
        due: dict[int | None, int] = {}
        for first in range(start, stop, self._samples_at_once):
            last = min(first + self._samples_at_once, stop)
            numbers = [number for number in range(first, last) if rows[number] >= 0]
            due.update((number, rows[number]) for number in numbers)
            stream = tagged(self._kind.codec, pieces, first, last, numbers)
            wanted.take_numbered(self._decoded(stream), due)
        wanted.take_numbered(self._flushed(), due)
        if due:
            raise NvdecError(f"no picture came for coded sample {next(iter(due.values()))}")

    def _feed_singly(self, payloads: Payloads, rows: list[int], start: int, stop: int, wanted: _Wanted) -> None:
        """The same for codecs whose pictures come in the order of their packets, hidden ones left out.

        One call a packet, between which all other threads run: nothing is done here that can be done before.
        """
        due = [row for row in rows[start:stop] if row >= 0]
        block, packets = np.frombuffer(payloads.block, np.uint8), payloads[start:stop]
        calls = zip((packets.begin + block.ctypes.data).tolist(), packets.size.tolist(), strict=True)
        packet, decode, take, num_came = self._packet, self._decoder.Decode, wanted.take_next, 0
        try:
            for address, size in calls:
                if size:  # no bytes would end the stream
                    packet.bsl_data = address
                    packet.bsl = size
                    pictures = decode(packet)
                    if pictures:
                        num_came = take(pictures, due, num_came)
        except NvdecError:
            raise
        except Exception as error:
            raise NvdecError(one_line(error)) from error
        num_came = take(self._flushed(), due, num_came)
        if num_came < len(due):
            raise NvdecError(f"no picture came for coded sample {due[num_came]}")

    def _decoded(self, stream: bytes) -> Any:
        if not stream:  # no bytes would end the stream
            return ()
        self._packet.bsl_data, self._packet.bsl = np.frombuffer(stream, np.uint8).ctypes.data, len(stream)
        return self._called(self._packet)

    def _flushed(self) -> Any:
        return self._called(self._end)

    def _called(self, packet: Any) -> Any:
        try:
            return self._decoder.Decode(packet)
        except Exception as error:
            raise NvdecError(one_line(error)) from error


def _samples_at_once(kind: StreamKind) -> int:
    """Coded samples that one call decodes (not of VP8 and VP9: where a frame ends is not in their streams)."""
    surface_bytes = surface_rows(kind.coded_height) * kind.coded_width * (1 if kind.bit_depth == 8 else 2)
    return max(1, min(SAMPLES_AT_ONCE, SURFACE_BYTES_AT_ONCE // surface_bytes))


def _due(cut: Cut) -> list[int]:
    """The row of each packet for which a decoder gives a picture, wanted or not, NO_PICTURE of the others."""
    rows: list[int] = np.where(pictures_come(cut), cut.packets.rows, NO_PICTURE).tolist()
    return rows


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
        if taken:
            self._copy(taken)

    def take_next(self, pictures: AnySequence[Any], due: AnySequence[int], num_came: int) -> int:
        """The same by order, behind those that came before; how many have come now."""
        stop = num_came + len(pictures)
        if stop > len(due):
            raise NvdecError("more pictures came than were due")
        taken = [(row, picture) for row, picture in zip(due[num_came:stop], pictures, strict=True) if row in self.rows]
        if taken:
            self._copy(taken)
        return stop

    def _copy(self, pictures: AnySequence[tuple[int, Any]]) -> None:
        """Copy (row, picture), all of one call of the decoder, on the current stream."""
        if not self._copied_at_once(pictures):
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
