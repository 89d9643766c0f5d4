"""`ClipLoader`: batches of clips for a training loop, deterministic, resumable, on any number of ranks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from vidprep.loaders import arguments, ranks, requirements
from vidprep.loaders.batches import ClipBatch, LoadedClip, assemble, pixels
from vidprep.loaders.clip_source import FETCHES_IN_FLIGHT, ClipSource, Place
from vidprep.loaders.engines.choose import choose_engine, default_threads, graph_threads
from vidprep.loaders.failures import POLICIES, FailureLedger
from vidprep.loaders.outputs import OUTPUTS, converted, to_device
from vidprep.loaders.pipeline import ClipPipeline, GraphOptions, check_gpu, device_ordinal
from vidprep.loaders.pixels import waiting_bytes
from vidprep.loaders.progress import ProgressBar
from vidprep.loaders.readahead import Background, Depth, Ordered
from vidprep.loaders.state import checked_state, to_state
from vidprep.loaders.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike
    from types import TracebackType

    from vidprep.loaders.engines import Engine
    from vidprep.loaders.pipeline import Transform
    from vidprep.samplers.ranks import RankBatch

    Placed = tuple[int, list[LoadedClip], Any]  # place to resume from, clips without pixels, pixels


#: Clips for each thread that may wait behind one that takes longer than they did, where memory allows.
WAITING_PER_THREAD = 2


class ClipLoader:
    """Iterating gives one epoch of `ClipBatch`.

    Each `iter()` starts an epoch: the one that `load_state_dict` or `set_epoch` named, else the one after the last of
    which a batch was taken. Leaving the loop early is fine; `state_dict()` then still says how far it went.

    Which clips make which batch depends on (seed, epoch, position) alone: not on threads, prefetch, engine or the
    number of ranks. Memory in flight: `prefetch` + 1 batches in output form and `batch_size` + `threads` decoded clips;
    two more for each thread as far as they fit into a twelfth of the GPU's memory (2 GiB on a CPU).

    Args:
        plan: a `vidprep.samplers.Plan`.
        batch_size: clips in a batch of one rank, at most 65536.
        rank: this process's number; None = torch.distributed's if that is initialised, else 0.
        world_size: number of processes; None = as rank.
        device: "cpu", or "cuda:0".
        size: (height, width) of the frames, each at most 32768; None = as decoded, clips that differ then come as a list.
        size_mode: "crop" (cover, then cut out the middle) or "stretch".
        engine: "cpu", "dali", "nvdec", or an object with `decode(cut)`, which several loaders may share and whoever made
            it closes; "auto" = nvdec on a GPU, else cpu.
        output: "torch", "numpy" or "dlpack" (objects with __dlpack__, for JAX and others).
        layout: "FHWC", "FCHW" or "CFHW", behind the batch axis.
        dtype: "uint8", "float16" or "float32"; "uint16" (engines cpu and nvdec) keeps what videos of more than 8 bits
            have: 0 to 65535, whatever their bit depth.
        transform: a function of the DALI DataNode of clips (FHWC; uint8, or uint16 if that is `dtype`), applied after
            the resize.
        on_error: what becomes of a clip that cannot be had. "replace": another, chosen by the plan;
            "skip": its place stays, `is_valid` False; "raise": its error.
        max_failures: more failed clips than this raise TooManyFailuresError: of this rank at once, of all ranks
            together at the end of the epoch. None = no limit.
        drop_last: leave out what does not make a whole batch for every rank; else the last batch is smaller, and filled
            up with clips from the beginning of the epoch, `is_valid` False, so that all ranks get as many.
        prefetch: finished batches that wait for the consumer, at most 1024.
        threads: threads that read, cut and decode, at most 1024; None = a number that suits engine and machine. From an
            object store 32 threads more read ahead of them, and hold as many clips' bytes.
        colour_default: matrix of pictures that are not tagged: "bt601" (None too), "bt709", "bt2020"; for engines that
            are given by name.
        progress: show batches, rate and waiting on stderr, on rank 0.

    Raises:
        MissingDependencyError: DALI, or what engine or output need, is not installed; names all that is missing.
        ArgumentError: an argument is none that is allowed, or a batch is larger than this machine's memory.
        SamplingError: the plan has no clips, or fewer than one batch for each rank.
    """

    def __init__(
        self,
        plan: Any,
        *,
        batch_size: int,
        rank: int | None = None,
        world_size: int | None = None,
        device: str = "cpu",
        size: tuple[int, int] | None = None,
        size_mode: str = "crop",
        engine: str | Engine = "auto",
        output: str = "torch",
        layout: str = "FHWC",
        dtype: str = "uint8",
        transform: Transform | None = None,
        on_error: str = "replace",
        max_failures: int | None = None,
        drop_last: bool = False,
        prefetch: int = 2,
        threads: int | None = None,
        colour_default: str | None = None,
        progress: bool = False,
    ) -> None:
        arguments.plan_of_clips(plan)
        arguments.choice("on_error", on_error, POLICIES)
        arguments.choice("output", output, OUTPUTS)
        batch_size = arguments.integer("batch_size", batch_size, 1, arguments.MAX_BATCH_SIZE)
        prefetch = arguments.integer("prefetch", prefetch, 1, arguments.MAX_PREFETCH)
        if threads is not None:
            threads = arguments.integer("threads", threads, 1, arguments.MAX_THREADS)
        if max_failures is not None:
            max_failures = arguments.integer("max_failures", max_failures, 0)
        self._options = GraphOptions(size=size, size_mode=size_mode, transform=transform, layout=layout, dtype=dtype)
        size, device = self._options.size, str(device)
        device_ordinal(device)
        requirements.check_installed(requirements.of_loader(engine=engine, device=device, output=output))
        check_gpu(device)
        self._rank, self._world_size = ranks.resolve(rank, world_size)
        self._batch_size, self._drop_last = batch_size, drop_last
        self._plan, self._device, self._size, self._output = plan, device, size, output
        next(self._batches(0))  # a plan without a batch is an error now
        self._prefetch = prefetch
        arguments.check_batch_fits(plan, batch_size=batch_size, size=size, pixel_bytes=self._options.pixel_bytes)
        self._engine = choose_engine(engine, device, dtype=self._options.decoded_dtype, colour_default=colour_default)
        self._owns_engine = isinstance(engine, str)
        self._threads = threads or default_threads(self._engine)
        least = batch_size + self._threads
        self._depth = Depth(least, least + WAITING_PER_THREAD * self._threads, waiting_bytes(device))
        self._source = ClipSource(plan, self._engine, on_error)
        self._pipeline = ClipPipeline(
            batch_size=batch_size,
            device=device,
            options=self._options,
            num_threads=graph_threads(device, self._threads),
        )
        self._statistics = Statistics()
        self._shows_progress = progress and self._rank == 0
        self._epoch, self._position, self._next_epoch = 0, 0, 0
        self._running: Background[Placed] | None = None
        self._clips: Ordered[Any, LoadedClip] | None = None
        self._closed = False
        self.failures = FailureLedger(max_failures)

    def __iter__(self) -> Iterator[ClipBatch]:
        """One epoch."""
        if self._closed:
            raise RuntimeError("the loader is closed")
        self._stop()
        if self._next_epoch != self._epoch:
            self._epoch, self._position = self._next_epoch, 0
        self._statistics.start()
        self._clips = self._read_ahead(self._epoch, self._position)
        placed = self._placed(self._clips, self._position)
        self._running = Background(placed, self._prefetch, cancel=self._clips.cancel)
        batches = self._consume(self._running)
        next(batches)
        return batches

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch."""
        return self._num_batches(0)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from its beginning."""
        epoch = arguments.integer("epoch", epoch, 0)
        self._stop()
        self._epoch, self._position, self._next_epoch = epoch, 0, epoch

    def state_dict(self) -> dict[str, Any]:
        """Where the consumer is, as JSON values; batches in flight do not count.

        Equal on all ranks that consumed the same number of batches, and fit for any number of ranks.
        """
        return to_state(
            epoch=self._epoch,
            position=self._position,
            batch_size=self._batch_size,
            fingerprint=self._fingerprint,
            num_positions=self._plan.num_positions,
        )

    def load_state_dict(self, state: Mapping[str, Any], *, allow: frozenset[str] | set[str] = frozenset()) -> None:
        """The next iteration goes on where the state was saved.

        Args:
            state: what `state_dict` gave, on any number of ranks.
            allow: differences to accept: "index" (or plan), "batch_size" (in mid-epoch).

        Raises:
            SamplingError: the state does not fit.
            ArgumentError: `allow` names something else.
        """
        epoch, position = checked_state(
            state,
            batch_size=self._batch_size,
            fingerprint=self._fingerprint,
            num_positions=self._plan.num_positions,
            allow=frozenset(allow),
        )
        self._stop()
        if self._num_batches(position) == 0:  # the epoch was over
            epoch, position = epoch + 1, 0
        self._epoch, self._position, self._next_epoch = epoch, position, epoch

    def stats(self) -> dict[str, Any]:
        """Counts, rates, the share of time that the consumer waited, and the bottleneck in one sentence."""
        return self._statistics.report(
            threads=self._threads,
            readers=FETCHES_IN_FLIGHT if self._source.is_remote else self._threads,
            batches_waiting=self._running.num_waiting if self._running else 0,
            clips_waiting=self._clips.num_ready if self._clips else 0,
            fallbacks=getattr(self._engine, "num_fallbacks", 0),
            failures=len(self.failures),
        )

    def write_failures(self, path: str | PathLike[str]) -> int:
        """Write this rank's failures so far as Parquet; `open_index(...).without(path)` leaves those videos out.

        Args:
            path: one file for each rank; `without` takes a folder of them.

        Returns:
            number of failures.
        """
        from vidprep.indexes.failed import write_failures

        return write_failures(self.failures.rows(), path)

    def close(self) -> None:
        """Stop threads, free decoders and GPU memory; twice is harmless."""
        self._closed = True
        self._stop()
        if self._owns_engine:
            self._engine.close()
        self._pipeline.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _fingerprint(self) -> str:
        return str(self._plan.fingerprint)

    def _num_batches(self, position: int) -> int:
        count = self._plan.num_batches(
            self._batch_size, self._world_size, drop_last=self._drop_last, start=position
        )  # fmt: skip
        return int(count)

    def _batches(self, position: int) -> Iterator[RankBatch]:
        """This rank's places, batch by batch, from a place of the epoch on."""
        batches: Iterator[RankBatch] = self._plan.batches(
            self._batch_size, self._rank, self._world_size, drop_last=self._drop_last, start=position
        )
        return batches

    def _stop(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    def _consume(self, running: Background[Placed]) -> Iterator[ClipBatch]:
        """Hand out finished batches; the position moves with each, before the consumer has it.

        The first value is none: once it is taken, dropping the iterator runs `finally`, and nothing is left behind.
        """
        bar = self._bar()
        try:
            yield None  # type: ignore[misc]  # taken by __iter__
            while (placed := self._wait(running)) is not None:
                end, clips, frames = placed
                self._statistics.add_clips(clips)
                self.failures.add(failure for clip in clips for failure in clip.failures)
                batch = assemble(clips, converted(frames, self._output))
                self._position, self._next_epoch = end, self._epoch + 1
                bar.step()
                yield batch
            self._position = self._plan.num_positions
            if self.failures.is_limited:
                self.failures.check(ranks.total(len(self.failures), self._world_size, self._device))
        finally:
            bar.close()
            running.close()

    def _bar(self) -> ProgressBar:
        total = self._num_batches(self._position)
        return ProgressBar(f"epoch {self._epoch}", total, self.stats, is_shown=self._shows_progress)

    def _wait(self, running: Background[Placed]) -> Placed | None:
        began = time.perf_counter()
        placed = next(running, None)
        self._statistics.add_seconds("wait", time.perf_counter() - began)
        return placed

    def _read_ahead(self, epoch: int, position: int) -> Ordered[Any, LoadedClip]:
        """The clips of this rank, from a place of an epoch on."""
        places = (
            Place(epoch, place, repeats)
            for batch in self._batches(position)
            for place, repeats in zip(batch.positions.tolist(), batch.is_repeat.tolist(), strict=True)
        )
        return self._source.ahead(places, threads=self._threads, depth=self._depth)

    def _placed(self, clips: Ordered[Any, LoadedClip], position: int) -> Iterator[Placed]:
        """Batches of loaded clips with their finished pixels, from a place of an epoch on."""
        try:
            for batch in self._batches(position):
                loaded = [next(clips) for _ in batch.positions]
                self._depth.see(max(getattr(clip.frames, "nbytes", 0) for clip in loaded))
                yield batch.end, [clip.without_pixels() for clip in loaded], self._finished(loaded)
        finally:
            clips.close()

    def _finished(self, clips: Sequence[LoadedClip]) -> Any:
        began = time.perf_counter()
        frames = self._pipeline.run(to_device(pixels(clips, self._size, self._options.decoded_dtype), self._device))
        self._statistics.add_seconds("graph", time.perf_counter() - began)
        return frames
