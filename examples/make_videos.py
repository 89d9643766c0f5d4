"""Write a handful of small videos with real codecs: good ones, a truncated one, and a file that is no video.

python examples/make_videos.py FOLDER
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

WIDTH, HEIGHT = 320, 180


def picture(index: int, num_frames: int) -> np.ndarray:
    """A gradient with a bar that moves from left to right: the eye sees at once which frame it is."""
    x = np.linspace(0, 255, WIDTH, dtype=np.uint8)
    y = np.linspace(0, 255, HEIGHT, dtype=np.uint8)
    image = np.stack([np.tile(x, (HEIGHT, 1)), np.tile(y[:, None], (1, WIDTH)), np.full((HEIGHT, WIDTH), 96)], axis=-1)
    left = index * (WIDTH - 24) // max(num_frames - 1, 1)
    image[:, left : left + 24] = 255
    return image.astype(np.uint8)


def write(path: Path, codec: str, pts: list[int], time_base: Fraction, options: dict[str, str]) -> None:
    """Encode one picture for each presentation time in `pts` (ticks of `time_base`)."""
    with av.open(str(path), "w", options={"movflags": "faststart"} if path.suffix == ".mp4" else {}) as container:
        stream = container.add_stream(codec, rate=30, options=options)
        stream.codec_context.thread_count = 1
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = time_base
        for index, ticks in enumerate(pts):
            frame = av.VideoFrame.from_ndarray(picture(index, len(pts)), format="rgb24")
            frame.pts, frame.time_base = ticks, time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def main(folder: Path) -> None:
    """Write the videos that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    regular, milliseconds = Fraction(1, 30), Fraction(1, 1000)
    steps = [33, 33, 200, 16, 16, 50, 120] * 12
    uneven = [int(sum(steps[:i])) for i in range(len(steps))]
    videos = {
        "bframes.mp4": ("libx264", list(range(150)), regular, {"bf": "3", "g": "48", "preset": "veryfast"}),
        "long_gop.mp4": ("libx264", list(range(300)), regular, {"g": "250", "preset": "veryfast"}),
        "vfr.mp4": ("libx264", uneven, milliseconds, {"g": "30", "preset": "veryfast"}),
        "vp9.webm": ("libvpx-vp9", list(range(60)), regular, {"cpu-used": "8", "deadline": "realtime", "b": "400k"}),
    }
    for name, (codec, pts, time_base, options) in videos.items():
        if not (folder / name).exists():
            write(folder / name, codec, pts, time_base, options)
    if not (folder / "truncated.mp4").exists():
        whole = (folder / "bframes.mp4").read_bytes()
        (folder / "truncated.mp4").write_bytes(whole[: len(whole) * 2 // 3])  # its tables promise more than is there
    (folder / "not_a_video.mp4").write_text("This is text with the wrong name.\n")
    print(f"{len(list(folder.iterdir()))} files in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
