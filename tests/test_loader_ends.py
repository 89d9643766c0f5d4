"""How a loader ends, in good order and in bad: states, abandoned iterations, threads, kills, videos that go away."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from clip_videos import small_plan

from vidprep.errors import SamplingError, VidprepError
from vidprep.loaders import ClipLoader
from vidprep.loaders.engines.cpu import CpuEngine
from vidprep.samplers import First, RandomClip
from vidprep.samplers.plan import Plan

ROOT = Path(__file__).parent.parent

pytestmark = [pytest.mark.dali, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return small_plan(tmp_path_factory.mktemp("videos"))


@pytest.fixture
def own_plan(tmp_path):
    return small_plan(tmp_path)


@pytest.fixture(autouse=True)
def no_thread_is_left_behind():
    before = threading.active_count()
    yield
    gc.collect()
    assert threading.active_count() <= before  # one of an earlier test may have ended meanwhile


def loader_of(plan, **options):
    return ClipLoader(plan, **{"batch_size": 3, "size": (16, 20), "output": "numpy", **options})


def facts(batches):
    return [(b.clip.tolist(), b.video.tolist(), b.is_valid.tolist(), b.frames.tobytes()) for b in batches]


def each(batches, work):
    for batch in batches:
        work(batch)


# --- states -----------------------------------------------------------------------------------------------------------


def test_a_state_of_a_later_epoch_goes_on_in_that_epoch(plan):
    with loader_of(plan) as loader:
        loader.set_epoch(5)
        whole = facts(loader)
        loader.set_epoch(5)
        batches = iter(loader)
        next(batches), next(batches)
        state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (5, 6)
    with loader_of(plan) as resumed:
        resumed.load_state_dict(state)
        assert facts(resumed) == whole[2:]
        list(resumed)
        assert resumed.state_dict()["epoch"] == 6


def test_a_state_before_the_first_batch_begins_the_epoch(plan):
    with loader_of(plan) as loader, loader_of(plan, batch_size=4) as other:
        other.load_state_dict(loader.state_dict())  # no place was taken: the batch size may change
        assert next(iter(other)).clip.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 5), (1, 4), (4, 1)])
def test_another_number_of_ranks_goes_on_without_loss_or_repeat(plan, drop_last, before, after):
    options = {"batch_size": 2, "drop_last": drop_last}
    seen = []
    for rank in range(before):
        with loader_of(plan, rank=rank, world_size=before, **options) as loader:
            batches = iter(loader)
            seen += next(batches).clip.tolist() + next(batches).clip.tolist()
            state = loader.state_dict()
    counts = []
    for rank in range(after):
        with loader_of(plan, rank=rank, world_size=after, **options) as loader:
            loader.load_state_dict(state)
            rest = list(loader)
            counts.append(len(rest))
            seen += [int(p) for b in rest for p in b.clip[b.is_valid]]
    assert len(set(counts)) == 1
    left_out = (24 - 4 * before) % (2 * after) if drop_last else 0
    assert sorted(seen) == list(range(24 - left_out))


def test_a_state_after_the_last_whole_batch_of_drop_last_leads_to_the_next_epoch(plan):
    with loader_of(plan, batch_size=5, drop_last=True) as loader:
        batches = iter(loader)
        for _ in range(4):
            next(batches)
        state = loader.state_dict()
        batches.close()
        loader.set_epoch(1)
        second = facts(loader)
    with loader_of(plan, batch_size=5, drop_last=True) as resumed:
        resumed.load_state_dict(state)
        assert facts(resumed) == second


@pytest.mark.parametrize(
    ("change", "told"),
    [({"position": -3}, "does not exist"), ({"position": 25}, "does not exist"), ({"epoch": -1}, "does not exist"),
     ({"position": 4.5}, "not a loader state"), ({"position": "3"}, "not a loader state"),
     ({"position": None}, "not a loader state"), ({"version": 2}, "version 2")],
)  # fmt: skip
def test_a_state_that_makes_no_sense_is_refused(plan, change, told):
    with loader_of(plan) as loader:
        state = {**loader.state_dict(), **change}
        with pytest.raises(SamplingError, match=told):
            loader.load_state_dict(state)
        assert len(list(loader)) == 8


def test_a_state_of_a_longer_plan_is_an_error_even_if_another_index_is_allowed(plan):
    short = Plan(plan.videos, plan.policy, seed=7)
    with loader_of(plan) as loader, loader_of(short) as other:
        loader.load_state_dict({**loader.state_dict(), "position": 9})
        with pytest.raises(SamplingError, match="place 9 of 8 does not exist"):
            other.load_state_dict(loader.state_dict(), allow={"index"})


@pytest.mark.parametrize("allow", ["index", {"indexes"}, ["batch_size", "all"]])
def test_an_allowance_that_does_not_exist_is_refused(plan, allow):
    with loader_of(plan) as loader, pytest.raises(ValueError, match="allow"):
        loader.load_state_dict(loader.state_dict(), allow=allow)


def test_a_negative_epoch_is_refused(plan):
    with loader_of(plan) as loader, pytest.raises(ValueError, match="epoch=-1"):
        loader.set_epoch(-1)


def test_a_batch_larger_than_the_epoch_is_one_smaller_batch(plan):
    for world_size in (1, 5):
        seen = []
        for rank in range(world_size):
            with loader_of(plan, batch_size=100, rank=rank, world_size=world_size) as loader:
                (batch,) = loader
                seen += batch.clip[batch.is_valid].tolist()
        assert sorted(seen) == list(range(24))


def test_more_ranks_than_clips_give_every_rank_one_batch(plan):
    few = Plan(plan.videos[:2], First(frames=2), seed=1)
    valid = []
    for rank in range(5):
        with loader_of(few, batch_size=2, rank=rank, world_size=5) as loader:
            (batch,) = loader
            valid += batch.clip[batch.is_valid].tolist()
    assert sorted(valid) == [0, 1]


def test_an_empty_plan_is_an_error_at_once():
    with pytest.raises(SamplingError, match="0 clips"):
        loader_of(Plan([], First(frames=2), seed=1))


# --- iterations -------------------------------------------------------------------------------------------------------


def test_two_iterations_of_one_loader_at_once_are_an_error_not_a_short_epoch(plan):
    with loader_of(plan) as loader, pytest.raises(RuntimeError, match="began another"):
        list(zip(loader, loader, strict=True))


def test_an_iteration_of_which_nothing_was_taken_does_not_count(plan):
    with loader_of(plan) as loader:
        first = facts(loader)
        loader.set_epoch(0)
        iter(loader)
        iter(loader)
        assert loader.state_dict()["epoch"] == 0
        assert facts(loader) == first
        iter(loader)
        next(iter(loader))
        assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (1, 3)


def test_an_iteration_that_is_over_does_not_move_the_state(plan):
    with loader_of(plan) as loader:
        old = iter(loader)
        next(old)
        new = iter(loader)
        next(new)
        state = loader.state_dict()
        with pytest.raises(RuntimeError, match="began another"):
            next(old)
        assert loader.state_dict() == state
        with pytest.raises(StopIteration):
            next(old)


def test_closing_inside_the_loop_is_told(plan):
    with loader_of(plan) as loader, pytest.raises(RuntimeError, match="closed"):
        each(loader, lambda _: loader.close())


def test_iterations_that_are_dropped_leave_nothing_behind(plan):
    loader = loader_of(plan)
    iter(loader)
    batches = iter(loader)
    next(batches)
    del batches, loader  # the fixture looks


def test_a_loop_that_ends_by_an_error_leaves_nothing_behind(plan):
    loader = loader_of(plan)
    with pytest.raises(KeyError):
        each(loader, lambda _: {}["no such key"])
    loader.close()


def test_two_loaders_side_by_side_give_what_each_gives_alone(plan):
    with loader_of(plan) as loader:
        alone = facts(loader)
    with loader_of(plan) as one, loader_of(plan, batch_size=1) as other:
        ours, theirs = [], []
        others = iter(other)
        for batch in one:
            ours.append(batch)
            theirs += [next(others), next(others), next(others)]
    assert facts(ours) == alone
    assert [p for b in theirs for p in b.clip.tolist()] == list(range(24))


def test_a_loader_made_in_one_thread_serves_another(plan):
    made, found = [], []
    for work in (lambda: made.append(loader_of(plan)), lambda: found.extend(facts(made[0])), lambda: made[0].close()):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    with loader_of(plan) as loader:
        assert found == facts(loader)


class GatedEngine(CpuEngine):
    """Decodes nothing before the gate is opened; counts what has begun."""

    def __init__(self):
        super().__init__()
        self.gate, self.begun = threading.Event(), 0

    def decode(self, cut):
        self.begun += 1
        self.gate.wait()
        return super().decode(cut)


def test_closing_waits_for_the_clips_in_work_only_not_for_their_batch(plan):
    engine = GatedEngine()
    loader = loader_of(plan, engine=engine, threads=2, batch_size=12)
    batches = iter(loader)
    failed = []

    def consume():
        try:
            next(batches)
        except RuntimeError as error:
            failed.append(str(error))

    consumer = threading.Thread(target=consume)
    consumer.start()
    closing = threading.Thread(target=loader.close)
    closing.start()
    pool = loader._clips._pool
    while not pool._shutdown:
        closing.join(0.01)
    with pool._shutdown_lock:  # what has not begun is cancelled by now
        pass
    engine.gate.set()
    closing.join()
    consumer.join()
    assert engine.begun <= 2
    assert "closed" in failed[0]


class ClosableEngine(CpuEngine):
    is_closed = False

    def close(self):
        self.is_closed = True


def test_an_engine_that_was_given_is_left_to_its_owner(plan):
    engine = ClosableEngine()
    with loader_of(plan, engine=engine) as one, loader_of(plan, engine=engine) as other:
        list(one)
        one.close()
        assert not engine.is_closed
        assert len(list(other)) == 8
    assert not engine.is_closed


def too_large_a_crop(clips):
    from nvidia.dali import fn

    return fn.crop(clips, crop=(500, 500))


def test_a_transform_that_fails_on_the_pixels_ends_each_epoch_with_its_error(plan):
    with loader_of(plan, transform=too_large_a_crop) as loader:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"(?i)crop"):
                list(loader)


def test_a_transform_that_fails_when_it_is_called_ends_the_constructor(plan):
    with pytest.raises(ZeroDivisionError):
        loader_of(plan, transform=lambda clips: 1 // 0)


# --- videos that go away ----------------------------------------------------------------------------------------------


def test_all_videos_vanish_in_mid_epoch(own_plan):
    def unlink_all(_):
        for video in own_plan.videos:
            Path(video.uri).unlink(missing_ok=True)

    with loader_of(own_plan, threads=1, prefetch=1) as loader, pytest.raises(VidprepError, match="no longer there"):
        each(loader, unlink_all)
    with loader_of(own_plan, on_error="skip") as loader:
        batches = list(loader)
        assert not any(b.is_valid.any() for b in batches)
        assert [p for b in batches for p in b.clip.tolist()] == list(range(24))
        assert loader.failures.counts() == {"vanished": 24}


def test_a_state_survives_videos_that_vanish(own_plan):
    with loader_of(own_plan, on_error="skip") as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        batches.close()
    Path(own_plan.videos[3].uri).unlink()
    with loader_of(own_plan, on_error="skip") as loader:
        loader.load_state_dict(state)
        rest = list(loader)
    assert [p for b in rest for p in b.clip.tolist()] == list(range(3, 24))
    assert {int(v) for b in rest for v in b.video[~b.is_valid]} <= {3}


# --- kills ------------------------------------------------------------------------------------------------------------

RUN = """
import hashlib, json, os, sys
from pathlib import Path
sys.path.insert(0, "tests")
from test_loader_ends import damaged_plan, loader_of
folder, on_error, log = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
with loader_of(damaged_plan(folder), on_error=on_error, prefetch=3, threads=3) as loader:
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    if lines:
        loader.load_state_dict(lines[-1]["state"])
    with log.open("a") as file:
        for _ in range(2 - loader.state_dict()["epoch"]):
            for batch in loader:
                print(json.dumps({
                    "clip": batch.clip.tolist(), "valid": batch.is_valid.tolist(), "video": batch.video.tolist(),
                    "pixels": hashlib.sha256(batch.frames.tobytes()).hexdigest(), "state": loader.state_dict(),
                }), file=file, flush=True)
                print("batch", flush=True)
                sys.stdin.readline()  # at its end where nobody will answer
