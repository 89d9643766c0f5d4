"""The dali engine: `fn.decoders.video` over cuts wrapped into a tiny MP4. Needs nothing but DALI; no speed is asked.

What DALI 2.4 does that must be worked around: it decodes from the first frame whatever is asked (the cut starts at the
key frame); it decodes each repeat again (only distinct frames are asked); where fewer pictures come than the header
counts it returns unwritten or stale memory (only indices of pictures that the packets show are asked, and pictures
that a decoder may leave out are not in the file); it converts with the BT.601 matrix whatever the stream says, and
interpolates chroma in another way (`dali_planes` goes back to the decoded picture); it cuts off what lies beyond RGB's
range (`full_range` makes room; where that does not do, the cpu engine decodes the clip, counted); some arguments end
the process (they are never passed). On a GPU it keeps decoders between files; once among 500 clips of an H200 one gave a
picture that it did not give again (so each clip is decoded twice there, and must come out the same).
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import DecodeError
from vidprep.loaders.colour import DEFAULT_MATRIX, DEFAULT_RANGE
from vidprep.loaders.elementary import elementary_packets
from vidprep.loaders.engines.dali_planes import planes_of
from vidprep.loaders.engines.full_range import CODECS as CODECS_OF_EITHER_RANGE
from vidprep.loaders.engines.full_range import with_full_range
from vidprep.loaders.engines.leading import without_leading
from vidprep.loaders.engines.rgb import surface_to_rgb
from vidprep.loaders.engines.sequences import sequences
from vidprep.loaders.engines.superframes import several_reason
from vidprep.loaders.mp4_writer import cut_to_mp4
from vidprep.loaders.pipeline import device_ordinal, import_dali

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidprep.loaders.cut import Cut
    from vidprep.records import StreamInfo

    Planes = tuple[Any, Any, Any]

logger = logging.getLogger(__name__)

#: Counted for clips that the cpu engine decoded because RGB does not tell what was decoded.
UNCERTAIN = "RGB does not tell the samples"

#: The same because DALI could not: the cpu engine decodes the clip, or says what is wrong with it.
FAILED = "DALI failed"

#: Codecs that DALI's CPU build decodes (H.264 and HEVC were removed in 2.1.1).
CPU_CODECS = frozenset({"vp8", "vp9", "mjpeg"})
#: Codecs that `device="mixed"` decodes, as far as the GPU's NVDEC does.
GPU_CODECS = frozenset({"h264", "hevc", "vp8", "vp9", "av1", "mpeg4"})

#: Codes of colour matrices (ITU-T H.273, table 4).
H273_MATRICES = {
    "bt709": 1, "fcc": 4, "bt470bg": 5, "bt601": 6, "smpte170m": 6, "smpte240m": 7, "bt2020": 9, "bt2020nc": 9,
}  # fmt: skip


def refusal(info: StreamInfo, device: str) -> str | None:
    """Why this stream cannot be decoded rightly by DALI, or None."""
    codecs = CPU_CODECS if device == "cpu" else GPU_CODECS
    if info.codec not in codecs:
        return f"DALI on {device} decodes {', '.join(sorted(codecs))}, not {info.codec}"
    if (info.bit_depth or 8) != 8:
        return f"DALI cuts {info.bit_depth}-bit pictures to 8 bits"
    if info.chroma not in (None, "4:2:0"):
        return f"DALI's RGB of chroma {info.chroma} cannot be made right"
    if info.interlaced and device != "cpu":
        return "interlaced pictures would be deinterlaced"
    if (info.colour_matrix or DEFAULT_MATRIX) not in H273_MATRICES:
        return f"colour matrix {info.colour_matrix} is not one that DALI's RGB can be corrected to"
    if device != "cpu" and (info.height % 2 or info.width % 2):
        return f"DALI's GPU conversion writes pairs of pixels, the size is odd: {info.width}x{info.height}"
    return None


class DaliEngine:
    """Decodes cuts with DALI; calls from several threads wait for each other.

    Args:
        device: "cpu", or "cuda:0" for `device="mixed"`.
        colour_default: matrix of pictures that are not tagged; None = "bt601".

    Raises:
        MissingDependencyError: DALI is not installed.
    """

    name = "dali"

    def __init__(self, device: str = "cpu", *, colour_default: str | None = None) -> None:
        self._dali = import_dali()
        self._device = device
        self._colour_default = colour_default
        self._lock = threading.Lock()
        self._pipe = self._built()
        self.fallbacks: dict[str, int] = {}
        """clips that the cpu engine decoded, by reason"""

    def decode(self, cut: Cut) -> Any:
        """RGB uint8 (len(cut.frames), H, W, 3): numpy on the CPU, torch on a GPU.

        Raises:
            DecodeError: a wanted frame is damaged or missing, or the stream is one that DALI does not decode rightly.
        """
        info = dataclasses.replace(cut.info, colour_matrix=cut.info.colour_matrix or self._colour_default)
        reason = refusal(info, self._device)
        if reason is not None:
            raise DecodeError(f"{reason}; use the cpu engine", uri=cut.uri)
        if len(cut.frames) == 0:
            return self._nothing(info)
        several = several_reason(cut)
        if several is not None:
            return self._decoded_on_cpu(cut, several)
        converted = without_leading(cut)
        if info.codec in CODECS_OF_EITHER_RANGE:
            converted = with_full_range(converted)
        file, places = cut_to_mp4(converted)
        pictures = self._run(cut, file, places.astype(np.int32))
        if pictures is None or tuple(pictures.shape) != (len(cut.frames), info.height, info.width, 3):
            return self._decoded_on_cpu(cut, FAILED)
        colour_range = "full" if info.codec in CODECS_OF_EITHER_RANGE else _range(info)
        planes = []
        for picture in pictures:
            found = planes_of(picture, colour_range, device=self._device)
            if found is None:
                return self._decoded_on_cpu(cut, UNCERTAIN)
            planes.append(found)
        if self._device == "cpu":
            return _recoloured(planes, info)
        return _recoloured_on_gpu(planes, info, self._device, self._chroma_location(cut))

    @property
    def num_fallbacks(self) -> int:
        """Clips that the cpu engine decoded."""
        return sum(self.fallbacks.values())

    def _decoded_on_cpu(self, cut: Cut, reason: str) -> Any:
        from vidprep.loaders.engines.cpu import CpuEngine

        logger.debug("%s: %s; the cpu engine takes it", cut.uri, reason)
        with self._lock:
            self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1
        pictures = CpuEngine(colour_default=self._colour_default).decode(cut)
        if self._device == "cpu":
            return pictures
        import torch

        return torch.from_numpy(pictures).to(self._device)

    @staticmethod
    def _chroma_location(cut: Cut) -> int | None:
        found = sequences(cut.info.codec, [data for _, data in elementary_packets(cut)])
        return next((sequence.chroma_location for sequence in found), None)

    def close(self) -> None:
        """Free DALI's memory."""
        with self._lock:
            self._pipe = None

    def _run(self, cut: Cut, file: bytes, places: Any) -> Any:
        """RGB (F, H, W, 3), None where DALI fails: at damage, and at sizes and codecs that the GPU does not decode."""
        with self._lock:
            if self._pipe is None:
                raise RuntimeError("the engine is closed")
            try:
                pictures = self._once(file, places)
                if self._device != "cpu" and not np.array_equal(pictures, self._once(file, places)):
                    logger.debug("%s: DALI gave other pictures the second time", cut.uri)
                    return None
            except RuntimeError as error:
                self._pipe = self._built()
                logger.debug("%s: DALI: %s", cut.uri, _cause(error))
                return None
        return pictures

    def _once(self, file: bytes, places: Any) -> Any:
        self._pipe.feed_input("file", [np.frombuffer(file, np.uint8)])
        self._pipe.feed_input("frames", [places])
        (out,) = self._pipe.run()
        return np.array(out.as_cpu().as_tensor())[0]

    def _nothing(self, info: StreamInfo) -> Any:
        pictures = np.zeros((0, info.height, info.width, 3), np.uint8)
        if self._device == "cpu":
            return pictures
        import torch

        return torch.from_numpy(pictures).to(self._device)

    def _built(self) -> Any:
        dali = self._dali
        pipe = dali.Pipeline(
            batch_size=1,
            num_threads=1,
            device_id=device_ordinal(self._device),
            exec_dynamic=True,
            prefetch_queue_depth=1,
        )
        with pipe:
            file = dali.fn.external_source(name="file", device="cpu", dtype=dali.types.UINT8, ndim=1)
            frames = dali.fn.external_source(name="frames", device="cpu", dtype=dali.types.INT32, ndim=1)
            on_cpu = self._device == "cpu"
            pipe.set_outputs(
                dali.fn.decoders.video(file, device="cpu" if on_cpu else "mixed", frames=frames, pad_mode="none")
            )
        pipe.build()
        return pipe


