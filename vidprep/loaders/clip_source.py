"""One place of an epoch → pixels: plan, cut, decode, spread; with replacements for clips that cannot be had."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from vidprep.errors import DecodeError, MediaError, SamplingError, VidprepError
from vidprep.loaders.batches import LoadedClip, spread
from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.failures import MAX_REPLACEMENTS, Failure, failure_of
from vidprep.loaders.readahead import ordered
from vidprep.loaders.statistics import FETCHES_IN_FLIGHT, Statistics
from vidprep.sources.open import is_remote

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from vidprep.loaders.cut import Cut
    from vidprep.loaders.engines import Engine

#: Errors that are the clip's fault; all others are ours or the user's, and end the run.
CLIP_ERRORS = (MediaError, DecodeError, SamplingError)

#: Stands for the video of a place at which the policy refused to choose a clip.
NO_VIDEO = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A place of an epoch and the bytes of its clip; nothing is decoded yet."""

    epoch: int
    position: int
    attempt: int
    """0 = the clip itself; n = its n-th replacement"""
    planned: Any
    failures: list[Failure]
    cut: Cut | None = None
    """None where the clip could not be had"""
    error: VidprepError | None = None
    """to be raised where the clip is due"""


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

    @property
    def is_remote(self) -> bool:
        """Whether bytes come with a delay, as far as the first video tells."""
        return len(self._plan.videos) > 0 and is_remote(getattr(self._plan.videos[0], "uri", ""))

    def load(self, epoch: int, position: int) -> LoadedClip:
        """The clip of a place.

        Raises:
            DecodeError, MediaError, SamplingError: the clip cannot be had (`on_error="raise"`), or none of
                MAX_REPLACEMENTS replacements can.
        """
        return self.decode(self.fetch(epoch, position))

    def clips(
        self,
        places: Iterable[tuple[int, int]],
        *,
        threads: int,
        depth: int,
        statistics: Statistics | None = None,
    ) -> Generator[LoadedClip, None, None]:
        """The clips of places (epoch, position) in their order, loaded ahead by threads.

        Bytes that come with a delay are fetched by FETCHES_IN_FLIGHT threads more, so that decoding does not wait.

        Args:
            places: in the order in which clips are wanted.
            threads: that decode.
            depth: clips that may be decoded and not yet taken.
            statistics: told how long fetching and decoding take, and of each clip that is ready.
        """
        statistics = statistics or Statistics()

        def fetch(place: tuple[int, int]) -> Fetched:
            with statistics.timed("fetch"):
                return self.fetch(*place)

        def load(place: tuple[int, int] | Fetched) -> LoadedClip:
            with statistics.timed("read and decode"):
                clip = self.decode(place) if isinstance(place, Fetched) else self.load(*place)
            statistics.add_waiting(1)
            return clip

        if not self.is_remote:
            yield from ordered(load, places, threads=threads, depth=depth)
            return
        with closing(ordered(fetch, places, threads=FETCHES_IN_FLIGHT, depth=FETCHES_IN_FLIGHT)) as fetched:
            yield from ordered(load, fetched, threads=threads, depth=depth)

    def fetch(self, epoch: int, position: int) -> Fetched:
        """The bytes of the clip of a place, or of its first replacement that can be read. Raises none of CLIP_ERRORS."""
        return self._fetch(epoch, position, 0, [])

    def decode(self, fetched: Fetched) -> LoadedClip:
        """The pixels; another clip is fetched where these bytes cannot be decoded. Raises as `load`."""
        while (cut := fetched.cut) is not None:
            try:
                return self._decoded(fetched, cut)
            except CLIP_ERRORS as error:
                if self._on_error == "raise":
                    raise
                failure = self._failure(error, fetched.planned, fetched.epoch, fetched.position)
            failures = [*fetched.failures, failure]
            if self._on_error == "skip":
                return _missing(fetched.position, fetched.planned, failures)
            fetched = self._fetch(fetched.epoch, fetched.position, fetched.attempt + 1, failures)
        if fetched.error is not None:
            raise fetched.error
        return _missing(fetched.position, fetched.planned, fetched.failures)

    def _fetch(self, epoch: int, position: int, first: int, failures: list[Failure]) -> Fetched:
        """From a given attempt on; `failures` is added to."""
        fetched = partial(Fetched, epoch=epoch, position=position, failures=failures)
        for attempt in range(first, MAX_REPLACEMENTS + 1):
            planned = None
            try:
                planned = self._planned(epoch, position, attempt)
                return fetched(attempt=attempt, planned=planned, cut=self._read(planned))
            except CLIP_ERRORS as error:
                if self._on_error == "raise":
                    return fetched(attempt=attempt, planned=planned, error=error)
                failures.append(self._failure(error, planned, epoch, position))
                if self._on_error == "skip":
                    return fetched(attempt=attempt, planned=planned)
        given_up = DecodeError(
            f"epoch {epoch}, place {position}: the clip and {MAX_REPLACEMENTS} replacements all failed; "
            f"the last: {failures[-1].uri}: {failures[-1].message}"
        )
        return fetched(attempt=MAX_REPLACEMENTS, planned=None, error=given_up)

    def _planned(self, epoch: int, position: int, attempt: int) -> Any:
        if attempt == 0:
            return self._plan.clip(epoch, position)
        return self._plan.replacement(epoch, position, attempt)

    def _read(self, planned: Any) -> Cut:
        video = self._plan.videos[planned.video]
        with open_indexed(video) as source:
            return read_cut(video, source, planned.spec.unique_frames)

    def _decoded(self, fetched: Fetched, cut: Cut) -> LoadedClip:
        planned, spec = fetched.planned, fetched.planned.spec
        return LoadedClip(
            position=fetched.position,
            video=planned.video,
            frames=spread(self._engine.decode(cut), cut.frames, spec),
            spec=spec,
            labels=planned.labels,
            num_bytes_read=cut.num_bytes_read,
            num_pictures=len(cut.packets),
            failures=tuple(fetched.failures),
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
