"""The loader under Lightning, which moves batches by their `to` and keeps `state_dict` in its checkpoints."""

from __future__ import annotations

import pytest
from clip_videos import small_plan

from vidprep.loaders import ClipLoader

lightning = pytest.importorskip("lightning", reason="lightning is not installed")
pytestmark = [pytest.mark.dali, pytest.mark.timeout(200), pytest.mark.filterwarnings("ignore")]

STOP_AT_STEP = 11


def made_module(seen):
    import torch

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def training_step(self, batch, _):
            seen.append((batch.clip.tolist(), batch.video.tolist(), batch.frame_index.tolist()))
            return self.layer(batch.frames.float().mean((1, 2, 3)) / 255).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-3)

    return Module()


class SaveAndStop(lightning.Callback):
    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == STOP_AT_STEP:
            trainer.save_checkpoint(self.path)
            raise InterruptedError


def fit(plan, folder, *callbacks, checkpoint=None):
    """What the module saw over two epochs."""
    seen = []
    trainer = lightning.Trainer(
        max_epochs=2, callbacks=list(callbacks), accelerator="cpu", use_distributed_sampler=False, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    with ClipLoader(plan, batch_size=3, size=(16, 16)) as loader:
        try:
            trainer.fit(made_module(seen), train_dataloaders=loader, ckpt_path=checkpoint)
        except InterruptedError:
            assert callbacks
    return seen


def test_a_run_that_is_resumed_from_a_checkpoint_in_mid_epoch_sees_the_rest(tmp_path):
    plan = small_plan(tmp_path / "videos")
    whole = fit(plan, tmp_path)
    with ClipLoader(plan, batch_size=3, size=(16, 16)) as loader:
        plain = [(b.clip.tolist(), b.video.tolist(), b.frame_index.tolist()) for _ in range(2) for b in loader]
    assert whole == plain
    path = tmp_path / "mid.ckpt"
    assert fit(plan, tmp_path, SaveAndStop(path)) == whole[:STOP_AT_STEP]
    assert fit(plan, tmp_path, checkpoint=path) == whole[STOP_AT_STEP:]
