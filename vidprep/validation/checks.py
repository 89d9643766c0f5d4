"""THE table of checks: stable id, severity, what it means, what to do. The docs page and the reports follow it."""

from __future__ import annotations

from dataclasses import dataclass

from vidprep.errors import Reason

__all__ = ["CHECKS", "LEVELS", "SEVERITIES", "Check", "at_least", "checks_table"]

#: Least to worst.
SEVERITIES = ("info", "warning", "error")

#: Each level runs the checks of those before it too, but for `sampled`, which decodes clips in place of all key frames.
LEVELS = ("header", "keyframes", "sampled", "full")


@dataclass(frozen=True, slots=True)
class Check:
    """One kind of finding. Ids are stable: rules files and other people's scripts name them."""

    id: str
    severity: str
    level: str
    """the first level that runs it"""
    title: str
    meaning: str
    fix: str


def at_least(severity: str) -> tuple[str, ...]:
    """This severity and the worse ones."""
    return SEVERITIES[SEVERITIES.index(severity) :]


_FETCH = "copy or download it again"
_LEAVE_OUT = "leave it out, or convert it: ffmpeg -i IN -c:v libx264 OUT.mp4"

#: One check for each reason for which a video cannot serve at all: title and fix.
_REASONS = {
    Reason.NOT_FOUND: ("not found", "correct the list of files"),
    Reason.UNREADABLE: ("cannot be read", "check permissions and the disk or store"),
    Reason.EMPTY: ("empty file", _FETCH),
    Reason.NOT_MEDIA: ("no media file", "leave it out"),
    Reason.NO_VIDEO_STREAM: ("no video stream", "leave it out"),
    Reason.NO_FRAMES: ("no frame to show", "leave it out"),
    Reason.TRUNCATED: ("truncated", _FETCH),
    Reason.CORRUPT_TABLE: ("corrupt tables", f"{_FETCH}, or remux it: ffmpeg -i IN -c copy OUT.mp4"),
    Reason.UNSUPPORTED_CONTAINER: ("container not supported", "remux it: ffmpeg -i IN -c copy OUT.mkv"),
    Reason.UNSUPPORTED_CODEC: ("codec not supported", _LEAVE_OUT),
    Reason.ENCRYPTED: ("encrypted", "decrypt it, or leave it out"),
    Reason.EXTERNAL_DATA: ("its data lie in another file", "make it self-contained: ffmpeg -i IN -c copy OUT.mov"),
    Reason.TIMEOUT: ("took too long", "look at it alone with more --timeout"),
    Reason.OUT_OF_MEMORY: ("took too much memory", "look at it alone with more --memory"),
    Reason.WORKER_DIED: ("ended the process that read it", "leave it out, and report it"),
    Reason.VANISHED: ("indexed, and gone", "bring the file back, or run vidprep index --update"),
    Reason.STALE: ("changed since it was indexed", "run vidprep index --update"),
}

_REENCODE = "re-encode it: ffmpeg -i IN -c:v libx264 OUT.mp4"
_REMUX = "remux it: ffmpeg -i IN -c copy OUT.mp4"
_KNOW = "nothing, if it is meant"