"""


def damaged_plan(folder):
    """8 videos; one is cut short behind an unchanged clock, the payload of another is gone, a third has vanished."""
    if (folder / "videos.made").exists():
        from vidprep.indexes import open_index

        return Plan(open_index(folder / "index"), POLICY, seed=7, clips_per_video=4)
    from clip_videos import copied_videos

    from vidprep.indexes import build_index, open_index

    copied_videos(folder / "videos")
    build_index([str(folder / "videos")], str(folder / "index"), workers=1)
    for name, damage in (("open_gop.mp4", lambda data: data[: len(data) // 2]),
                         ("clip_window.mp4", lambda data: bytes(len(data)))):  # fmt: skip
        path = folder / "videos" / name
        before = path.stat()
        path.write_bytes(damage(path.read_bytes()))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "videos" / "mkv_no_cues.mkv").unlink()
    (folder / "videos.made").touch()
    return Plan(open_index(folder / "index"), POLICY, seed=7, clips_per_video=4)


POLICY = RandomClip(frames=4, stride=2, pad="edge")


def start(folder, on_error, log, stdin=subprocess.DEVNULL):
    command = [sys.executable, "-c", RUN, str(folder), on_error, str(log)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=pipe, stderr=pipe, text=True)


def lines_of(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("on_error", ["replace", "skip"])
def test_killed_in_mid_epoch_and_resumed_the_batches_are_those_of_an_undisturbed_run(tmp_path, on_error):
    damaged_plan(tmp_path)
    whole, killed = tmp_path / "whole.log", tmp_path / "killed.log"
    with start(tmp_path, on_error, whole) as process:
        assert process.wait(100) == 0, process.stderr.read()
    for batches in (2, 5, 1):
        with start(tmp_path, on_error, killed, subprocess.PIPE) as process:
            for _ in range(batches):  # each batch is answered: on a busy machine it would be over before it is killed
                assert process.stdout.readline() == "batch\n"
                print(file=process.stdin, flush=True)
            process.send_signal(signal.SIGKILL)
            assert process.wait(20) == -signal.SIGKILL
    with start(tmp_path, on_error, killed) as process:
        assert process.wait(100) == 0, process.stderr.read()
    assert lines_of(killed) == lines_of(whole)
    valid = [ok for line in lines_of(whole) for ok in line["valid"]]
    assert all(valid) is (on_error == "replace")
    assert len(valid) == 2 * 32


def test_with_raise_the_first_bad_clip_ends_every_run_at_the_same_place(tmp_path):
    plan = damaged_plan(tmp_path)
    told = []
    for threads in (1, 4):
        with loader_of(plan, on_error="raise", threads=threads) as loader:
            with pytest.raises(VidprepError) as caught:
                list(loader)
            told.append((str(caught.value), loader.state_dict()))
    assert told[0] == told[1]


def test_frames_that_were_handed_out_live_on_after_the_loader(plan):
    with loader_of(plan) as loader:
        kept = [batch.frames for batch in loader]
        copies = [frames.copy() for frames in kept]
    del loader
    gc.collect()
    assert all(np.array_equal(frames, copy) for frames, copy in zip(kept, copies, strict=True))
