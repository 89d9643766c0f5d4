"""The cpu engine: PyAV over a cut. Any codec that FFmpeg has; only wanted pictures are converted to RGB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av
import numpy as np

from vidprep.containers.bitstream import sample_facts
from vidprep.errors import DecodeError
from vidprep.loaders.engines.colour import RgbConverter
from vidprep.loaders.engines.decoders import open_decoder, restart
from vidprep.loaders.engines.leading import without_leading
from vidprep.loaders.engines.messages import without_messages
from vidprep.loaders.engines.resize import resized
from vidprep.loaders.engines.result_memory import MAX_FREE_BYTES, ResultMemory
from vidprep.loaders.packet_forms import av_packet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from vidprep.loaders.cut import Cut
    from vidprep.loaders.packets import Packet, Packets

    Pictures = npt.NDArray[Any]


#: Codecs whose later pictures go by what the first ones say of time, as leading ones without those before them cannot:
#: the period of a frame in interlaced MPEG-4 (ISO/IEC 14496-2, 7.7.2.2).
TOLD_BY_FIRST_PICTURES = frozenset({"mpeg4"})

#: Pictures that a decoder may hold back: 16 in H.264 and HEVC, more with threads and in libdav1d.
MAX_DELAYED_PICTURES = 256


class CpuEngine:
    """Decodes cuts with FFmpeg's software decoders.

    Each call makes its own decoder, so that calls from several threads run at the same time and nothing of one clip
    can reach the next. Up to MAX_FREE_BYTES of memory of results that are no longer used are kept for the next ones.

    Args:
        size: (height, width) of what comes out, resized by `resized`; None = as coded, and a video
            whose size changes is an error.
        dtype: "uint8", or "uint16" for videos of more than 8 bits: white is 65535, as in swscale's rgb48.
        colour_default: matrix of pictures that are not tagged: "bt601" (also None, as swscale does), "bt709", "bt2020".
        num_threads: decoder threads of one call.
    """

    name = "cpu"

    def __init__(
        self,
        *,
        size: tuple[int, int] | None = None,
        dtype: str = "uint8",
        colour_default: str | None = None,
        num_threads: int = 1,
    ) -> None:
        self.size = size
        self.dtype = dtype
        self.colour_default = colour_default
        self.num_threads = num_threads
        self._memory = ResultMemory(MAX_FREE_BYTES)

    def decode(self, cut: Cut) -> Pictures:
        """RGB (len(cut.frames), H, W, 3) of the engine's dtype.

        Raises:
            DecodeError: a wanted frame is missing, damaged, or of another size; names video and frame.
        """
        height, width = self.size or (cut.info.height, cut.info.width)
        out = self._memory.empty((len(cut.frames), height, width, 3), self.dtype)
        for place, picture in self._decoded(cut, out):
            if not np.may_share_memory(picture, out):
                out[place] = picture
        return out

    def iter_decode(self, cut: Cut) -> Iterator[tuple[int, Pictures]]:
        """Each wanted frame as (place in cut.frames, RGB (H, W, 3)), ascending, one at a time in memory.

        Raises:
            DecodeError: as decode.
        """
        return self._decoded(cut, None)

    def _decoded(self, cut: Cut, out: Pictures | None) -> Iterator[tuple[int, Pictures]]:
        """The same; pictures that are not to be resized are put into their places of `out` straight away."""
        due = 0
        try:
            for place, picture in self._decoded_as_is(cut, out):
                yield place, picture
                due = place + 1
        except DecodeError:
            plain = without_messages(cut)
            if plain is None:
                raise
            yield from (found for found in self._decoded_as_is(plain, out) if found[0] >= due)

    def _decoded_as_is(self, cut: Cut, out: Pictures | None) -> Iterator[tuple[int, Pictures]]:
        cut = without_leading(cut) if cut.info.codec in TOLD_BY_FIRST_PICTURES else cut
        convert = RgbConverter(dtype=self.dtype, colour_default=self.colour_default)
        damage = _Damage(cut)
        due = 0
        with open_decoder(
            cut.info,
            cut.uri,
            strict=not _starts_amid_references(cut),
            reorder_depth=reorder_depth(cut),
            num_threads=self.num_threads,
        ) as decoder:
            for segment in cut.segments:
                for place, frame in _wanted_pictures(decoder, segment, damage):
                    if place < due:  # FFmpeg may show a picture twice (MPEG-4 that turns out to be reordered)
                        continue
                    if place > due:
                        raise damage.missing(due, place)
                    self._check_size(cut, place, frame)
                    target = None if out is None or self.size else out[place]
                    picture = _converted(convert, frame, cut, place, target)
                    yield place, resized(picture, self.size) if self.size else picture
                    due += 1
        if due < len(cut.frames):
            raise damage.missing(due, None)

    def close(self) -> None:
        """Nothing is held between calls."""

    def _check_size(self, cut: Cut, place: int, frame: Any) -> None:
        if self.size is None and (frame.width, frame.height) != (cut.info.width, cut.info.height):
            raise DecodeError(
                f"the picture is {frame.width}x{frame.height}, the video {cut.info.width}x{cut.info.height}: "
                f"its size changes in mid-stream; ask for a size to have all pictures resized",
                uri=cut.uri,
                frame_index=int(cut.frames[place]),
            )


def reorder_depth(cut: Cut) -> int:
    """Most pictures that precede another in decode order and follow it in presentation order."""
    depth = 0
    for segment in cut.segments:
        rank = np.argsort(np.argsort(segment.pts, kind="stable"), kind="stable")
        depth = max(depth, int((np.arange(len(rank)) - rank).max(initial=0)))
    return depth


def _starts_amid_references(cut: Cut) -> bool:
    """Whether pictures from before a segment's start are still spoken of behind it.

    Leading pictures refer to them. In H.264 a recovery point, which is no IDR picture, and those behind it may also tell
    the decoder to forget them (memory_management_control_operation 1, ITU-T H.264, 8.2.5.4.1), as x264's open GOPs do.
    """
    if cut.leading_rows or cut.info.codec != "h264":
        return bool(cut.leading_rows)
    starts = (segment[0] for segment in cut.segments if len(segment))
    return any(sample_facts(cut.info, packet.data).recovery_frames is not None for packet in starts)


def _converted(convert: RgbConverter, frame: Any, cut: Cut, place: int, out: Pictures | None) -> Pictures:
    try:
        return convert(frame, out)
    except DecodeError as error:
        raise DecodeError(error.message, uri=cut.uri, frame_index=int(cut.frames[place])) from None


def _wanted_pictures(decoder: Any, segment: Packets, damage: _Damage) -> Iterator[tuple[int, Any]]:
    """(place in cut.frames, frame) of each wanted picture of a segment, in output order."""
    damage.restart()
    for packet in segment:
        for frame in _shown(decoder, _fed(decoder, packet, damage)):
            yield from damage.checked(frame)
    for frame in _drained(decoder):
        yield from damage.checked(frame)
    restart(decoder)


class _Damage:
    """What went wrong in a segment so far, and which wanted pictures that concerns.

    A coded sample that the decoder refuses, or whose picture it marks as concealed, spoils whatever may refer to it:
    wanted pictures of later rows are then an error.
    """

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._wanted = {row: place for place, row in enumerate(cut.frame_rows.tolist())}
        self._first: tuple[int, str] | None = None

    def restart(self) -> None:
        """A new segment begins; what went wrong before does not concern it."""
        self._first = None

    def note(self, packet: Packet, message: str) -> None:
        """A coded sample went wrong; harmless where nothing that is wanted can refer to its picture."""
        if packet.row in self._wanted or not _harmless(self._cut, packet):
            self._first = self._first or (packet.row, message)

    def checked(self, frame: Any) -> Iterator[tuple[int, Any]]:
        """The frame with its place, if it is wanted. Raises DecodeError if it is damaged too."""
        if frame.pts is None:
            return
        row = int(frame.pts)
        if frame.is_corrupt and row not in self._cut.leading_rows:
            self._first = self._first or (row, "the decoder marks its picture as corrupt")
        if row not in self._wanted:
            return
        if self._first is not None and self._first[0] <= row:
            raise self._error(self._wanted[row], self._cause)
        yield self._wanted[row], frame

    def missing(self, place: int, seen: int | None) -> DecodeError:
        """The error for a wanted frame that did not come out where it was due."""
        place = min(place, len(self._cut.frames) - 1)  # a picture that comes once more after the last
        if self._first is not None:
            return self._error(place, self._cause)
        if seen is None:
            return self._error(place, "the decoder gave no picture for it")
        return self._error(
            place,
            f"frame {int(self._cut.frames[seen])} came out of the decoder where this one was due: the order of the pictures "
            f"contradicts their times",
        )

    @property
    def _cause(self) -> str:
        row, message = self._first or (0, "")
        return f"coded sample {row}, on which it may depend: {message}"

    def _error(self, place: int, message: str) -> DecodeError:
        return DecodeError(message, uri=self._cut.uri, frame_index=int(self._cut.frames[place]))


def _harmless(cut: Cut, packet: Packet) -> bool:
    if packet.row in cut.leading_rows:
        return True
    facts = sample_facts(cut.info, packet.data)
    # A sample that stands for a frame and seems to hold no picture has lost it.
    return facts.disposable is True or (facts.has_picture is False and not packet.shown)


def _fed(decoder: Any, packet: Packet, damage: _Damage) -> list[Any]:
    try:
        return list(decoder.decode(av_packet(packet)))
    except av.FFmpegError as error:
        damage.note(packet, error.strerror or str(error))
        return []


def _shown(decoder: Any, frames: list[Any]) -> list[Any]:
    """The last of several pictures of one VP9 superframe, which is what libvpx shows: the spatial layers of a call."""
    is_last_shown = decoder.name == "vp9" and len({frame.pts for frame in frames}) == 1
    return frames[-1:] if is_last_shown else frames


def _drained(decoder: Any) -> Iterator[Any]:
    """The pictures that the decoder still holds. What it cannot give is missed by whoever counts."""
    for _ in range(MAX_DELAYED_PICTURES):
        try:
            frames = decoder.decode(None)
        except av.EOFError:
            return
        except av.FFmpegError:
            continue
        if not frames:
            return
        yield from frames
