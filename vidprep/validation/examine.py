"""One video, decoded: which frames fail, what the pictures show, and their perceptual hashes.

Decoding is handed in: this package knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vidprep.errors import DecodeError, MediaError
from vidprep.indexes import probe
from vidprep.records import SampleFlag, VideoLike
from vidprep.samplers.draws import Draw, state_of
from vidprep.timebase import IntArray, to_seconds
from vidprep.validation.findings import Finding
from vidprep.validation.phash import hash_of
from vidprep.validation.pictures import Stretches

if TYPE_CHECKING:
    import numpy.typing as npt

    from vidprep.validation.rules import Rules

__all__ = ["Decode", "Examined", "Options", "examine", "frames_to_look_at", "key_claims"]

#: decode(video, frames, resize) → (frame, uint8 (32, 32) luma) of the ascending distinct frames, one after the other.
#: DecodeError names the first frame that fails. With `resize` pictures may have any size.
Decode = Callable[[VideoLike, IntArray, bool], Iterator[tuple[int, "npt.NDArray[np.uint8]"]]]

#: Key frames whose hashes stand for a video.
MAX_HASHES = 8
#: Findings of undecodable frames for one video; what comes after is counted in the last.
MAX_FAILURES = 32
#: Thumbnails with less contrast have no hash: flat pictures all look alike.
MIN_HASH_DEVIATION = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is decoded."""

    level: str = "keyframes"
    seed: int = 0
    clips: int = 3
    """per video, at level sampled"""
    clip_frames: int = 16


@dataclass(slots=True)
class Examined:
    """What became of one video."""

    findings: list[Finding] = field(default_factory=list)
    hashes: list[int] = field(default_factory=list)
    decoded: int = 0
    """frames that came out"""

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "findings": [finding.to_dict() for finding in self.findings],
            "hashes": self.hashes,
            "decoded": self.decoded,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Examined:
        """The inverse of `to_dict`."""
        return cls([Finding(**finding) for finding in values["findings"]], values["hashes"], values["decoded"])


