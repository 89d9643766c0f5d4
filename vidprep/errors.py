"""Everything that vidprep raises on purpose.

::

    VidprepError
      MediaError                     a file cannot serve; carries uri, reason, offset, message
        SourceError (OSError)          not_found, unreadable, empty, vanished
        ContainerError (ValueError)
          NotMediaError                  not_media, no_video_stream, no_frames
          TruncatedContainerError        truncated
          MalformedContainerError        corrupt_table
          UnsupportedContainerError      unsupported_container, unsupported_codec, encrypted, external_data
        LimitError (RuntimeError)      timeout, out_of_memory, worker_died
        StaleIndexError (RuntimeError) stale
      IndexFormatError (ValueError)  schema version or columns of an index
      ArgumentError (ValueError, TypeError)  an argument is not what it may be; names it, its value, what is expected
      SamplingError (ValueError)     a policy cannot serve this video, or its arguments make no sense
      DecodeError (RuntimeError)     a frame that was asked for cannot be returned; names video, frame, cause
      TooManyFailuresError (RuntimeError)  more clips failed than a loader's `max_failures` allows
      MissingDependencyError (ImportError)  names the exact pip command

`reason` is one of `Reason`; it is what failures are counted by.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a file cannot serve (closed set; the values stand in the index's `error_reason` column)."""

    NOT_FOUND = "not_found"
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    NOT_MEDIA = "not_media"
    NO_VIDEO_STREAM = "no_video_stream"
    NO_FRAMES = "no_frames"
    TRUNCATED = "truncated"
    CORRUPT_TABLE = "corrupt_table"
    UNSUPPORTED_CONTAINER = "unsupported_container"
    UNSUPPORTED_CODEC = "unsupported_codec"
    ENCRYPTED = "encrypted"
    EXTERNAL_DATA = "external_data"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    WORKER_DIED = "worker_died"
    VANISHED = "vanished"
    STALE = "stale"


class VidprepError(Exception):
    """Base of all errors that vidprep raises on purpose."""


class MediaError(VidprepError):
    """A file cannot serve.

    Args:
        message: what is wrong and what was expected, one line.
        reason: the class of failure it is counted under.
        offset: byte offset in the file where it was seen, or None.
        uri: the file; parsers do not know it, callers add it with `with_uri`.
    """

    default_reason = Reason.NOT_MEDIA

    def __init__(
        self, message: str, *, reason: Reason | None = None, offset: int | None = None, uri: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.offset = offset
        self.uri = uri

    def with_uri(self, uri: str) -> "MediaError":
        """This error, naming `uri` if it named no file yet."""
        self.uri = self.uri or uri
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.reason, self.offset, self.uri))

    def __str__(self) -> str:
        where = "" if self.offset is None else f" (at byte {self.offset})"
        name = "" if self.uri is None else f"{self.uri}: "
        return f"{name}{self.reason}: {self.message}{where}"


def _rebuild(kind: type[MediaError], message: str, reason: Reason, offset: int | None, uri: str | None) -> MediaError:
    return kind(message, reason=reason, offset=offset, uri=uri)


class SourceError(MediaError, OSError):
    """The bytes cannot be had."""

    default_reason = Reason.UNREADABLE


class ContainerError(MediaError, ValueError):
    """The bytes can be had, but give no frame table."""


class NotMediaError(ContainerError):
    """No container we know, or one without a video track or frame."""


class TruncatedContainerError(ContainerError):
    """More bytes are needed than the file has."""

    default_reason = Reason.TRUNCATED


class MalformedContainerError(ContainerError):
    """A table breaks a rule that its container's specification states."""

    default_reason = Reason.CORRUPT_TABLE


class UnsupportedContainerError(ContainerError):
    """Legal, but not ours to read."""

    default_reason = Reason.UNSUPPORTED_CONTAINER


class LimitError(MediaError, RuntimeError):
    """A file used up its share of time or memory, or killed its worker."""

    default_reason = Reason.TIMEOUT


class StaleIndexError(MediaError, RuntimeError):
    """The file changed since it was indexed."""

    default_reason = Reason.STALE


class IndexFormatError(VidprepError, ValueError):
    """An index has a schema that this version does not read, or lacks columns."""


class ArgumentError(VidprepError, ValueError, TypeError):
    """An argument is not what it may be; the message names it, its value, and what is expected."""


class SamplingError(VidprepError, ValueError):
    """A policy cannot serve this video, or its arguments make no sense."""


class DecodeError(VidprepError, RuntimeError):
    """A frame that was asked for cannot be returned.

    Args:
        message: the reason, one line.
        uri: the video.
        frame_index: the first frame concerned, if one is.
    """

    def __init__(self, message: str, *, uri: str | None = None, frame_index: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.uri = uri
        self.frame_index = frame_index

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_decode, (self.message, self.uri, self.frame_index))

    def __str__(self) -> str:
        name = "" if self.uri is None else f"{self.uri}: "
        frame = "" if self.frame_index is None else f"frame {self.frame_index}: "
        return f"{name}{frame}{self.message}"


def _rebuild_decode(message: str, uri: str | None, frame_index: int | None) -> DecodeError:
    return DecodeError(message, uri=uri, frame_index=frame_index)


class TooManyFailuresError(VidprepError, RuntimeError):
    """More clips failed than `max_failures` allows; the message names the last and counts by reason."""


class MissingDependencyError(VidprepError, ImportError):
    """An optional package is not installed; the message is the command that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"not installed: {package}; run: pip install 'vidprep[{extra}]'")