def _cause(error: BaseException) -> str:
    """DALI's own words, in one line: the part after the operator's trace."""
    text = str(error)
    _, _, tail = text.partition("Error in")
    lines = [line.strip() for line in (tail or text).splitlines() if line.strip()]
    told = [line for line in lines if "[" in line and "]" in line] or lines
    return (told[0] if told else type(error).__name__)[:300]


def _recoloured(planes: Sequence[Planes], info: StreamInfo) -> Any:
    """(F, H, W, 3) numpy from what DALI decoded on the CPU, as every engine converts it."""
    from vidprep.loaders.engines.colour import RgbConverter

    convert = RgbConverter()
    return np.stack([convert(_frame(picture, info)) for picture in planes])


def _recoloured_on_gpu(planes: Sequence[Planes], info: StreamInfo, device: str, chroma_location: int | None) -> Any:
    """(F, H, W, 3) torch from what DALI decoded on a GPU, as every engine converts it."""
    import torch

    height, width = info.height, info.width  # both even
    surfaces = np.empty((len(planes), height * 3 // 2, width), np.uint8)
    for surface, picture in zip(surfaces, planes, strict=True):
        surface[:height], surface[height:, 0::2], surface[height:, 1::2] = picture
    return surface_to_rgb(torch.from_numpy(surfaces).to(device), info, chroma_location)


def _range(info: StreamInfo) -> str:
    return info.colour_range or ("full" if (info.pix_fmt or "").startswith("yuvj") else DEFAULT_RANGE)


def _frame(planes: Planes, info: StreamInfo) -> Any:
    """The picture as FFmpeg holds it, tagged."""
    import av

    frame = av.VideoFrame(planes[0].shape[1], planes[0].shape[0], "yuv420p")
    for target, plane in zip(frame.planes, planes, strict=True):
        lines = np.zeros((target.height, target.line_size), np.uint8)
        lines[:, : plane.shape[1]] = plane
        target.update(lines.tobytes())
    frame.colorspace = H273_MATRICES[info.colour_matrix or DEFAULT_MATRIX]
    frame.color_range = 2 if _range(info) == "full" else 1
    return frame
