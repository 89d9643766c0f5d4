"""For those who keep torch's DataLoader: its workers read cuts, a DALI Proxy server in the main process decodes them.

    dali = import_proxy()
    with dali.DALIServer(clip_pipeline(batch_size=8, device="cuda:0", size=(224, 224))) as server:
        data = ClipDataset(plan, server.proxy, device="cuda:0")
        for batch in dali.DataLoader(server, data, batch_sampler=PlanBatches(plan, batch_size=8), num_workers=4):
            train(batch["frames"])

With torch's own DataLoader it is `train(server.produce_data(batch)["frames"])`.

What DALI's decoder makes of the pictures: RGB by the BT.601 matrix, limited range, with its own interpolation of
chroma. Streams for which that is wrong are refused, unless `colours="dali"`; exact colours are ClipLoader's.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import ArgumentError, DecodeError, SamplingError
from vidprep.loaders import arguments
from vidprep.loaders.clip_source import ClipSource
from vidprep.loaders.colour import DEFAULT_MATRIX, DEFAULT_RANGE
from vidprep.loaders.engines.dali import H273_MATRICES, refusal
from vidprep.loaders.engines.leading import without_leading
from vidprep.loaders.engines.superframes import several_reason
from vidprep.loaders.mp4_writer import cut_to_mp4
from vidprep.loaders.pipeline import GraphOptions, device_ordinal, import_dali, shaped
from vidprep.loaders.requirements import check_installed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vidprep.loaders.clip_source import Fetched
    from vidprep.loaders.cut import Cut
    from vidprep.loaders.pipeline import Transform
    from vidprep.samplers.spec import DecodeSpec
    from vidprep.timebase import IntArray

#: Names of the pipeline's inputs: the file, the distinct frames in it, and which of them stands at each place.
INPUTS = ("file", "frames", "gather")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClipFile:
    """A clip before decoding: an MP4 file of the packets that it needs."""

    position: int
    video: int
    file: Any
    """uint8 (bytes,)"""
    frames: Any
    """int32 (U,): the distinct wanted frames, counted in the file"""
    gather: Any
    """int32 (F,): which of them stands at each place"""
    spec: DecodeSpec
    labels: Mapping[str, Any]


class ClipDataset:
    """A map-style torch Dataset: (epoch, position) → a sample whose "frames" the proxy's server will decode.

    Samples are mappings with frames, pts_seconds, frame_index, is_padding, video, clip, and labels where the plan has a
    clips table. A clip that cannot be read is replaced as `ClipLoader` replaces it; one that DALI fails to decode ends
    the epoch with DALI's error, since the server decodes whole batches.

    Args:
        plan: a `vidprep.samplers.Plan`, without constant padding.
        proxy: `DALIServer.proxy` of a pipeline with the INPUTS.
        device: where the server decodes: "cpu" (VP8, VP9 and Motion JPEG only) or "cuda:0".
        on_error: "replace" or "raise".
        colours: "strict" refuses streams whose colours DALI would get wrong, "dali" takes them as they come.
    """

    def __init__(
        self, plan: Any, proxy: Any, *, device: str = "cpu", on_error: str = "replace", colours: str = "strict"
    ) -> None:
        arguments.plan_of_clips(plan)
        arguments.choice("on_error", on_error, ("replace", "raise"))
        arguments.choice("colours", colours, ("strict", "dali"))
        device_ordinal(device)
        self._proxy = proxy
        self._plan = plan
        self._source = CutSource(plan, on_error, device, is_strict=colours == "strict")

    def __len__(self) -> int:
        return int(self._plan.num_positions)

    def __getitem__(self, place: tuple[int, int] | int) -> dict[str, Any]:
        """The sample of (epoch, position); of epoch 0 where only a position is given."""
        epoch, position = place if isinstance(place, tuple) else (0, place)
        clip: Any = self._source.load(epoch, position)
        sample = {
            "frames": self._proxy(**{name: getattr(clip, name) for name in INPUTS}),
            "pts_seconds": np.asarray(clip.spec.pts_seconds),
            "frame_index": np.asarray(clip.spec.frame_index),
            "is_padding": np.asarray(clip.spec.is_padding),
            "video": clip.video,
            "clip": position,
        }
        return {**sample, "labels": dict(clip.labels)} if clip.labels else sample


class PlanBatches:
    """The batch sampler: lists of (epoch, position), one epoch for each iteration.

    Args:
        plan: the plan.
        batch_size: clips in a batch of one rank.
        rank: this process's number.
        world_size: number of processes.
        drop_last: leave out what makes no whole batch for every rank.
    """

    def __init__(
        self, plan: Any, *, batch_size: int, rank: int = 0, world_size: int = 1, drop_last: bool = False
    ) -> None:
        self._plan, self._places, self._drop_last = plan, (batch_size, rank, world_size), drop_last
        self._next_epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch."""
        self._next_epoch = epoch

    def __len__(self) -> int:
        batch_size, _, world_size = self._places
        return int(self._plan.num_batches(batch_size, world_size, drop_last=self._drop_last))

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, self._next_epoch = self._next_epoch, self._next_epoch + 1
        for batch in self._plan.batches(*self._places, drop_last=self._drop_last):
            yield [(epoch, place) for place in batch.positions.tolist()]


