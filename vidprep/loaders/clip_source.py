"""One place of an epoch → pixels: plan, cut, decode, spread; with replacements for clips that cannot be had."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from vidprep.errors import DecodeError, MediaError, SamplingError, VidprepError
from vidprep.loaders.batches import LoadedClip, spread
from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.failures import MAX_REPLACEMENTS, Failure, failure_of

if TYPE_CHECKING:
    from vidprep.loaders.engines import Engine

#: Errors that are the clip's fault; all others are ours or the user's, and end the run.
CLIP_ERRORS = (MediaError, DecodeError, SamplingError)

#: Stands for the video of a place at which the policy refused to choose a clip.
NO_VIDEO = -1


class ClipSource:
    """Loads single clips; shared by all reading threads.

    Args:
        plan: the plan.
        engine: decodes cuts.
        on_error: "replace", "skip" or "raise".
    """

    def __init__(self, plan: Any, engine: Engine, on_error: str) -> None:
        self._plan = plan
        self._engine = engine
        self._on_error = on_error

    def load(self, epoch: int, position: int) -> LoadedClip:
        """The clip of a place.

        Raises:
            DecodeError, MediaError, SamplingError: the clip cannot be had (`on_error="raise"`), or none of
                MAX_REPLACEMENTS replacements can.
        """
        failures: list[Failure] = []
        for attempt in range(MAX_REPLACEMENTS + 1):
            planned = None
            try:
                planned = self._planned(epoch, position, attempt)
                return self._decoded(position, planned, failures)
            except CLIP_ERRORS as error:
                if self._on_error == "raise":
                    raise
                failures.append(self._failure(error, planned, epoch, position))
                if self._on_error == "skip":
                    return _missing(position, planned, failures)
        raise DecodeError(
            f"epoch {epoch}, place {position}: the clip and {MAX_REPLACEMENTS} replacements all failed; "
            f"the last: {failures[-1].uri}: {failures[-1].message}"
        )

    def _planned(self, epoch: int, position: int, attempt: int) -> Any:
        if attempt == 0:
            return self._plan.clip(epoch, position)
        return self._plan.replacement(epoch, position, attempt)

    def _decoded(self, position: int, planned: Any, failures: list[Failure]) -> LoadedClip:
        began = time.perf_counter()
        video, spec = planned.media, planned.spec
        with open_indexed(video) as source:
            cut = read_cut(video, source, spec.unique_frames)
        read = time.perf_counter()
        frames = spread(self._engine.decode(cut), cut.frames, spec)
        return LoadedClip(
            position=position,
            video=planned.video,
            frames=frames,
            spec=spec,
            labels=planned.labels,
            num_bytes_read=cut.num_bytes_read,
            num_pictures=len(cut.packets),
            read_seconds=read - began,
            decode_seconds=time.perf_counter() - read,
            failures=tuple(failures),
        )

    def _failure(self, error: VidprepError, planned: Any, epoch: int, position: int) -> Failure:
        uri = getattr(error, "uri", None) or (planned.uri if planned else "")
        video = planned.video if planned else NO_VIDEO
        return failure_of(error, uri=uri, video=video, epoch=epoch, position=position)


def _missing(position: int, planned: Any, failures: list[Failure]) -> LoadedClip:
    return LoadedClip(
        position=position,
        video=planned.video if planned else NO_VIDEO,
        frames=None,
        is_missing=True,
        spec=planned.spec if planned else None,
        labels=planned.labels if planned else {},
        failures=tuple(failures),
    )
