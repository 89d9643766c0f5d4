"""Files that trigger checks, made by PyAV or taken from the cases, and one that triggers none."""

from __future__ import annotations

import shutil
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from clips_made import picture

from vidprep.validation.examine import Options
from vidprep.validation.run import Settings, validate_index
from vidprep.validation.tasks import examine_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from vidprep.validation.run import Report
    from vidprep.validation.tasks import Outcome, Task

#: Taken as they are: case file → what it stands for here.
CASES = (
    "trunc_faststart.mp4", "tables_disagree.mp4", "avi_header_lie.avi", "mkv_default_duration_lie.mkv",
    "vfr_steps.mp4", "stts_delta_wrap.mp4", "mkv_rel_time_wrap.mkv", "stss_absent.mp4", "fmp4_all_sync.mp4",
    "hevc_stss_first_only.mp4", "intra_refresh.mp4", "open_gop.mp4", "h264_10bit.mp4", "odd_size.webm", "rotate90.mp4",
    "color_fullrange_709.mp4", "res_change.ts", "zero_bytes.mp4", "audio_only.mp4", "moov_missing.mp4",
    "box_size_bomb.mp4",
)  # fmt: skip

SIZE = (96, 128)
TAGGED = {"colorprim": "bt709", "transfer": "bt709", "colormatrix": "bt709"}


def write(
    path: Path,
    frames: int = 24,
    show: Callable[[int], np.ndarray] = lambda number: picture(number, *SIZE),
    *,
    codec: str = "libx264",
    gop: int = 12,
    x264: dict[str, str] | None = None,
    pix_fmt: str = "yuv420p",
    sar: Fraction | None = None,
    audio_seconds: float = 0.0,
) -> Path:
    """A video of what `show` gives, 25 fps; healthy unless told otherwise."""
    params = TAGGED | {"scenecut": "0"} | (x264 or {})
    with av.open(str(path), "w") as container:
        options = {"preset": "ultrafast", "x264-params": ":".join(f"{k}={v}" for k, v in params.items())}
        stream = container.add_stream(codec, rate=25, options=options if codec == "libx264" else {})
        stream.codec_context.thread_count = 1  # libvpx with threads may hang on a busy machine
        stream.height, stream.width = show(0).shape[:2]
        stream.pix_fmt, stream.gop_size = pix_fmt, gop
        if sar:
            stream.codec_context.sample_aspect_ratio = sar
        audio = container.add_stream("aac", rate=8000, layout="mono") if audio_seconds else None
        for number in range(frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(show(number), "rgb24")))
        container.mux(stream.encode())
        for number in range(int(audio_seconds * 8000 / 1024)):
            sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            sound.sample_rate, sound.pts = 8000, number * 1024
            container.mux(audio.encode(sound))
        if audio:
            container.mux(audio.encode())
    return path


def scene(seed: int) -> Callable[[int], np.ndarray]:
    """Coloured blocks that wander to the right."""
    blocks = np.random.default_rng(seed).integers(0, 255, (12, 16, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    return lambda number: np.roll(blocks, number, 1)


def flat(colour: int) -> Callable[[int], np.ndarray]:
    return lambda _: np.full((*SIZE, 3), colour, np.uint8)


def remuxed(source: Path, target: Path, change: Callable[[int, Any], None]) -> Path:
    """The packets of a file again, changed in place."""
    with av.open(str(source)) as before, av.open(str(target), "w") as after:
        stream = after.add_stream_from_template(before.streams.video[0])
        packets = [packet for packet in before.demux(video=0) if packet.size]
        for number, packet in enumerate(packets):
            packet.stream = stream
            change(number, packet)
            after.mux(packet)
    return target


def one_time_twice(number: int, packet: Any) -> None:
    if number == 3:
        packet.pts = packet.dts = packet.pts - 40


def flip_payload(source: Path, target: Path, first: int) -> Path:
    """The same file with zeros for one coded sample's slice."""
    from vidprep.indexes import probe

    table = probe(str(source)).table
    data = bytearray(source.read_bytes())
    begin, size = int(table.offset[first]), int(table.size[first])
    data[begin + 5 : begin + size] = bytes(size - 5)  # what follows the length and the NAL unit's header
    target.write_bytes(data)
    return target


def make_files(folder: Path, cases: Path) -> None:
    """All of them, by a name that says what is wrong."""
    folder.mkdir()
    for name in CASES:
        shutil.copyfile(cases / "files" / name, folder / name)
    healthy = write(folder / "healthy.mp4", show=scene(11))
    shutil.copyfile(healthy, folder / "healthy_copy.mp4")
    write(folder / "scene.mp4", show=scene(3))
    write(folder / "scene_again.mp4", show=lambda number: scene(3)(number) // 2 + 64, x264={"crf": "35"}, gop=6)
    write(folder / "long_gop.mp4", 310, lambda number: picture(number, 64, 64), gop=400)
    write(folder / "mjpeg.avi", 8, codec="mjpeg", pix_fmt="yuvj420p")
    write(folder / "tiny.mp4", 8, lambda number: picture(number, 32, 32))
    write(folder / "sar.mp4", 8, sar=Fraction(4, 3))
    write(folder / "interlaced.mp4", 8, x264={"tff": "1"})
    write(folder / "untagged.mp4", 8, x264={"colorprim": "undef", "transfer": "undef", "colormatrix": "undef"})
    write(folder / "audio.mp4", 25, audio_seconds=3.0)
    write(folder / "black.mp4", 30, flat(0))
    write(folder / "blank.mp4", 30, flat(140))
    write(folder / "frozen.mp4", 60, lambda number: scene(7)(min(number, 5)), gop=250)
    mjpeg = write(folder / "times.mkv", 8, codec="mjpeg", pix_fmt="yuvj420p")
    remuxed(mjpeg, folder / "one_time_twice.mkv", one_time_twice)
    flip_payload(write(folder.parent / "whole.mp4", show=scene(5)), folder / "flipped.mp4", 13)


def run_here(decode: Any) -> Callable[[Iterable[Task]], Iterator[tuple[Task, Outcome]]]:
    """A runner that decodes in this process."""
    return lambda tasks: ((task, examine_batch(task, decode, lambda _: None)) for task in tasks)


def validated(index: Path, aside: Path, level: str = "header", **settings: Any) -> Report:
    """A run in this process, on the CPU."""
    from vidprep.cli.decode_worker import Thumbnailer

    chosen = Settings(options=Options(level=level), **settings)
    return validate_index(index, aside, chosen, runner=run_here(Thumbnailer("cpu")))
