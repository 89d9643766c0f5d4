"""The loader's stream as a callable for `fn.external_source` in a pipeline of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vidprep.loaders import arguments, ranks, requirements
from vidprep.loaders.batches import assemble, pixels
from vidprep.loaders.clip_source import ClipSource, Place
from vidprep.loaders.engines.choose import choose_engine, default_threads
from vidprep.loaders.failures import POLICIES, FailureLedger
from vidprep.loaders.outputs import to_device
from vidprep.loaders.pipeline import check_gpu, device_ordinal, import_dali
from vidprep.loaders.readahead import Background, Ordered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vidprep.loaders.batches import LoadedClip
    from vidprep.loaders.engines import Engine

#: What comes out, in this order: the `output_map` of a DALIGenericIterator.
OUTPUT_NAMES = ("frames", "pts_seconds", "frame_index", "is_padding", "is_valid", "video", "clip")
_DTYPES = ("UINT8", "FLOAT64", "INT64", "BOOL", "BOOL", "INT64", "INT64")
_LAYOUTS = ("FHWC", "", "", "", "", "", "")

Outputs = tuple[list[Any], ...]


class DaliSource:
    """Gives one batch a call, and StopIteration after each epoch; the next call begins the next epoch.

    Which clips make which batch is as `ClipLoader` has it: a function of (seed, epoch, position). DALI's own prefetch
    asks ahead, so that this object knows what DALI took, not what the training loop did; to resume at a place, use
    `ClipLoader`.

    Args:
        plan: a `vidprep.samplers.Plan`.
        batch_size: clips in a batch of one rank; the pipeline's too.
        rank: as ClipLoader.
        world_size: as ClipLoader.
        device: "cpu", or "cuda:0".
        engine: as ClipLoader.
        on_error: as ClipLoader.
        max_failures: as ClipLoader, of this rank.
        drop_last: as ClipLoader.
        prefetch: batches of decoded clips that wait for DALI.
        threads: as ClipLoader.
        colour_default: as ClipLoader.
    """

    def __init__(
        self, plan: Any, *, batch_size: int, rank: int | None = None, world_size: int | None = None,
        device: str = "cpu", engine: str | Engine = "auto", on_error: str = "replace", max_failures: int | None = None,
        drop_last: bool = False, prefetch: int = 1, threads: int | None = None, colour_default: str | None = None,
    ) -> None:  # fmt: skip
        arguments.plan_of_clips(plan)
        arguments.choice("on_error", on_error, POLICIES)
        batch_size = arguments.integer("batch_size", batch_size, 1, arguments.MAX_BATCH_SIZE)
        prefetch = arguments.integer("prefetch", prefetch, 1, arguments.MAX_PREFETCH)
        if threads is not None:
            threads = arguments.integer("threads", threads, 1, arguments.MAX_THREADS)
        device = str(device)
        if device_ordinal(device) is not None:
            requirements.check_installed(["torch"])
            check_gpu(device)
        self._plan, self._device, self._prefetch = plan, device, prefetch
        rank, world_size = ranks.resolve(rank, world_size)
        self._places = (batch_size, rank, world_size, drop_last)
        next(self._batches())  # a plan without a batch is an error now
        arguments.check_batch_fits(plan, batch_size=batch_size, size=None, pixel_bytes=3)
        self._engine = choose_engine(engine, device, colour_default=colour_default)
        self._owns_engine = isinstance(engine, str)
        self._threads = threads or default_threads(self._engine)
        self._source = ClipSource(plan, self._engine, on_error)
        self._running: Background[list[LoadedClip]] | None = None
        self._epoch, self._closed = 0, False
        self.failures = FailureLedger(max_failures)

    def __call__(self) -> Outputs:
        """The next batch: one list of samples for each of OUTPUT_NAMES. Raises StopIteration after an epoch."""
        if self._closed:
            raise RuntimeError("the source is closed")
        if self._running is None:
            ahead = self._read_ahead(self._epoch)
            self._running = Background(self._loaded(ahead), self._prefetch, cancel=ahead.cancel)
        clips = next(self._running, None)
        if clips is None:
            self.set_epoch(self._epoch + 1)
            raise StopIteration
        self.failures.add(failure for clip in clips for failure in clip.failures)
        return self._samples(clips)

    def __len__(self) -> int:
        """Batches of an epoch."""
        batch_size, _, world_size, drop_last = self._places
        return int(self._plan.num_batches(batch_size, world_size, drop_last=drop_last))

    def outputs(self) -> dict[str, Any]:
        """DataNodes by name, inside a pipeline definition; on a GPU all of them lie there."""
        dali = import_dali()
        nodes = dali.fn.external_source(
            source=self,
            num_outputs=len(OUTPUT_NAMES),
            batch=True,
            device="cpu" if self._device == "cpu" else "gpu",
            dtype=[getattr(dali.types, name) for name in _DTYPES],
            layout=list(_LAYOUTS),
        )
        return dict(zip(OUTPUT_NAMES, nodes, strict=True))

    def set_epoch(self, epoch: int) -> None:
        """The next call gives the first batch of this epoch."""
        if self._running is not None:
            self._running.close()
            self._running = None
        self._epoch = epoch

    def close(self) -> None:
        """Stop threads, free decoders; twice is harmless."""
        self._closed = True
        self.set_epoch(self._epoch)
        if self._owns_engine:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _batches(self) -> Iterator[Any]:
        batch_size, rank, world_size, drop_last = self._places
        batches: Iterator[Any] = self._plan.batches(batch_size, rank, world_size, drop_last=drop_last)
        return batches

    def _read_ahead(self, epoch: int) -> Ordered[Any, LoadedClip]:
        places = (
            Place(epoch, place, repeats)
            for batch in self._batches()
            for place, repeats in zip(batch.positions.tolist(), batch.is_repeat.tolist(), strict=True)
        )
        return self._source.ahead(places, threads=self._threads, depth=self._places[0] + self._threads)

    def _loaded(self, clips: Ordered[Any, LoadedClip]) -> Iterator[list[LoadedClip]]:
        try:
            for batch in self._batches():
                yield [next(clips) for _ in batch.positions]
        finally:
            clips.close()

    def _samples(self, clips: list[LoadedClip]) -> Outputs:
        batch = assemble(clips, to_device(pixels(clips, None), self._device))
        return tuple([np.asarray(v) if name != "frames" else v for v in getattr(batch, name)] for name in OUTPUT_NAMES)
