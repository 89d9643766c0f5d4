"""ClipLoader: order, ranks, resume, failures, threads and ends, over real files on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from clip_videos import CASES, copied_videos, small_plan
from clips_made import X264, make_video

from vidprep.errors import DecodeError, MediaError, SamplingError, TooManyFailuresError
from vidprep.indexes import build_index, open_index
from vidprep.loaders import ClipLoader
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.loaders.frames import as_video, read_frames
from vidprep.samplers import First, FrameList, RandomClip
from vidprep.samplers.plan import Plan

FIRST = First(frames=4, pad="edge")

pytestmark = [pytest.mark.dali, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return small_plan(tmp_path_factory.mktemp("videos"))


@pytest.fixture
def own_plan(tmp_path):
    """A plan whose files a test may break."""
    return small_plan(tmp_path)


def loader_of(plan, **options):
    return ClipLoader(plan, **{"batch_size": 3, "size": (32, 40), "output": "numpy", **options})


def facts(batches):
    """What a batch is, pixels included, in a form that compares."""
    return [
        (b.clip.tolist(), b.video.tolist(), b.frame_index.tolist(), b.is_valid.tolist(), b.frames.tobytes())
        for b in batches
    ]  # fmt: skip


def epoch_facts(plan, **options):
    with loader_of(plan, **options) as loader:
        return facts(loader)


class BrokenEngine(CpuEngine):
    """Fails as told for chosen files."""

    def __init__(self, names, error=None):
        super().__init__()
        self.names, self.error = names, error

    def decode(self, cut):
        if Path(cut.uri).name in self.names:
            raise self.error or DecodeError("broken on purpose", uri=cut.uri, frame_index=int(cut.frames[0]))
        return super().decode(cut)


def test_an_epoch_visits_every_place_once_and_each_epoch_differs(plan):
    with loader_of(plan) as loader:
        first, second = list(loader), list(loader)
    assert [p for b in first for p in b.clip.tolist()] == list(range(24))
    assert facts(first) != facts(second)
    assert len(first) == len(loader) == 8


def test_frames_are_those_that_the_index_names(plan):
    with ClipLoader(plan, batch_size=1, output="numpy") as loader:
        for batch in loader:
            uri = plan.videos[int(batch.video[0])].uri
            assert np.array_equal(batch.frames[0], read_frames(uri, batch.frame_index[0])), uri


def test_times_are_those_of_the_timeline(plan):
    with loader_of(plan) as loader:
        for batch in loader:
            for row, video in enumerate(batch.video.tolist()):
                want = plan.videos[video].timeline.pts_seconds[batch.frame_index[row]]
                assert np.array_equal(batch.pts_seconds[row], want)


def test_batches_are_the_same_with_1_and_8_threads(plan):
    assert epoch_facts(plan, threads=1, prefetch=1) == epoch_facts(plan, threads=8, prefetch=4)


@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_every_rank_gets_as_many_batches_and_together_they_cover_the_epoch(plan, world_size):
    batches = []
    for rank in range(world_size):
        with loader_of(plan, batch_size=2, rank=rank, world_size=world_size) as loader:
            batches.append(list(loader))
    assert len({len(of_rank) for of_rank in batches}) == 1
    valid = [int(p) for of_rank in batches for b in of_rank for p in b.clip[b.is_valid]]
    assert sorted(valid) == list(range(24))


def test_ranks_take_parts_of_the_one_order_that_a_single_rank_sees(plan):
    alone = {p: f for clip, _, f, *_ in epoch_facts(plan) for p, f in zip(clip, f, strict=True)}
    for rank in range(3):
        for clip, _, frame_index, *_ in epoch_facts(plan, rank=rank, world_size=3):
            assert frame_index == [alone[p] for p in clip]


def test_resume_at_every_batch_gives_the_rest_of_the_epoch_and_the_next(plan):
    with loader_of(plan) as loader:
        whole = facts(loader) + facts(loader)
    with loader_of(plan) as loader:
        for consumed in range(1, 8):
            loader.set_epoch(0)
            batches = iter(loader)
            for _ in range(consumed):
                next(batches)
            state = json.loads(json.dumps(loader.state_dict()))
            with loader_of(plan, threads=1) as resumed:
                resumed.load_state_dict(state)
                assert facts(resumed) == whole[consumed:8]
                if consumed == 4:
                    assert facts(resumed) == whole[8:]


def test_resume_from_8_ranks_to_3_leaves_nothing_out_and_repeats_nothing(plan):
    seen, states = [], []
    for rank in range(8):
        with loader_of(plan, batch_size=1, rank=rank, world_size=8) as loader:
            batches = iter(loader)
            seen += [int(p) for b in (next(batches), next(batches)) for p in b.clip]
            states.append(loader.state_dict())
    assert all(state == states[0] for state in states)
    for rank in range(3):
        with loader_of(plan, batch_size=1, rank=rank, world_size=3) as loader:
            loader.load_state_dict(states[0])
            seen += [int(p) for b in loader for p in b.clip[b.is_valid]]
    assert sorted(seen) == list(range(24))


def test_state_at_the_end_of_an_epoch_leads_to_the_next(plan):
    with loader_of(plan) as loader:
        list(loader)
        state = loader.state_dict()
        second = facts(loader)
    with loader_of(plan) as resumed:
        resumed.load_state_dict(state)
        assert facts(resumed) == second


def test_state_of_another_plan_or_batch_size_is_refused_unless_told(plan, own_plan):
    with loader_of(plan) as loader:
        next(iter(loader))
        state = loader.state_dict()
    other = small_plan(Path(own_plan.videos[0].uri).parent, seed=8)
    with loader_of(other) as loader, pytest.raises(SamplingError, match="another index or plan"):
        loader.load_state_dict(state)
    with loader_of(plan, batch_size=4) as loader:
        with pytest.raises(SamplingError, match="batch_size 3"):
            loader.load_state_dict(state)
        loader.load_state_dict(state, allow={"batch_size"})
        assert next(iter(loader)).clip.tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("state", [{}, {"version": 1}, {"version": 99, "epoch": 0, "position": 0, "batch_size": 3,
                                                        "fingerprint": "x"}])  # fmt: skip
def test_what_is_no_state_is_refused(plan, state):
    with loader_of(plan) as loader, pytest.raises(SamplingError, match="state"):
        loader.load_state_dict(state)


def test_drop_last_leaves_out_what_makes_no_batch(plan):
    with loader_of(plan, batch_size=5, drop_last=True) as loader:
        assert [len(b) for b in loader] == [5, 5, 5, 5]


def test_batch_larger_than_the_epoch_with_drop_last_is_an_error(plan):
    with pytest.raises(SamplingError, match="25"):
        loader_of(plan, batch_size=25, drop_last=True)


def test_replaced_clips_are_the_same_on_any_number_of_threads_and_stand_in_the_ledger(plan):
    broken = {"clip_window.mp4", "vfr_steps.mp4"}
    runs = []
    for threads in (1, 4):
        with loader_of(plan, engine=BrokenEngine(broken), threads=threads) as loader:
            runs.append(facts(loader))
            assert {Path(f.uri).name for f in loader.failures} == broken
            assert {f.reason for f in loader.failures} == {"decode"}
    assert runs[0] == runs[1]
    for clip, video, _, valid, _ in runs[0]:
        assert all(valid)
        assert not {Path(plan.videos[v].uri).name for v in video} & broken, clip


def test_skipped_clips_keep_their_place_and_are_not_valid(plan):
    with loader_of(plan, engine=BrokenEngine({"clip_window.mp4"}), on_error="skip") as loader:
        batches = list(loader)
    assert [p for b in batches for p in b.clip.tolist()] == list(range(24))
    for batch in batches:
        for row, video in enumerate(batch.video.tolist()):
            broken = Path(plan.videos[video].uri).name == "clip_window.mp4"
            assert bool(batch.is_valid[row]) is not broken
            assert not broken or not batch.frames[row].any()
            assert not broken or batch.frame_index[row].tolist() == [-1] * 4


def test_raise_names_video_and_frame(plan):
    told = pytest.raises(DecodeError, match=r"clip_window\.mp4: frame \d+: broken on purpose")
    with loader_of(plan, engine=BrokenEngine({"clip_window.mp4"}), on_error="raise") as loader, told:
        list(loader)


def test_vanished_changed_and_cut_files_are_failures_with_their_reason(own_plan):
    files = {Path(v.uri).name: Path(v.uri) for v in own_plan.videos}
    files["clip_window.mp4"].unlink()
    files["vfr_steps.mp4"].write_bytes(files["vfr_steps.mp4"].read_bytes() + b"x")
    cut = files["mkv_no_cues.mkv"]
    facts_before = cut.stat()
    with cut.open("r+b") as file:
        file.truncate(facts_before.st_size // 4)
    os.utime(cut, ns=(facts_before.st_atime_ns, facts_before.st_mtime_ns))
    with loader_of(own_plan, on_error="skip") as loader:
        list(loader)
    reasons = {Path(f.uri).name: f.reason for f in loader.failures}
    assert reasons["clip_window.mp4"] == "vanished"
    assert reasons["vfr_steps.mp4"] == "stale"
    assert reasons["mkv_no_cues.mkv"] == "stale"
    assert set(reasons) == {"clip_window.mp4", "vfr_steps.mp4", "mkv_no_cues.mkv"}


def test_max_failures_ends_the_run_and_counts_by_reason(plan):
    engine = BrokenEngine({"clip_window.mp4", "vfr_steps.mp4"})
    told = pytest.raises(TooManyFailuresError, match=r"max_failures is 3 \(\d decode\)")
    with loader_of(plan, engine=engine, on_error="skip", max_failures=3) as loader, told:
        list(loader)


def test_a_plan_of_which_every_video_fails_ends_with_a_clear_error(plan):
    engine = BrokenEngine({Path(v.uri).name for v in plan.videos})
    with loader_of(plan, engine=engine) as loader, pytest.raises(DecodeError, match="replacements all failed"):
        list(loader)


def test_an_error_of_ours_is_not_taken_for_a_bad_clip(plan):
    engine = BrokenEngine({"clip_window.mp4"}, ZeroDivisionError("a bug"))
    with loader_of(plan, engine=engine) as loader, pytest.raises(ZeroDivisionError):
        list(loader)


def test_a_thread_that_dies_ends_the_run_with_its_error(plan):
    dying = BrokenEngine({"clip_window.mp4"}, SystemExit(3))
    with loader_of(plan, engine=dying) as loader, pytest.raises(SystemExit):
        list(loader)


def test_leaving_early_and_closing_leave_no_thread_behind(plan):
    before = threading.active_count()
    loader = loader_of(plan, threads=4, prefetch=4)
    for _ in loader:
        break
    loader.close()
    loader.close()
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="closed"):
        iter(loader)


def test_an_abandoned_iterator_does_not_disturb_the_next(plan):
    with loader_of(plan) as loader:
        abandoned = iter(loader)
        next(abandoned)
        second = facts(loader)
    with loader_of(plan) as loader:
        loader.set_epoch(1)
        assert facts(loader) == second
    with pytest.raises(RuntimeError, match="began another"):
        next(abandoned)


def test_ctrl_c_ends_the_process(tmp_path):
    code = (
        "import os, signal, threading\n"
        "from pathlib import Path\n"
        "import sys; sys.path.insert(0, 'tests')\n"
        "from clip_videos import small_plan\n"
        "from vidprep.loaders import ClipLoader\n"
        f"loader = ClipLoader(small_plan(Path({str(tmp_path)!r})), batch_size=2, size=(16, 16), output='numpy')\n"
        "for n, batch in enumerate(loader):\n"
        "    if n == 2: os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True, check=False,
                          cwd=Path(__file__).parent.parent)  # fmt: skip
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode != 0


@pytest.fixture(scope="module")
def ten_bit_plan():
    """Clips of 6 frames of a 10-bit video of 60, of which two are beyond its end."""
    video = as_video(CASES / "h264_10bit.mp4")
    last = video.table.num_frames - 1
    policy = FrameList(frames=(0, 7, last - 1, last, last + 1, last + 2), pad="constant", fill_value=(255, 0, 1))
    return Plan([video, video], policy, seed=1, shuffle=False)


@pytest.mark.parametrize("output", ["numpy", "dlpack"])
def test_uint16_keeps_what_ten_bit_videos_have(ten_bit_plan, output):
    with ClipLoader(ten_bit_plan, batch_size=2, dtype="uint16", output=output) as loader:
        (batch,) = loader
    frames = np.from_dlpack(batch.frames) if output == "dlpack" else batch.frames
    assert frames.dtype == np.uint16
    want = read_frames(ten_bit_plan.videos[0], batch.frame_index[0][:4], engine="cpu", dtype="uint16")
    assert np.array_equal(frames[0][:4], want)
    assert (want % 257 != 0).any()
    assert (frames[:, 4:] == np.array([65535, 0, 257])).all()
    assert batch.is_padding.tolist() == [[False] * 4 + [True] * 2] * 2


def test_uint16_goes_through_the_whole_graph(ten_bit_plan):
    from nvidia.dali import fn

    def flip(frames):
        return fn.flip(frames, horizontal=1)

    options = {"size": (36, 64), "layout": "FCHW", "batch_size": 2, "output": "numpy", "transform": flip}
    with ClipLoader(ten_bit_plan, dtype="uint16", **options) as wide, ClipLoader(ten_bit_plan, **options) as narrow:
        (sixteen,), (eight,) = wide, narrow
    assert sixteen.frames.dtype == np.uint16
    assert sixteen.frames.shape == eight.frames.shape == (2, 6, 3, 36, 64)
    assert np.abs(sixteen.frames / 257 - eight.frames).max() <= 2
    assert np.abs(sixteen.frames / 257 - eight.frames).max() > 0


def test_a_clip_that_is_missing_is_black_in_uint16_too(ten_bit_plan):
    class Broken(CpuEngine):
        def decode(self, cut):
            raise DecodeError("broken on purpose", uri=cut.uri)

    options = {"batch_size": 1, "dtype": "uint16", "output": "numpy", "on_error": "skip"}
    with ClipLoader(ten_bit_plan, engine=Broken(dtype="uint16"), **options) as loader:
        for batch in loader:
            assert (batch.frames.dtype, batch.frames.max(), batch.is_valid.tolist()) == (np.uint16, 0, [False])
    with pytest.raises(ValueError, match="this engine gives uint8"):
        ClipLoader(ten_bit_plan, engine=CpuEngine(), **options)


def test_without_a_size_clips_that_differ_come_as_a_list(plan):
    with ClipLoader(plan, batch_size=24, output="numpy") as loader:
        (batch,) = loader
    assert len(batch.frames) == 24
    assert all(frames.shape[0] == 4 for frames in batch.frames)


def test_dlpack_output_is_taken_by_any_library(plan):
    with loader_of(plan, output="dlpack") as loader, loader_of(plan) as same:
        for mine, theirs in zip(loader, same, strict=True):
            assert np.array_equal(np.from_dlpack(mine.frames), theirs.frames)


def test_stats_count_what_was_consumed_and_name_the_bottleneck(plan):
    with loader_of(plan) as loader:
        list(loader)
        stats = loader.stats()
    assert stats["clips"] == 24
    assert stats["frames"] == 96
    assert stats["pictures"] >= 96
    assert stats["bytes_read"] > 0
    assert stats["failures"] == 0
    assert stats["bottleneck"].endswith(".")


def test_earlier_batches_keep_their_pixels_while_later_ones_are_made(plan):
    with loader_of(plan) as loader:
        batches = [(b, b.frames.copy()) for b in loader]
    assert all(np.array_equal(batch.frames, copy) for batch, copy in batches)


@pytest.mark.parametrize(("option", "value"), [("on_error", "ignore"), ("output", "jax"), ("engine", "gpu"),
                                               ("device", "tpu"), ("layout", "HWC"), ("dtype", "int8"),
                                               ("size", (0, 5))])  # fmt: skip
def test_options_that_make_no_sense_are_refused_by_name(plan, option, value):
    with pytest.raises(ValueError, match=option if option != "device" else "tpu"):
        loader_of(plan, **{option: value})


def test_importing_loaders_loads_nothing_heavy():
    code = (
        "import sys, vidprep.loaders\n"
        "heavy = {'av', 'torch', 'nvidia', 'pyarrow', 'PyNvVideoCodec', 'tqdm'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent.parent)


def test_a_bad_file_among_good_ones_costs_its_own_clips_only(own_plan):
    bad = Path(own_plan.videos[0].uri)
    before = bad.stat()
    bad.write_bytes(bytes(before.st_size))
    os.utime(bad, ns=(before.st_atime_ns, before.st_mtime_ns))
    with loader_of(own_plan, on_error="skip") as loader:
        valid = {int(v): bool(ok) for b in loader for v, ok in zip(b.video, b.is_valid, strict=True)}
    assert valid == {v: v != 0 for v in range(8)}
    with pytest.raises((DecodeError, MediaError)), loader_of(own_plan, on_error="raise") as loader:
        list(loader)


def test_the_ledger_that_a_run_writes_keeps_its_videos_out_of_the_next(tmp_path):
    copied_videos(tmp_path / "videos")
    build_index([str(tmp_path / "videos")], str(tmp_path / "index"), workers=1)
    index = open_index(tmp_path / "index")
    (tmp_path / "videos" / "open_gop.mp4").unlink()
    with ClipLoader(Plan(index, FIRST, seed=1), batch_size=2, size=(16, 16), output="numpy") as loader:
        list(loader)
        assert loader.write_failures(tmp_path / "failed.parquet") == len(loader.failures) == 1
    left = index.without(tmp_path / "failed.parquet")
    assert len(left) == len(index) - 1
    with ClipLoader(Plan(left, FIRST, seed=1), batch_size=2, size=(16, 16), output="numpy") as loader:
        list(loader)
        assert not len(loader.failures)


def test_a_state_of_the_whole_index_is_refused_by_the_index_without_failures(tmp_path):
    copied_videos(tmp_path / "videos")
    build_index([str(tmp_path / "videos")], str(tmp_path / "index"), workers=1)
    index = open_index(tmp_path / "index")
    with ClipLoader(Plan(index, FIRST, seed=1), batch_size=2, size=(16, 16), output="numpy") as loader:
        next(iter(loader))
        state = loader.state_dict()
    left = index.without([index[0].uri])
    with ClipLoader(Plan(left, FIRST, seed=1), batch_size=2, size=(16, 16), output="numpy") as loader:
        with pytest.raises(SamplingError, match="another index"):
            loader.load_state_dict(state)
        loader.load_state_dict(state, allow={"index"})


def test_an_index_without_a_usable_row_is_an_error_before_the_first_batch(tmp_path):
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "text.mp4").write_text("no video")
    build_index([str(tmp_path / "videos")], str(tmp_path / "index"), workers=1)
    for index in (open_index(tmp_path / "index"), open_index(tmp_path / "index").where(status="ok")):
        with pytest.raises(SamplingError):
            ClipLoader(Plan(index, FIRST, seed=1), batch_size=2, output="numpy")


def test_a_policy_that_refuses_every_video_is_an_error_not_a_hang(plan):
    never = Plan(plan.videos, RandomClip(frames=100_000, pad="error"), seed=1)
    with pytest.raises((SamplingError, DecodeError)):
        list(loader_of(never))


def test_progress_is_told_on_stderr_and_only_by_rank_0(plan, capsys):
    with loader_of(plan, progress=True) as loader:
        list(loader)
    assert "epoch 0: 100%" in capsys.readouterr().err
    with loader_of(plan, progress=True, rank=1, world_size=2) as loader:
        list(loader)
    assert not capsys.readouterr().err


def test_untagged_pictures_take_the_colour_default_for_their_matrix(tmp_path):
    video = as_video(make_video(tmp_path / "coloured.mp4", frames=12, options=X264))
    assert video.info.colour_matrix is None
    coloured = Plan([video], FIRST, seed=1)
    plain = epoch_facts(coloured)
    assert epoch_facts(coloured, colour_default="bt601") == plain
    assert epoch_facts(coloured, colour_default="bt709") != plain


def test_buckets_of_one_resolution_give_stacked_batches_without_a_size(tmp_path):
    names = ("clip_window.mp4", "vfr_steps.mp4", "open_gop.mp4", "mkv_no_cues.mkv", "odd_size.webm", "rotate90.mp4")
    copied_videos(tmp_path / "videos", names)
    build_index([str(tmp_path / "videos")], str(tmp_path / "index"), workers=1)
    plan = Plan(open_index(tmp_path / "index"), FIRST, seed=1, buckets=["resolution"], batch_size=2, clips_per_video=3)
    assert len(plan.buckets) > 1
    with ClipLoader(plan, batch_size=2, output="numpy") as loader:
        shapes = {batch.frames.shape for batch in loader}
    assert len(shapes) == len(plan.buckets)


class NoDistributed:
    """torch.distributed as far as the loader asks it."""

    def __init__(self, world_size, counts):
        self.world_size, self.counts = world_size, counts

    def is_available(self):
        return True

    is_initialized = is_available

    def get_world_size(self):
        return self.world_size

    def all_gather_object(self, out, mine):
        out[:] = [*self.counts, mine]


def test_failures_of_all_ranks_together_are_counted_at_the_end_of_an_epoch(plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed", NoDistributed(2, [5]))
    engine = BrokenEngine({"clip_window.mp4", "vfr_steps.mp4", "open_gop.mp4"})
    options = {"engine": engine, "on_error": "skip", "max_failures": 8, "rank": 1, "world_size": 2}
    with loader_of(plan, **options) as loader:
        with pytest.raises(TooManyFailuresError, match="clips failed"):
            list(loader)
        assert len(loader.failures) <= 8  # its own alone are within the limit
    with loader_of(plan, **{**options, "rank": 0, "world_size": 1, "max_failures": 9}) as loader:
        list(loader)  # a loader of one rank in a run of two: no waiting for ranks that do not take part


def flipped(clips):
    from nvidia.dali import fn

    return fn.flip(clips, horizontal=1)


def cropped_at_random(clips):
    from nvidia.dali import fn

    return fn.random_resized_crop(clips, size=(16, 20), seed=3)


def normalised(clips):
    return (clips - 128.0) / 64.0


def test_transform_flips_every_frame_of_a_clip(plan):
    with loader_of(plan) as plain, loader_of(plan, transform=flipped) as other:
        for want, got in zip(plain, other, strict=True):
            assert np.array_equal(want.frames[:, :, :, ::-1], got.frames)


def test_a_random_resized_crop_is_the_same_for_all_frames_of_a_clip(plan):
    still = Plan(plan.videos, FrameList(frames=[0, 0, 0, 0]), seed=1)
    with loader_of(still, transform=cropped_at_random) as loader:
        batches = list(loader)
    for batch in batches:
        assert batch.frames.shape[1:] == (4, 16, 20, 3)
        assert (batch.frames == batch.frames[:, :1]).all()


@pytest.mark.parametrize(("layout", "order"), [("FCHW", (0, 1, 4, 2, 3)), ("CFHW", (0, 4, 1, 2, 3))])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_normalised_frames_come_in_any_layout_and_precision(plan, layout, order, dtype):
    with loader_of(plan) as plain, loader_of(plan, layout=layout, dtype=dtype, transform=normalised) as other:
        want, got = next(iter(plain)).frames, next(iter(other)).frames
    assert got.dtype == np.dtype(dtype)
    assert np.allclose(got, ((want.astype(np.float32) - 128) / 64).transpose(order), atol=2e-3)


@pytest.mark.timeout(240)
def test_cpu_and_dali_engines_give_the_same_batches(tmp_path):
    options = {"cpu-used": "8", "deadline": "realtime"}
    paths = [make_video(tmp_path / f"{n}.webm", codec="libvpx-vp9", frames=24, options=options) for n in range(3)]
    videos = copied_videos(tmp_path / "cases", ("vp9_altref.webm", "vp8_altref.webm"))
    two = Plan([*map(as_video, paths), *videos], RandomClip(frames=4, stride=2, pad="edge"), seed=1, clips_per_video=2)
    with loader_of(two, engine="cpu", size=None) as one, loader_of(two, engine="dali", size=None) as other:
        for mine, theirs in zip(one, other, strict=True):
            assert mine.clip.tolist() == theirs.clip.tolist()
            assert np.array_equal(mine.frame_index, theirs.frame_index)
            assert all(
                np.abs(ours.astype(int) - his).max() <= 2 for ours, his in zip(mine.frames, theirs.frames, strict=True)
            )


def test_stats_tell_what_waits_in_the_queues(plan):
    with loader_of(plan, threads=2, prefetch=2) as loader:
        batches = iter(loader)
        next(batches)
        stats = loader.stats()
        assert 0 <= stats["batches_waiting"] <= 2
        assert 0 <= stats["clips_waiting"] <= 3 + 2
        assert 0 <= stats["wait_share"] <= 1
        assert stats["fallbacks"] == 0
        list(batches)
        assert loader.stats()["clips_waiting"] == 0
