"""What a Matroska header says of its tracks: codec, geometry, colours (RFC 9559 section 5.1.4)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from vidprep.containers.matroska import ids
from vidprep.containers.matroska.ebml import children, flatten, real, text, uint

if TYPE_CHECKING:
    from collections.abc import Mapping

#: CodecID → FFmpeg's name, where packets and CodecPrivate are FFmpeg's too.
CODECS = {
    "V_MPEG4/ISO/AVC": "h264",
    "V_MPEGH/ISO/HEVC": "hevc",
    "V_MPEGI/ISO/VVC": "vvc",
    "V_VP8": "vp8",
    "V_VP9": "vp9",
    "V_AV1": "av1",
    "V_MPEG1": "mpeg1video",
    "V_MPEG2": "mpeg2video",
    "V_MPEG4/ISO/SP": "mpeg4",
    "V_MPEG4/ISO/ASP": "mpeg4",
    "V_MPEG4/ISO/AP": "mpeg4",
    "V_MPEG4/MS/V3": "msmpeg4v3",
    "V_MJPEG": "mjpeg",
    "V_FFV1": "ffv1",
    "V_THEORA": "theora",
}
#: biCompression of V_MS/VFW/FOURCC → FFmpeg's name.
FOURCCS = {
    b"H264": "h264", b"X264": "h264", b"AVC1": "h264", b"HEVC": "hevc", b"VP80": "vp8", b"VP90": "vp9", b"AV01": "av1",
    b"XVID": "mpeg4", b"DIVX": "mpeg4", b"DX50": "mpeg4", b"FMP4": "mpeg4", b"MP4V": "mpeg4",
    b"DIV3": "msmpeg4v3", b"DIV4": "msmpeg4v3", b"MP43": "msmpeg4v3", b"MP42": "msmpeg4v2", b"MPG4": "msmpeg4v1",
    b"MJPG": "mjpeg", b"FFV1": "ffv1", b"HFYU": "huffyuv", b"FFVH": "ffvhuff",
    b"WMV1": "wmv1", b"WMV2": "wmv2", b"WMV3": "wmv3", b"WVC1": "vc1",
}  # fmt: skip
#: sizeof(BITMAPINFOHEADER): what stands before the decoder's own bytes in the CodecPrivate of V_MS/VFW/FOURCC.
_BITMAP_HEADER_BYTES = 40
#: Codecs whose pictures are shown in the order in which they are coded.
CODED_ORDER = frozenset({"vp8", "vp9", "av1", "mjpeg", "ffv1", "theora", "huffyuv", "ffvhuff", "msmpeg4v1",
                         "msmpeg4v2", "msmpeg4v3", "wmv1", "wmv2"})  # fmt: skip
#: Codecs whose pictures all stand alone, whatever the blocks say.
INTRA_ONLY = frozenset({"mjpeg", "huffyuv", "ffvhuff"})

_VIDEO, _AUDIO = 1, 2
#: TrackTypes that FFmpeg makes a stream of: video, audio, subtitle, metadata.
_STREAM_TYPES = frozenset({_VIDEO, _AUDIO, 0x11, 0x21})


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One TrackEntry."""

    fields: Mapping[int, bytes]
    """payload by element id, the masters below the entry flattened"""
    stream_index: int

    @property
    def number(self) -> int:
        """What its blocks call it."""
        return uint(self.fields.get(ids.TRACK_NUMBER))

    @property
    def is_video(self) -> bool:
        """A video track."""
        return uint(self.fields.get(ids.TRACK_TYPE)) == _VIDEO

    @property
    def is_audio(self) -> bool:
        """An audio track."""
        return uint(self.fields.get(ids.TRACK_TYPE)) == _AUDIO

    @property
    def is_encrypted(self) -> bool:
        """Its blocks are encrypted."""
        return ids.CONTENT_ENCRYPTION in self.fields or uint(self.fields.get(ids.CONTENT_ENCODING_TYPE)) == 1

    @property
    def is_encoded(self) -> bool:
        """Its blocks are compressed or lack a common header: payloads are not the file's bytes."""
        return ids.CONTENT_ENCODINGS in self.fields

    @property
    def codec_id(self) -> str:
        """As written in the file."""
        return text(self.fields.get(ids.CODEC_ID))

    @property
    def codec(self) -> str | None:
        """FFmpeg's name; None = one whose packets FFmpeg rewrites, or that is not in the tables above."""
        if self.codec_id == "V_MS/VFW/FOURCC":
            return FOURCCS.get(self.fourcc.upper())
        return CODECS.get(self.codec_id)

    @property
    def fourcc(self) -> bytes:
        """Four-character biCompression of V_MS/VFW/FOURCC; empty for all others."""
        return self.fields.get(ids.CODEC_PRIVATE, b"")[16:20] if self.codec_id == "V_MS/VFW/FOURCC" else b""

    @property
    def codec_config(self) -> bytes:
        """What FFmpeg calls extradata."""
        return self.fields.get(ids.CODEC_PRIVATE, b"")[_BITMAP_HEADER_BYTES if self.fourcc else 0 :]

    @property
    def default_duration_ns(self) -> int:
        """Nanoseconds of one frame, as claimed; 0 = not said."""
        return uint(self.fields.get(ids.DEFAULT_DURATION))

    @property
    def codec_delay_ns(self) -> int:
        """Nanoseconds to be taken off all its times."""
        return uint(self.fields.get(ids.CODEC_DELAY))

    @property
    def timestamp_scale(self) -> float:
        """TrackTimestampScale: a factor on the segment's scale, 1.0 in all but ancient files."""
        scale = real(self.fields.get(ids.TRACK_TIMESTAMP_SCALE), 1.0)
        return scale if 0.01 <= scale <= 100 else 1.0

    @property
    def pixel_size(self) -> tuple[int, int]:
        """(width, height) as coded, before PixelCrop."""
        return uint(self.fields.get(ids.PIXEL_WIDTH)), uint(self.fields.get(ids.PIXEL_HEIGHT))

    @property
    def crop(self) -> tuple[int, int]:
        """(columns, rows) that PixelCrop takes away."""
        get = self.fields.get
        return (
            uint(get(ids.CROP_LEFT)) + uint(get(ids.CROP_RIGHT)),
            uint(get(ids.CROP_TOP)) + uint(get(ids.CROP_BOTTOM)),
        )

    @property
    def sar(self) -> Fraction | None:
        """Sample aspect ratio that DisplayWidth and DisplayHeight give; None = not said.

        Their defaults are the cropped pixel size (RFC 9559 section 5.1.4.1.28.12); unit 4 (unknown) says nothing.
        """
        (width, height), (columns, rows) = self.pixel_size, self.crop
        width, height = width - columns, height - rows
        shown = [uint(self.fields.get(ids.DISPLAY_WIDTH)), uint(self.fields.get(ids.DISPLAY_HEIGHT))]
        if not any(shown) or uint(self.fields.get(ids.DISPLAY_UNIT)) >= 4 or width <= 0 or height <= 0:
            return None
        return Fraction((shown[0] or width) * height, (shown[1] or height) * width)

    @property
    def rotation(self) -> int:
        """Degrees clockwise for display: a rectangular projection that is rolled, which is counter-clockwise."""
        get = self.fields.get
        if uint(get(ids.PROJECTION_TYPE)) or real(get(ids.POSE_YAW)) or real(get(ids.POSE_PITCH)):
            return 0
        roll = real(get(ids.POSE_ROLL))
        return round(-roll / 90) * 90 % 360 if abs(roll) <= 360 else 0


def read_tracks(payload: bytes) -> list[Track]:
    """Tracks of a Tracks element, in file order; stream indices count those FFmpeg makes a stream of."""
    tracks: list[Track] = []
    for name, entry in children(payload):
        if name != ids.TRACK_ENTRY:
            continue
        fields = flatten(entry, ids.TRACK_MASTERS)
        if uint(fields.get(ids.TRACK_TYPE)) in _STREAM_TYPES:
            tracks.append(Track(fields=fields, stream_index=len(tracks)))
    return tracks
