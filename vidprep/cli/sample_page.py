"""`vidprep sample --html`: the chosen frames of clip after clip, with number, time and padding, searchable by name."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vidprep.errors import VidprepError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from PIL.Image import Image

    from vidprep.records import VideoLike
    from vidprep.samplers.spec import DecodeSpec

__all__ = ["sample_page"]

#: Bytes of thumbnails after which clips are listed without pictures, and of all clips after which none is listed.
PICTURE_BYTES, PAGE_BYTES = 3_400_000, 4_600_000
#: Bytes of the page's text around a thumbnail, and for a place without one; about.
_PLACE_BYTES, _LISTED_BYTES = 220, 24
JPEG_QUALITY = 72


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One frame of a clip."""

    frame: int
    seconds: float
    is_padding: bool
    uri: str = ""
    """its picture, or empty"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """One clip as the page shows it."""

    number: int
    name: str
    places: list[Place]
    padded: int
    has_pictures: bool = False
    trouble: str = ""
    """why there are no pictures, where there should be"""


@dataclass(slots=True)
class _Budget:
    pictures: int = PICTURE_BYTES
    page: int = PAGE_BYTES
    left_out: int = field(default=0)

    def spend(self, clip: Clip) -> bool:
        """Whether the page still has room for the clip."""
        each = _PLACE_BYTES if clip.has_pictures else _LISTED_BYTES
        size = 300 + len(clip.name) + sum(len(place.uri) + each for place in clip.places)
        self.page -= size
        self.pictures -= size if clip.has_pictures else 0
        self.left_out += self.page < 0
        return self.page >= 0


def sample_page(policy: str, about: str, clips: Iterable[tuple[int, VideoLike, DecodeSpec]]) -> str:
    """The page, at most about PAGE_BYTES long.

    Args:
        policy: its text.
        about: where the clips come from.
        clips: number, video and chosen frames of each; taken as the page has room. A video that cannot be decoded is
            shown with the reason.
    """
    from vidprep.pages import render

    budget = _Budget()
    listed = list(_listed(clips, budget))
    return render(
        "sample.html", title=f"Clips of {policy}", about=about, clips=listed, left_out=budget.left_out,
        bare=sum(not clip.has_pictures and not clip.trouble for clip in listed),
    )  # fmt: skip


def _listed(clips: Iterable[tuple[int, VideoLike, DecodeSpec]], budget: _Budget) -> Iterator[Clip]:
    for number, video, spec in clips:
        clip = _bare(number, video, spec)
        if budget.pictures > 0 and budget.page > 0:
            clip = _with_pictures(clip, video, spec)
        if budget.spend(clip):
            yield clip


def _bare(number: int, video: VideoLike, spec: DecodeSpec, uris: list[str] | None = None, trouble: str = "") -> Clip:
    columns = zip(spec.frame_index.tolist(), spec.pts_seconds.tolist(), spec.is_padding.tolist(), strict=True)
    places = [
        Place(frame=frame, seconds=seconds, is_padding=is_padding, uri=uris[i] if uris else "")
        for i, (frame, seconds, is_padding) in enumerate(columns)
    ]
    return Clip(
        number=number, name=video.uri, places=places, padded=int(spec.is_padding.sum()), has_pictures=bool(uris),
        trouble=trouble,
    )  # fmt: skip


def _with_pictures(clip: Clip, video: VideoLike, spec: DecodeSpec) -> Clip:
    from vidprep.cli.sheet import filled, thumbnails_of

    try:
        thumbnails = [_data_uri(image) for image in thumbnails_of(video, spec)]
    except VidprepError as error:
        return _bare(clip.number, video, spec, trouble=str(error))
    fill = _data_uri(filled(spec)) if (spec.frame_index < 0).any() else ""
    return _bare(clip.number, video, spec, [thumbnails[i] if i >= 0 else fill for i in spec.gather.tolist()])


def _data_uri(image: Image) -> str:
    out = io.BytesIO()
    image.save(out, format="JPEG", quality=JPEG_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