CHECKS: dict[str, Check] = {
    check.id: check
    for check in (
        *(
            Check(str(reason), "error", "header", title, "the video cannot serve: no row, no frame", fix)
            for reason, (title, fix) in _REASONS.items()
        ),
        Check(
            "damaged_tail", "warning", "header", "partly truncated",
            "bytes or pictures are missing; the sound frames are offered, the others are not", _FETCH,
        ),
        Check(
            "container_faults", "warning", "header", "faults in the container",
            "a table breaks a rule of its format; it could be read all the same", _REMUX,
        ),
        Check(
            "frame_count", "warning", "header", "frame counts disagree",
            "the header's count is neither that of the frames nor that of the coded samples: readers that trust it ask "
            "for frames that are not there", _REMUX,
        ),
        Check(
            "duration", "warning", "header", "durations disagree",
            "the header's count over its frame rate is not how long the frames last", _REMUX,
        ),
        Check(
            "frame_rate", "warning", "header", "frame rates disagree",
            "the header claims another rate than the frames have: time × rate gives the wrong frame", _REMUX,
        ),
        Check(
            "vfr", "info", "header", "variable frame rate",
            "distances of frames differ by more than a tick: strides in frames are no strides in time",
            "sample by time (rate:), or make it constant: ffmpeg -i IN -vf fps=30 OUT.mp4",
        ),
        Check(
            "gaps", "warning", "header", "gaps in time",
            "frames further apart than three times the usual distance: a clip may jump", "cut at the gap",
        ),
        Check(
            "duplicate_times", "warning", "header", "frames with one time",
            "neighbours are shown at the same time; a player shows one of them", _REMUX,
        ),
        Check(
            "backward_times", "warning", "header", "times jump back",
            "a frame is earlier than the one before it: look-ups by time are ambiguous", _REMUX,
        ),
        Check(
            "missing_key_frames", "warning", "header", "key frames not listed",
            "the container lists none or too few: readers decode from far away or not at all", _REMUX,
        ),
        Check(
            "false_key_frames", "warning", "header", "key frames that are none",
            "the container calls samples key frames from which no decoder can start: readers that believe it get "
            "damaged pictures", _REMUX,
        ),
        Check(
            "long_gop", "warning", "header", "long groups of pictures",
            "a random frame costs the decoding of all before it back to the key frame",
            "re-encode with a shorter GOP: ffmpeg -i IN -c:v libx264 -g 32 OUT.mp4",
        ),
        Check(
            "open_gop", "info", "header", "open groups of pictures",
            "pictures shown before their key frame may need the group before: they cost two groups",
            "re-encode with closed groups: ffmpeg -i IN -c:v libx264 -flags +cgop OUT.mp4",
        ),
        Check(
            "nvdec_unsupported", "warning", "header", "no NVDEC decodes it",
            "the cpu engine decodes it, many times slower", _REENCODE,
        ),
        Check(
            "nvdec_some", "info", "header", "only some NVDECs decode it",
            "on older GPUs the cpu engine decodes it", "re-encode it as 8-bit 4:2:0 H.264 for older GPUs",
        ),
        Check(
            "odd_size", "warning", "header", "odd width or height",
            "chroma planes are rounded up; some decoders drop or invent the last row or column",
            "crop by one: ffmpeg -i IN -vf crop=trunc(iw/2)*2:trunc(ih/2)*2 OUT.mp4",
        ),
        Check(
            "extreme_size", "warning", "header", "very small, very large, or of an extreme shape",
            "perhaps no film but a thumbnail, a banner or a damaged header", "look at it; leave it out",
        ),
        Check(
            "rotation", "info", "header", "to be rotated for display",
            "frames come as coded unless rotation is asked for", "decode with --rotate, or write it upright",
        ),
        Check(
            "sample_aspect", "info", "header", "pixels are not square",
            "frames come as coded: shapes look squeezed", "resize to display_width × display_height",
        ),
        Check(
            "colour_untagged", "info", "header", "colours untagged",
            "no matrix is given: BT.601 is taken, which is wrong for most HD films",
            "tag it: ffmpeg -i IN -c copy -bsf:v h264_metadata=matrix_coefficients=1 OUT.mp4; or --colour-default",
        ),
        Check(
            "colour_odd", "info", "header", "odd colour tags",
            "the matrix does not go with the primaries or the size, or the range is full", _KNOW,
        ),
        Check(
            "interlaced", "warning", "header", "interlaced",
            "two moments in one frame: combs where things move", "deinterlace: ffmpeg -i IN -vf bwdif OUT.mp4",
        ),
        Check(
            "audio_length", "warning", "header", "audio and video differ in length",
            "one ends before the other: a damaged download or drifting sound", _FETCH,
        ),
        Check(
            "exact_duplicate", "warning", "header", "same content as another video",
            "the bytes of all its coded pictures are those of another video", "keep one of them",
        ),
        Check(
            "too_short", "warning", "header", "gives no clip",
            "the policy refuses it (--policy)", "leave it out, or choose another policy or padding",
        ),
        Check(
            "requirement", "error", "header", "breaks a requirement",
            "the rules file requires something else", "leave it out, or convert it",
        ),
        Check(
            "undecodable_frames", "error", "keyframes", "frames that cannot be decoded",
            "the decoder refuses these frames, or marks them as damaged", _FETCH,
        ),
        Check(
            "size_changes", "warning", "keyframes", "picture size changes",
            "pictures differ in size from the header or from each other", "decode with a size, or cut at the change",
        ),
        Check(
            "output_order", "warning", "keyframes", "order of pictures and times disagree",
            "the decoder gives pictures in another order than their times say: a frame can be had alone, and not "
            "together with its neighbours", _REMUX,
        ),
        Check(
            "near_duplicate", "warning", "keyframes", "looks like another video",
            "perceptual hashes of key frames agree with those of another video", "keep one of them, or one split",
        ),
        Check(
            "black", "warning", "sampled", "black pictures",
            "a stretch of black pictures: nothing to learn from", "cut it out",
        ),
        Check(
            "blank", "warning", "sampled", "blank pictures",
            "a stretch of pictures of one colour", "cut it out",
        ),
        Check(
            "frozen", "warning", "sampled", "frozen pictures",
            "a stretch in which nothing moves", "cut it out",
        ),
    )
}  # fmt: skip


def checks_table() -> str:
    """The table of checks in Markdown, as docs/validation.md has it."""
    lines = ["| id | severity | level | what it says | what it means | what to do |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `{check.id}` | {check.severity} | {check.level} | {check.title} | {check.meaning} | {check.fix} |"
        for check in CHECKS.values()
    ]
    return "\n".join(lines) + "\n"
