"""One place of an epoch → pixels: plan, cut, decode, spread; with replacements for clips that cannot be had."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from vidprep.errors import DecodeError, MediaError, SamplingError, VidprepError
from vidprep.loaders.batches import LoadedClip, spread
from vidprep.loaders.cut import open_indexed, read_cut
from vidprep.loaders.failures import MAX_REPLACEMENTS, Failure, failure_of
from vidprep.loaders.readahead import Depth, Ordered
from vidprep.sources.open import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vidprep.loaders.cut import Cut
    from vidprep.loaders.engines import Engine

#: Errors that are the clip's fault; all others are ours or the user's, and end the run.
CLIP_ERRORS = (MediaError, DecodeError, SamplingError)

#: Stands for the video of a place at which the policy refused to choose a clip.
NO_VIDEO = -1


#: Clips whose bytes are fetched from an object store at the same time, ahead of the threads that decode.
FETCHES_IN_FLIGHT = 32


class Place(NamedTuple):
    """A place of an epoch that wants a clip."""

    epoch: int
    position: int
    is_repeat: bool = False
    """it fills up the last batch"""


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
    read_seconds: float = 0.0


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
        return self.decode(self.fetch(epoch, position))

    def ahead(self, places: Iterable[Place], *, threads: int, depth: int | Depth) -> Ordered[Any, LoadedClip]:
        """The clips of places in their order, loaded by threads before they are asked for.

        Bytes that come with a delay are fetched by FETCHES_IN_FLIGHT threads more, so that decoding does not wait.

        Args:
            places: in the order in which clips are wanted.
            threads: that decode.
            depth: clips that may be decoded and not yet taken.
        """
        if not self.is_remote:
            return Ordered(self._load_place, places, threads=threads, depth=depth)
        fetched = Ordered(self._fetch_place, places, threads=FETCHES_IN_FLIGHT, depth=FETCHES_IN_FLIGHT)
        return Ordered(self._decode_place, fetched, threads=threads, depth=depth)

    @property
    def is_remote(self) -> bool:
        """Whether bytes come with a delay, as far as the first video tells."""
        return len(self._plan.videos) > 0 and is_remote(getattr(self._plan.videos[0], "uri", ""))

    def _load_place(self, place: Place) -> LoadedClip:
        clip = self.load(place.epoch, place.position)
        return clip.as_filler() if place.is_repeat else clip

    def _fetch_place(self, place: Place) -> tuple[Place, Fetched]:
        return place, self.fetch(place.epoch, place.position)

    def _decode_place(self, found: tuple[Place, Fetched]) -> LoadedClip:
        clip = self.decode(found[1])
        return clip.as_filler() if found[0].is_repeat else clip

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
                began = time.perf_counter()
                cut = self._read(planned)
                return fetched(attempt=attempt, planned=planned, cut=cut, read_seconds=time.perf_counter() - began)
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
        with open_indexed(planned.media) as source:
            return read_cut(planned.media, source, planned.spec.unique_frames)

    def _decoded(self, fetched: Fetched, cut: Cut) -> LoadedClip:
        planned, began = fetched.planned, time.perf_counter()
        frames = spread(self._engine.decode(cut), cut.frames, planned.spec)
        return LoadedClip(
            position=fetched.position,
            video=planned.video,
            frames=frames,
            spec=planned.spec,
            labels=planned.labels,
            num_bytes_read=cut.num_bytes_read,
            num_pictures=len(cut.packets),
            read_seconds=fetched.read_seconds,
            decode_seconds=time.perf_counter() - began,
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