def hash_frames(video: VideoLike) -> IntArray:
    """int64: the key frames (at most MAX_HASHES, evenly spread, the first among them) whose hashes stand for it."""
    keys = video.table.keyframes
    if len(keys) <= MAX_HASHES:
        return keys
    return keys[np.arange(MAX_HASHES) * len(keys) // MAX_HASHES]


def frames_to_look_at(video: VideoLike, options: Options, number: int) -> IntArray:
    """int64, ascending, distinct: the frames that a level decodes.

    Args:
        video: the video.
        options: level, seed, and the clips of level sampled.
        number: the video's row, part of the key of its random clips.
    """
    num_frames = video.table.num_frames
    if options.level == "full":
        return np.arange(num_frames)
    if options.level == "keyframes":
        return video.table.keyframes
    length = min(options.clip_frames, num_frames)
    starts = [
        Draw(state_of((options.seed, number, clip))).below(num_frames - length + 1) for clip in range(options.clips)
    ]  # fmt: skip
    clips = [np.arange(start, start + length) for start in starts]
    return np.unique(np.concatenate([hash_frames(video), *clips]).astype(np.int64))


def examine(
    video: VideoLike,
    number: int,
    options: Options,
    rules: Rules,
    decode: Decode,
    claims: Sequence[Finding] | None = None,
) -> Examined:
    """Decode what the level asks for, and judge it. Raises nothing that a hostile file may cause, but LimitError.

    Args:
        video: a readable row of an index.
        number: its row.
        options: what to decode.
        rules: thresholds.
        decode: gives pictures, see `Decode`.
        claims: what `key_claims` gives, if it is known.
    """
    found = Examined()
    try:
        found.findings += key_claims(video) if claims is None else claims
    except MediaError as error:
        found.findings.append(_of_error(error))
        return found
    look = _Look(video, rules, decode, found, is_watching=options.level != "keyframes")
    look.at(frames_to_look_at(video, options, number))
    return found


def _of_error(error: MediaError) -> Finding:
    return Finding(check=str(error.reason), message=error.message, offset=error.offset)


def key_claims(video: VideoLike) -> Iterator[Finding]:
    """Key frames that the samples' bytes deny, and such that the container does not list. Raises MediaError."""
    if video.keys_verified:
        return
    true = probe(video.uri, verify_keys=True, identity=video.identity)
    if not true.keys_verified or len(true.table) != len(video.table):
        return
    claimed, checked = ((table.flags & SampleFlag.KEY) != 0 for table in (video.table, true.table))
    for check, rows, text in (
        ("false_key_frames", claimed & ~checked, "{} samples are called key frames and are none; the first gives"),
        ("missing_key_frames", checked & ~claimed, "{} key frames are not listed; the first gives"),
    ):
        if rows.any():
            frame = int(np.flatnonzero(rows[video.table.frame_rows])[:1].sum())
            yield Finding(
                check=check, message=f"{text.format(int(rows.sum()))} frame {frame}", frame=frame,
                time_seconds=_time(video, frame),
            )  # fmt: skip


def _time(video: VideoLike, frame: int) -> float:
    return float(to_seconds(int(video.timeline.pts[frame]), video.timeline.time_base))


def _joined(failures: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """In order of frames; those that follow each other for one cause as one."""
    joined: list[tuple[int, int, str]] = []
    for first, last, message in sorted(failures):
        if joined and joined[-1][1] + 1 >= first and joined[-1][2] == message:
            first, last = joined[-1][0], max(last, joined.pop()[1])
        joined.append((first, last, message))
    return joined


class _Look:
    """Decodes frames of one video and goes on after failures."""

    def __init__(self, video: VideoLike, rules: Rules, decode: Decode, found: Examined, *, is_watching: bool) -> None:
        self._video, self._decode, self._found, self._is_watching = video, decode, found, is_watching
        timeline = video.timeline
        end = float(to_seconds(timeline.end_pts, timeline.time_base))
        self._stretches = Stretches(rules.thresholds, timeline.pts_seconds, end)
        self._hashed = set(hash_frames(video).tolist())
        self._resize, self._alone = False, 0
        self._failures: list[tuple[int, int, str]] = []

    def at(self, frames: IntArray) -> None:
        """Decode these frames; every failure costs the frames that depend on it, not the rest."""
        while len(frames):
            frames = self._some(frames)
        self._tell(self._stretches.finish())
        failures = _joined(self._failures)
        for first, last, message in failures[:MAX_FAILURES]:
            self._fail(first, last, message)
        if len(failures) > MAX_FAILURES:
            first, last = failures[MAX_FAILURES][0], failures[-1][1]
            self._fail(first, last, f"{len(failures) - MAX_FAILURES} more failures in this range")

    def _some(self, frames: IntArray) -> IntArray:
        """Decode up to the end or the first failure; gives what is left to be done."""
        seen = -1
        try:
            for frame, luma in self._decode(self._video, frames, self._resize):
                self._take(frame, luma)
                seen = frame
        except DecodeError as error:
            left = frames[frames > seen]
            if not len(left):
                return left
            named = error.frame_index
            bad = named if named is not None and named in left.tolist() else int(left[0])
            return self._after_failure(left, bad, error.message)
        except MediaError as error:
            self._found.findings.append(_of_error(error))
        return frames[:0]

    def _after_failure(self, left: IntArray, bad: int, message: str) -> IntArray:
        if not self._resize and self._decodes_resized(left, bad):
            self._resize = True
            self._found.findings.append(
                Finding(check="size_changes", message=message, frame=bad, time_seconds=_time(self._video, bad))
            )
            return left
        before, after = left[left < bad], left[left > bad]
        if self._decodes_alone(bad, message):
            return np.concatenate([before, after])
        last = bad
        if self._failures and self._same_group(self._failures[-1][1], bad):
            # Two failures in one group: what follows depends on what is lost, up to the next key frame.
            keys = self._video.table.keyframes
            place = int(np.searchsorted(keys, bad, side="right"))
            resume = int(keys[place]) if place < len(keys) else self._video.table.num_frames
            if len(lost := after[after < resume]):
                last = int(lost[-1])
            after = after[after >= resume]
        self._failures.append((bad, last, message))
        return np.concatenate([before, after])

    def _same_group(self, one: int, other: int) -> bool:
        keys = self._video.table.keyframes
        return bool(np.searchsorted(keys, one, side="right") == np.searchsorted(keys, other, side="right"))

    def _decodes_resized(self, frames: IntArray, bad: int) -> bool:
        """Whether it is the picture's size alone that stands in the way of one of these frames."""
        try:
            return any(frame == bad for frame, _ in self._decode(self._video, frames, True))
        except DecodeError:
            return False

    def _decodes_alone(self, frame: int, message: str) -> bool:
        """Whether it comes where nothing else is asked for: the pictures' order stands in the way, not their bytes."""
        if self._alone >= MAX_FAILURES or len(self._failures) >= MAX_FAILURES:
            return False
        self._alone += 1
        try:
            for _, luma in self._decode(self._video, np.array([frame]), self._resize):
                self._take(frame, luma)
        except DecodeError:
            return False
        if not any(finding.check == "output_order" for finding in self._found.findings):
            time = _time(self._video, frame)
            self._found.findings.append(Finding(check="output_order", message=message, frame=frame, time_seconds=time))
        return True

    def _take(self, frame: int, luma: npt.NDArray[np.uint8]) -> None:
        self._found.decoded += 1
        if self._is_watching:
            self._tell(self._stretches.feed(frame, luma))
        if frame in self._hashed and luma.std() >= MIN_HASH_DEVIATION:
            self._found.hashes.append(hash_of(luma))

    def _tell(self, stretches: Iterator[Any]) -> None:
        for check, first, last, seconds in stretches:
            self._found.findings.append(
                Finding(
                    check=check, message=f"frames {first} to {last}, {seconds:.3f} s", frame=first,
                    time_seconds=_time(self._video, first),
                )
            )  # fmt: skip

    def _fail(self, first: int, last: int, message: str) -> None:
        which = f"frame {first}" if first == last else f"frames {first} to {last}"
        self._found.findings.append(
            Finding(
                check="undecodable_frames", message=f"{which}: {message}", frame=first,
                time_seconds=_time(self._video, first),
            )
        )  # fmt: skip
