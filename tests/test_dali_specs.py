"""Specs and policies through real DALI on the CPU: numbered VP9 and MJPEG pictures, every frame compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from vidprep.errors import SamplingError
from vidprep.records import Timeline
from vidprep.samplers import dali, parse_policy

if TYPE_CHECKING:
    from pathlib import Path

    from vidprep.samplers.spec import DecodeSpec

NUM_FRAMES = {"vp9": 20, "mjpeg": 20, "short": 9}
FILL = 111
UnsignedBytes = npt.NDArray[np.uint8]


def picture(number: int, width: int = 160, height: int = 144) -> UnsignedBytes:
    """Eight blocks spell the number, white = 1, complement below (tests/cases/README.md, "Frame identity")."""
    bits = np.array([number >> (7 - b) & 1 for b in range(8)], np.uint8) * 255
    top = np.tile(np.repeat(bits, width // 8), (height // 2, 1))
    return np.repeat(np.vstack([top, 255 - top])[..., None], 3, axis=2)


def number_of(image: UnsignedBytes) -> int:
    """The number a picture spells; -1 for a picture of FILL, -2 for anything else."""
    if (image == FILL).all():
        return -1
    luma, (height, width) = image.mean(axis=2), image.shape[:2]
    number, block = 0, width // 8
    for b in range(8):
        column = slice(b * block + block // 4, b * block + 3 * block // 4)
        above, below = luma[height // 8 : 3 * height // 8, column], luma[5 * height // 8 : 7 * height // 8, column]
        if abs(above.mean() - below.mean()) < 90:
            return -2
        number = 2 * number + int(above.mean() > below.mean())
    return number


def write_video(path: Path, num_frames: int, codec: str, pix_fmt: str, options: dict[str, str]) -> None:
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=24, options=options)
        stream.codec_context.thread_count = 1  # libvpx with threads may hang on a busy machine
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 160, 144, pix_fmt, 7
        for number in range(num_frames):
            frame = av.VideoFrame.from_ndarray(picture(number), "rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("numbered")
    vp9 = {"deadline": "realtime", "cpu-used": "8"}
    write_video(folder / "vp9.mp4", NUM_FRAMES["vp9"], "libvpx-vp9", "yuv420p", vp9)
    write_video(folder / "short.mkv", NUM_FRAMES["short"], "libvpx-vp9", "yuv420p", vp9)
    write_video(folder / "mjpeg.avi", NUM_FRAMES["mjpeg"], "mjpeg", "yuvj420p", {})
    return {"vp9": folder / "vp9.mp4", "short": folder / "short.mkv", "mjpeg": folder / "mjpeg.avi"}


def run_decoder(path: Path, spec: DecodeSpec) -> list[int]:
    """Numbers of the frames that `fn.decoders.video` gives for `decoder_kwargs`."""
    from nvidia.dali import fn, pipeline_def

    encoded = np.fromfile(path, np.uint8)

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline() -> Any:
        source = fn.external_source(source=[[encoded]], cycle=True)
        return fn.decoders.video(source, device="cpu", **spec.dali_kwargs())

    return [number_of(frame) for frame in np.array(pipeline().run()[0][0])]


def run_rearranged(path: Path, specs: list[DecodeSpec]) -> list[list[int]]:
    """Numbers of the frames of a batch through `batch_arrays` and `fn.sequence_rearrange`."""
    from nvidia.dali import fn, pipeline_def

    encoded, batch = np.fromfile(path, np.uint8), dali.batch_arrays(specs)

    @pipeline_def(batch_size=len(specs), num_threads=1, device_id=None)
    def pipeline() -> Any:
        source = fn.external_source(source=[[encoded] * len(specs)], cycle=True)
        frames = fn.external_source(source=[batch.frames], cycle=True)
        order = fn.external_source(source=[batch.new_order], cycle=True)
        return fn.sequence_rearrange(fn.decoders.video(source, frames=frames, **batch.kwargs), new_order=order)

    (out,) = pipeline().run()
    return [[number_of(frame) for frame in np.array(out[i])] for i in range(len(specs))]


def run_reader(file_list: Path, kwargs: dict[str, Any]) -> list[tuple[int, list[int]]]:
    """(label, numbers of the frames) of each sequence that `fn.experimental.readers.video` gives."""
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline() -> Any:
        return tuple(fn.experimental.readers.video(name="reader", device="cpu", file_list=str(file_list), **kwargs))

    built = pipeline()
    built.build()
    sequences = []
    for _ in range(built.epoch_size("reader")):
        video, label = built.run()
        sequences.append((int(np.array(label[0]).ravel()[0]), [number_of(frame) for frame in np.array(video[0])]))
    return sequences


POLICIES = [
    "first:frames=5", "first:frames=26,pad=edge", "last:frames=4,stride=3",
    "strided:stride=11,frames=10,pad=reflect_101",
    "strided:stride=11,frames=10,pad=reflect_1001", "strided:stride=11,frames=10,pad=constant,fill_value=111",
    "strided:stride=3,start=4", "strided:stride=3,start=16,frames=4,pad=wrap", "last:frames=24,pad=edge",
    "random:frames=4,stride=3", "random:frames=16,stride=3,pad=reflect",
    "random:frames=8,stride=4,pad=constant,fill_value=111",
    "list:frames=7/3/3/19/0/-1", "list:frames=18/19/25/45/-30,pad=edge",
    "list:frames=18/20/1,pad=constant,fill_value=111",
    "uniform:frames=8", "uniform:frames=50", "segments:frames=6", "rate:fps=10,frames=12,pad=edge",
    "rate:fps=10,frames=12,pad=constant,fill_value=111", "keyframes",
]  # fmt: skip


def spec_of(text: str, video: str) -> DecodeSpec:
    timeline = Timeline.regular(NUM_FRAMES[video], 24)
    timeline = Timeline(
        pts=timeline.pts,
        time_base=timeline.time_base,
        last_duration_ticks=1,
        keyframes=np.arange(0, len(timeline.pts), 7),
    )
    return parse_policy(text).choose(timeline, (3, 0, 5))


@pytest.mark.dali
@pytest.mark.parametrize("text", POLICIES)
def test_decoders_video_gives_the_frames_of_the_spec(text: str, videos: dict[str, Path]) -> None:
    for video in ("vp9", "mjpeg"):
        spec = spec_of(text, video)
        assert run_decoder(videos[video], spec) == spec.frame_index.tolist()


@pytest.mark.dali
def test_a_batch_decodes_each_frame_once_and_rearranges(videos: dict[str, Path]) -> None:
    specs = [spec_of(text, "vp9") for text in POLICIES]
    assert run_rearranged(videos["vp9"], specs) == [spec.frame_index.tolist() for spec in specs]


@pytest.mark.parametrize("text", POLICIES)
def test_rearranged_frames_are_ascending_each_once(text: str) -> None:
    spec = spec_of(text, "vp9")
    frames, order = dali.rearranged(spec)
    inside = frames[frames >= 0]
    assert (np.diff(inside) > 0).all()
    assert (frames == -1).sum() == (-1 in spec.frame_index)
    assert frames[order].tolist() == spec.frame_index.tolist()
    assert frames.dtype == order.dtype == np.int32


def test_a_range_is_said_natively_and_a_list_as_frames() -> None:
    assert dali.decoder_kwargs(spec_of("strided:stride=3,start=16,frames=4,pad=edge", "vp9")) == {
        "start_frame": 16, "sequence_length": 4, "stride": 3, "pad_mode": "edge",
    }  # fmt: skip
    kwargs = dali.decoder_kwargs(spec_of("list:frames=3/3/30,pad=constant,fill_value=1/2/3", "vp9"))
    assert kwargs.pop("frames").tolist() == [3, 3, -1]
    assert kwargs == {"pad_mode": "constant", "fill_value": [1, 2, 3]}


def test_reflection_inside_a_segment_is_not_left_to_dali() -> None:
    spec = parse_policy("first:frames=8,pad=reflect_101").choose(Timeline.regular(20), within=(10, 12))
    assert spec.frame_index.tolist() == [10, 11, 10, 11, 10, 11, 10, 11]  # DALI leaks out: 10, 11, 10, 9, 8, ...
    assert "frames" in dali.decoder_kwargs(spec)


def test_two_fill_values_in_a_batch_are_refused() -> None:
    specs = [spec_of(f"first:frames=30,pad=constant,fill_value={value}", "vp9") for value in (1, 2)]
    with pytest.raises(SamplingError, match="fill_value"):
        dali.batch_arrays(specs)


READER_POLICIES = [
    "first:frames=5", "first:frames=3,stride=4", "first:frames=3,stride=4,pad=drop", "last:frames=3,stride=4",
    "random:frames=4,stride=2", "random:frames=12,stride=3,pad=edge", "random:frames=12,stride=3,pad=reflect_101",
    "random:frames=12,stride=3,pad=reflect_1001", "random:frames=12,stride=3,pad=constant,fill_value=111",
    "dense:frames=3,stride=4", "dense:frames=3,stride=2,step=5", "dense:frames=4,stride=2,pad=edge",
    "uniform:frames=5", "uniform:frames=30", "strided:stride=4,start=1,frames=3",
    "strided:stride=2,start=-3,frames=4,pad=edge",
    "windows:frames=5,overlap=2", "first:frames=1", "last:frames=1,stride=7",
]  # fmt: skip


@pytest.mark.dali
@pytest.mark.parametrize("text", READER_POLICIES)
def test_the_reader_gives_one_sequence_per_line_with_the_frames_of_the_spec(
    text: str, videos: dict[str, Path], tmp_path: Path
) -> None:
    policy = parse_policy(text)
    kwargs = policy.dali_reader_kwargs()
    lines, expected = [], []
    for name, path in videos.items():
        n = NUM_FRAMES[name]
        for within in ((0, n), (1, n - 2)):
            for spec in policy.choose_all(Timeline.regular(n, 24), (1, 2, 3), within):
                if len(spec) < kwargs["sequence_length"] or (within != (0, n) and spec.is_padding.any()):
                    continue  # refused, as the tests below show
                lines.append(dali.file_list_line(str(path), len(lines), spec, within, kwargs))
                expected.append((len(expected), spec.frame_index.tolist()))
    assert lines
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n")
    assert run_reader(tmp_path / "list.txt", kwargs) == expected


@pytest.mark.dali
def test_uniform_sample_rounds_as_uniform_does_for_every_length(videos: dict[str, Path], tmp_path: Path) -> None:
    for frames in (2, 3, 7, 13):
        policy = parse_policy(f"uniform:frames={frames}")
        kwargs = dali.reader_kwargs(policy)
        specs = [policy.choose(Timeline.regular(20), within=(0, n)) for n in range(1, 21)]
        lines = [dali.file_list_line(str(videos["mjpeg"]), n, s, (0, n + 1), kwargs) for n, s in enumerate(specs)]
        (tmp_path / "list.txt").write_text("\n".join(lines) + "\n")
        assert [f for _, f in run_reader(tmp_path / "list.txt", kwargs)] == [s.frame_index.tolist() for s in specs]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rate:fps=4,frames=8", "rate:"), ("list:frames=1/2", "list:"), ("segments:frames=4", "segments:"),
        ("uniform:frames=4,mode=trunc", "mode=round"), ("uniform:frames=1", "2 frames or more"),
        ("strided:stride=3", "fixed number"), ("random:frames=4,jitter=2", "jitter"),
        ("keyframes:frames=3", "keyframes:"),
    ],
)  # fmt: skip
def test_what_the_reader_cannot_say_is_refused_by_name(text: str, names: str) -> None:
    with pytest.raises(SamplingError, match=names):
        dali.reader_kwargs(parse_policy(text))


@pytest.mark.parametrize(
    ("path", "label", "reason"),
    [
        ("a b.mp4", 0, "blanks"), ("a\tb.mp4", 0, "blanks"), ("/a\nb.mp4", 0, "blanks"), ("", 0, "blanks"),
        ("a:b.mp4", 0, "absolute"), ("s3://bucket/a.mp4", 0, "local"), ("/a.mp4", -1, "label=-1"),
        ("/a.mp4", 2**31, "label=2147483648"),
    ],
)  # fmt: skip
def test_a_line_that_the_list_cannot_hold_is_refused(path: str, label: int, reason: str) -> None:
    policy = parse_policy("first:frames=5")
    with pytest.raises(SamplingError, match=reason):
        dali.file_list_line(path, label, spec_of("first:frames=5", "vp9"), (0, 20), dali.reader_kwargs(policy))


@pytest.mark.parametrize(
    ("text", "within", "reason"),
    [
        ("first:frames=30", (0, 20), "20 frames"),
        ("first:frames=30,pad=wrap", (0, 20), "cannot give"),
        ("last:frames=30,pad=edge", (0, 20), "cannot give"),
        ("first:frames=8,pad=reflect_101", (10, 12), "cannot give"),
        ("first:frames=8,pad=edge", (10, 12), "cannot give"),
    ],
)
def test_a_clip_that_the_reader_cannot_give_is_refused(text: str, within: tuple[int, int], reason: str) -> None:
    policy = parse_policy(text)
    spec = policy.choose(Timeline.regular(20), within=within)
    with pytest.raises(SamplingError, match=reason):
        dali.file_list_line("/a.mp4", 0, spec, within, dali.reader_kwargs(policy))
