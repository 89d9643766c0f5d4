"""The nvdec engine against the cpu engine, on a GPU."""

from __future__ import annotations

import dataclasses
import gc
from concurrent.futures import ThreadPoolExecutor

import av
import numpy as np
import pytest
from clip_videos import small_plan
from clips_made import cut_of

from vidprep.errors import DecodeError
from vidprep.loaders import ClipLoader
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.loaders.engines.nvdec import unsupported_reason
from vidprep.records import StreamInfo

SUPPORTED = [
    "clip_window.mp4", "avi_h264_b.avi", "open_gop.mp4", "intra_refresh.mp4", "hevc_stss_first_only.mp4",
    "vp8_altref.webm", "vp9_altref.webm", "vfr_steps.mp4", "elst_trim_mid_gop.mp4", "ts_wrap33.ts", "rotate90.mp4",
]  # fmt: skip
TOLERANCE = 2


@pytest.fixture(scope="module")
def engine():
    from vidprep.loaders.engines.nvdec import NvdecEngine

    engine = NvdecEngine("cuda:0", num_decoders=4)
    yield engine
    engine.close()


def difference(engine, cut):
    return int(np.abs(engine.decode(cut).cpu().numpy().astype(int) - CpuEngine().decode(cut)).max())


@pytest.mark.gpu
@pytest.mark.parametrize("name", SUPPORTED)
@pytest.mark.parametrize("frames", [None, [0], [5, 9, 11]])
def test_frames_are_those_of_the_cpu_engine(engine, cases, name, frames):
    before = engine.num_fallbacks
    assert difference(engine, cut_of(cases / "files" / name, frames)) <= TOLERANCE
    assert engine.num_fallbacks == before


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["h264_10bit.mp4", "mkv_lacing_ebml.mkv", "odd_size.webm"])
def test_what_nvdec_cannot_do_comes_out_right_all_the_same(engine, cases, name):
    assert difference(engine, cut_of(cases / "files" / name, None)) <= TOLERANCE


@pytest.mark.gpu
def test_ten_bits_keep_their_levels_by_choice(tmp_path):
    from vidprep.loaders.engines.nvdec import NvdecEngine

    path = tmp_path / "ten_bits.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx265", rate=25, options={"x265-params": "log-level=none:keyint=8"})
        stream.width, stream.height, stream.pix_fmt = 256, 144, "yuv420p10le"
        for n in range(12):
            ramp = np.linspace(0, 65535, 256 * 144 * 3).astype(np.uint16).reshape(144, 256, 3)
            frame = av.VideoFrame.from_ndarray(np.roll(ramp, 9 * n, 1), format="rgb48le")
            container.mux(stream.encode(frame.reformat(format="yuv420p10le")))
        container.mux(stream.encode())
    cut = cut_of(path, [0, 5, 11])
    engine = NvdecEngine("cuda:0", num_decoders=1, dtype="uint16")
    got = engine.decode(cut).cpu().numpy()
    assert engine.num_fallbacks == 0
    engine.close()
    want = CpuEngine(dtype="uint16").decode(cut)
    assert got.dtype == want.dtype == np.uint16
    assert np.abs(got.astype(int) - want).max() <= TOLERANCE * 257
    assert len(np.unique(got)) > 256


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("encoder", "options"),
    [
        ("libx264", {"g": "8", "bf": "3", "preset": "fast"}),
        ("libx264", {"g": "8", "bf": "3", "x264-params": "open-gop=1"}),
        ("libx265", {"x265-params": "log-level=none:keyint=8:open-gop=0"}),
        ("libx265", {"x265-params": "log-level=none:keyint=8"}),
    ],
)
def test_frames_far_apart_come_from_groups_that_follow_each_other_in_one_decoder(engine, tmp_path, encoder, options):
    path = tmp_path / "far_apart.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(encoder, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 320, 192, "yuv420p"
        picture = np.random.default_rng(0).integers(0, 255, (192, 320, 3), np.uint8) // 4 * 2
        for n in range(80):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.roll(picture, 3 * n, 1) + n, format="rgb24")))
        container.mux(stream.encode())
    cut, before = cut_of(path, [2, 13, 30, 31, 46, 79]), engine.num_fallbacks
    assert len(cut.segments) > 3
    assert difference(engine, cut) <= TOLERANCE
    assert engine.num_fallbacks == before