class CutSource(ClipSource):
    """Loads clips as far as their MP4 file."""

    def __init__(self, plan: Any, on_error: str, device: str, *, is_strict: bool) -> None:
        super().__init__(plan, None, on_error)  # type: ignore[arg-type]  # nothing is decoded here
        self._device, self._is_strict = device, is_strict

    def _read(self, planned: Any) -> Cut:
        spec = planned.spec
        if not len(spec) or bool((spec.frame_index < 0).any()):
            raise SamplingError(
                "constant padding and empty clips cannot pass DALI Proxy; pad='edge', or use ClipLoader"
            )
        self._check(planned.media)
        return super()._read(planned)

    def _decoded(self, fetched: Fetched, cut: Cut) -> Any:
        planned, spec = fetched.planned, fetched.planned.spec
        if (reason := several_reason(cut)) is not None:
            raise DecodeError(reason, uri=cut.uri)
        file, frames = cut_to_mp4(without_leading(cut))
        return ClipFile(
            position=fetched.position,
            video=planned.video,
            file=np.frombuffer(file, np.uint8),
            frames=frames.astype(np.int32),
            gather=_gather(cut.frames, spec.frame_index),
            spec=spec,
            labels=planned.labels,
        )

    def _check(self, video: Any) -> None:
        info = video.info
        reason = refusal(dataclasses.replace(info, colour_matrix=None), self._device)
        if reason is None and self._is_strict:
            reason = _wrong_colours(info)
        if reason is not None:
            raise DecodeError(reason, uri=video.uri)


def import_proxy() -> Any:
    """`nvidia.dali.plugin.pytorch.experimental.proxy`, with DALIServer and DataLoader.

    It marks its steps for profilers with NVTX, which torch has in its CUDA builds only; in others the marks are left
    out, as they would otherwise end the run.

    Raises:
        MissingDependencyError: DALI or torch is not installed.
    """
    check_installed(("nvidia.dali", "torch"))
    import torch
    from nvidia.dali.plugin.pytorch.experimental import proxy

    if torch.version.cuda is None:
        proxy._nvtx = NoMarks  # noqa: SLF001 - there is no other way to run it without CUDA
    return proxy


class NoMarks:
    """Stands for torch.cuda.nvtx where there is none."""

    @staticmethod
    def range_push(_: str) -> None:
        """Mark nothing."""

    @staticmethod
    def range_pop() -> None:
        """Mark nothing."""


def clip_pipeline(
    *, batch_size: int, device: str = "cpu", size: tuple[int, int] | None = None, size_mode: str = "crop",
    layout: str = "FHWC", dtype: str = "uint8", transform: Transform | None = None, num_threads: int = 2,
    prefetch: int = 2,
) -> Any:  # fmt: skip
    """A DALI pipeline with the INPUTS and one output, for a DALIServer. Arguments as ClipLoader's.

    Raises:
        ArgumentError: an argument is none that is allowed.
        MissingDependencyError: DALI is not installed.
    """
    dali = import_dali()
    batch_size = arguments.integer("batch_size", batch_size, 1, arguments.MAX_BATCH_SIZE)
    prefetch = arguments.integer("prefetch", prefetch, 1, arguments.MAX_PREFETCH)
    num_threads = arguments.integer("num_threads", num_threads, 1, arguments.MAX_THREADS)
    options = GraphOptions(size=size, size_mode=size_mode, transform=transform, layout=layout, dtype=dtype)
    if options.decoded_dtype != "uint8":
        raise ArgumentError(f"dtype={dtype!r}: DALI decodes to uint8; ClipLoader has it")
    pipe = dali.Pipeline(
        batch_size=batch_size, num_threads=num_threads, device_id=device_ordinal(device), exec_dynamic=True,
        prefetch_queue_depth=prefetch,
    )  # fmt: skip
    with pipe:
        file, frames, gather = (
            dali.fn.external_source(name=name, no_copy=True, ndim=1, dtype=dtype)
            for name, dtype in zip(INPUTS, (dali.types.UINT8, dali.types.INT32, dali.types.INT32), strict=True)
        )
        pipe.set_outputs(shaped(dali, decoded(file, frames, gather, device=device), options))
    return pipe


def decoded(file: Any, frames: Any, gather: Any, *, device: str) -> Any:
    """The DataNode of clips (FHWC uint8) from DataNodes of the INPUTS, for a pipeline of one's own."""
    fn = import_dali().fn
    pictures = fn.decoders.video(file, device="cpu" if device == "cpu" else "mixed", frames=frames, pad_mode="none")
    return fn.sequence_rearrange(pictures, new_order=gather)


def _gather(have: IntArray, want: Any) -> Any:
    return np.searchsorted(have, np.asarray(want)).astype(np.int32)


def _wrong_colours(info: Any) -> str | None:
    matrix, colour_range = info.colour_matrix or DEFAULT_MATRIX, info.colour_range or DEFAULT_RANGE
    if H273_MATRICES.get(matrix) in (H273_MATRICES["bt601"], H273_MATRICES["bt470bg"]) and colour_range == "limited":
        return None
    return f'DALI converts with BT.601, limited range; this is {matrix}, {colour_range} (colours="dali" takes it so)'
