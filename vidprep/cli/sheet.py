"""Contact sheets: a row of thumbnails for each clip, with index, time and padding under each."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from vidprep.errors import SamplingError, VidprepError
from vidprep.pages.render import write_aside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image

    from vidprep.records import VideoLike
    from vidprep.samplers.spec import DecodeSpec

__all__ = ["draw_sheet", "filled", "thumbnails_of"]

#: Pixels of a thumbnail, which a picture is fitted into, of the text below it, and of the gaps.
WIDTH, HEIGHT, TEXT, GAP = 160, 120, 28, 4
COLUMNS = 8
MAX_THUMBNAILS = 2000
BACKGROUND, INK, PADDED, UNREADABLE = (24, 24, 24), (230, 230, 230), (255, 150, 40), (110, 30, 30)


def draw_sheet(path: str, clips: Sequence[tuple[VideoLike, DecodeSpec]]) -> list[VidprepError]:
    """Write a PNG.

    Args:
        path: file to write.
        clips: videos and the frames taken from them; constant padding shows its fill value, padding is framed. A clip
            that cannot be decoded is a line of empty frames.

    Returns:
        Why clips could not be decoded.

    Raises:
        SamplingError: more than MAX_THUMBNAILS places, or none.
        MediaError, DecodeError: no clip can be decoded; nothing is written.
        OSError: the file cannot be written.
    """
    from PIL import Image

    places = sum(len(spec) for _, spec in clips)
    if not 0 < places <= MAX_THUMBNAILS:
        raise SamplingError(f"sheet: {places} thumbnails: expected 1..{MAX_THUMBNAILS}; see --limit")
    lines = [-(-len(spec) // COLUMNS) for _, spec in clips]
    columns = min(COLUMNS, max(len(spec) for _, spec in clips))
    size = (columns * (WIDTH + GAP) + GAP, sum(lines) * (HEIGHT + TEXT + GAP) + len(clips) * GAP + GAP)
    sheet, top = Image.new("RGB", size, BACKGROUND), GAP
    errors: list[VidprepError] = []
    for (video, spec), height in zip(clips, lines, strict=True):
        try:
            thumbnails = thumbnails_of(video, spec)
        except VidprepError as error:
            errors.append(error)
            thumbnails = [Image.new("RGB", (WIDTH, HEIGHT), UNREADABLE)] * len(spec.unique_frames)
        _draw_clip(sheet, top, spec, thumbnails)
        top += height * (HEIGHT + TEXT + GAP) + GAP
    if len(errors) == len(clips):
        raise errors[0]
    png = BytesIO()
    sheet.save(png, format="PNG")
    write_aside(path, png.getvalue())
    return errors


def _draw_clip(sheet: Image, top: int, spec: DecodeSpec, thumbnails: Sequence[Image]) -> None:
    from PIL import ImageDraw

    pencil = ImageDraw.Draw(sheet)
    for i, (place, is_padding) in enumerate(zip(spec.gather.tolist(), spec.is_padding.tolist(), strict=True)):
        line, column = divmod(i, COLUMNS)
        left, upper = GAP + column * (WIDTH + GAP), top + line * (HEIGHT + TEXT + GAP)
        thumbnail = thumbnails[place] if place >= 0 else filled(spec)
        sheet.paste(thumbnail, (left + (WIDTH - thumbnail.width) // 2, upper + (HEIGHT - thumbnail.height) // 2))
        if is_padding:
            pencil.rectangle((left, upper, left + WIDTH - 1, upper + HEIGHT - 1), outline=PADDED, width=3)
        pencil.text((left + 2, upper + HEIGHT + 2), _caption(spec, i), fill=PADDED if is_padding else INK)


def _caption(spec: DecodeSpec, i: int) -> str:
    frame = int(spec.frame_index[i])
    said = "fill" if frame < 0 else f"{frame}  {spec.pts_seconds[i]:.3f} s"
    return f"{said}\npadding" if spec.is_padding[i] else said


def thumbnails_of(video: VideoLike, spec: DecodeSpec) -> list[Image]:
    """One for each of the spec's unique frames."""
    from PIL import Image

    from vidprep.loaders import read_frames

    frames = spec.unique_frames
    pictures = (
        read_frames(video, frames, engine="cpu", rotate=True) if len(frames) else np.zeros((0, 1, 1, 3), np.uint8)
    )
    images = [Image.fromarray(picture) for picture in pictures]
    for image in images:
        image.thumbnail((WIDTH, HEIGHT))
    return images


def filled(spec: DecodeSpec) -> Image:
    """What constant padding looks like."""
    from PIL import Image

    fill = spec.fill_value if isinstance(spec.fill_value, tuple) else (spec.fill_value,)
    channels = (fill * 3)[:3]
    return Image.new("RGB", (WIDTH, HEIGHT), (channels[0], channels[1], channels[2]))