@pytest.mark.gpu
def test_a_changed_size_is_an_error_and_the_next_clip_is_right(engine, cases):
    good = cut_of(cases / "files" / "clip_window.mp4", [3, 8])
    with pytest.raises(DecodeError, match=r"res_change\.ts: frame \d+"):
        engine.decode(cut_of(cases / "files" / "res_change.ts", None))
    assert difference(engine, good) <= TOLERANCE


@pytest.mark.gpu
def test_a_missing_picture_is_an_error_and_the_next_clip_is_right(engine, cases):
    cut = cut_of(cases / "files" / "clip_window.mp4", [3, 8])
    short = dataclasses.replace(cut, packets=cut.packets[cut.packets.rows != cut.frame_rows[1]])
    with pytest.raises(DecodeError, match="frame 8"):
        engine.decode(short)
    assert difference(engine, cut) <= TOLERANCE


@pytest.mark.gpu
def test_many_threads_and_kinds_share_few_decoders(engine, cases):
    cuts = [cut_of(cases / "files" / name, [4, 11]) for name in SUPPORTED]
    want = [CpuEngine().decode(cut).astype(int) for cut in cuts]
    with ThreadPoolExecutor(12) as threads:
        for n, got in enumerate(threads.map(engine.decode, cuts * 6)):
            assert np.abs(got.cpu().numpy() - want[n % len(cuts)]).max() <= TOLERANCE


@pytest.mark.gpu
def test_gpu_memory_stays_flat(engine, cases):
    import torch

    cut = cut_of(cases / "files" / "clip_window.mp4", None)
    free = []
    for _ in range(3):
        for _ in range(50):
            engine.decode(cut)
        gc.collect()
        torch.cuda.synchronize()
        free.append(torch.cuda.mem_get_info()[0])
    assert free[2] >= free[0] - (16 << 20)


@pytest.mark.gpu
@pytest.mark.dali
def test_the_same_batches_on_cpu_and_gpu(tmp_path):
    plan = small_plan(tmp_path)
    options = {"batch_size": 4, "size": (96, 112), "output": "numpy"}
    with ClipLoader(plan, device="cpu", **options) as cpu, ClipLoader(plan, device="cuda:0", **options) as gpu:
        for want, got in zip(cpu, gpu, strict=True):
            assert np.array_equal(want.frame_index, got.frame_index)
            assert np.abs(want.frames.astype(int) - got.frames).max() <= 2 * TOLERANCE


@pytest.mark.gpu
@pytest.mark.dali
def test_torch_batches_lie_on_the_gpu_and_outlive_the_loader(tmp_path):
    import torch

    plan = small_plan(tmp_path)
    with ClipLoader(plan, batch_size=4, device="cuda:0", size=(64, 64), dtype="float16", layout="CFHW") as loader:
        batches = [(batch.frames, batch.frames.clone()) for batch in loader]
    torch.cuda.synchronize()
    for frames, copy in batches:
        assert frames.is_cuda
        assert frames.dtype == torch.float16
        assert frames.shape[1:] == (3, 4, 64, 64)
        assert torch.equal(frames, copy)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"codec": "h264"}, None),
        ({"codec": "h264", "pix_fmt": "yuvj420p"}, None),
        ({"codec": "hevc", "pix_fmt": "yuv420p10le", "bit_depth": 10}, None),
        ({"codec": "av1"}, "av1"),
        ({"codec": "h264", "pix_fmt": "yuv420p10le"}, "10-bit"),
        ({"codec": "hevc", "bit_depth": 12}, "12-bit"),
        ({"codec": "h264", "chroma": "4:4:4"}, "4:4:4"),
        ({"codec": "vp9", "pix_fmt": "yuva420p"}, "yuva420p"),
        ({"codec": "h264", "interlaced": True}, "interlaced"),
        ({"codec": "mpeg4"}, "not decoded to the bit"),
        ({"codec": "vp9", "width": 161, "height": 145}, "odd height"),
        ({"codec": "vp9", "width": 161, "height": 144}, None),
    ],
)
def test_what_goes_to_the_cpu_engine_says_why(facts, reason):
    told = unsupported_reason(StreamInfo(container="mp4", **facts))
    assert told is None if reason is None else reason in told
