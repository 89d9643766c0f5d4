"""The loader's stream inside a DALI pipeline of one's own."""

from __future__ import annotations

import importlib.util
import threading

import numpy as np
import pytest
from clip_videos import small_plan

from vidprep.errors import SamplingError
from vidprep.loaders import ClipLoader
from vidprep.loaders.dali_source import OUTPUT_NAMES, DaliSource

pytestmark = [pytest.mark.dali, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return small_plan(tmp_path_factory.mktemp("videos"))


def built(source, batch_size=4, **options):
    from nvidia.dali import Pipeline, fn

    pipe = Pipeline(batch_size=batch_size, num_threads=1, device_id=None, exec_dynamic=True, **options)
    with pipe:
        out = source.outputs()
        out["frames"] = fn.resize(out["frames"], resize_y=32, resize_x=40, mode="not_smaller", antialias=True)
        out["frames"] = fn.crop(out["frames"], crop=(32, 40))
        pipe.set_outputs(*(out[name] for name in OUTPUT_NAMES))
    pipe.build()
    return pipe


def epoch_of(pipe):
    batches = []
    while True:
        try:
            outputs = pipe.run()
        except StopIteration:
            pipe.reset()
            return batches
        batches.append({k: np.asarray(v.as_tensor()) for k, v in zip(OUTPUT_NAMES, outputs, strict=True)})


def test_the_stream_is_that_of_the_loader_epoch_after_epoch(plan):
    with DaliSource(plan, batch_size=4) as source, ClipLoader(
        plan, batch_size=4, size=(32, 40), output="numpy"
    ) as loader:  # fmt: skip
        pipe = built(source)
        for _ in range(2):
            theirs, mine = epoch_of(pipe), list(loader)
            assert len(theirs) == len(mine) == len(source)
            for got, want in zip(theirs, mine, strict=True):
                for name in OUTPUT_NAMES:
                    assert np.array_equal(got[name], getattr(want, name), equal_nan=name == "pts_seconds"), name


def test_ranks_share_the_epoch_and_a_smaller_last_batch_comes_through(plan):
    seen = []
    for rank in range(2):
        with DaliSource(plan, batch_size=5, rank=rank, world_size=2) as source:
            for batch in epoch_of(built(source, 5)):
                seen += batch["clip"][batch["is_valid"]].tolist()
    assert sorted(seen) == list(range(24))


def test_closing_in_mid_epoch_leaves_no_thread(plan):
    before = threading.active_count()
    source = DaliSource(plan, batch_size=4)
    source()
    source.close()
    source.close()
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="closed"):
        source()


def test_a_plan_without_a_batch_is_an_error_at_once(plan):
    with pytest.raises(SamplingError):
        DaliSource(plan, batch_size=100, drop_last=True)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_dali_generic_iterator_gives_the_names(plan):
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    with DaliSource(plan, batch_size=4) as source:
        batches = DALIGenericIterator(built(source), list(OUTPUT_NAMES), auto_reset=True)
        seen = [p for (batch,) in batches for p in batch["clip"].flatten().tolist()]
    assert seen == list(range(24))
