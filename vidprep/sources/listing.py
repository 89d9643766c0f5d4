"""What SRC... means: files, folders, lists, tar shards and object stores become a stream of items, in a fixed order.

Rules, which `vidprep index --help` repeats:

- A file named directly is always taken, whatever its name. `SHARD.tar` stands for its members; what of it cannot be read
  has a row that says so: a member that is cut off, the archive itself where it is damaged. A compressed one is refused.
- A folder gives its files in sorted order, then those of its sub-folders: names with a known video extension and names
  without one (`--pattern` decides instead where given), and members of its `.tar` files by the same rule.
  Hidden names (`.x`, `._x` leftovers of macOS) and the state of an index (`INDEX.vidprep`) are passed over, compressed
  archives with a warning. Links are followed; a folder that was seen is not entered again.
- `@LIST` (txt, csv, parquet) and `-` (stdin) name files, folders, tars or objects, one an entry.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import stat
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from vidprep.errors import MediaError, Reason, SourceError
from vidprep.sources.lists import read_list
from vidprep.sources.local import local_identity
from vidprep.sources.open import MEMBER_MARK, is_remote
from vidprep.sources.tar import COMPRESSED, archive_error, directory_of, member_identity, member_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from vidprep.records import Identity
    from vidprep.sources.tar import Directory

_PASSED_OVER = "%r: a compressed archive has no members in place; it is passed over"

T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger(__name__)

#: Of the folder beside an index that holds its state: it may lie among videos, and holds none.
STATE_SUFFIX = ".vidprep"

#: Objects that are looked up, and tars in a store that are listed, at the same time.
_LOOK_UPS_IN_FLIGHT = 32

#: Of files that can hold moving pictures, the rarer and the mostly-audio ones too: such a file gets a row that says so.
VIDEO_EXTENSIONS = frozenset(
    """
    264 265 266 3g2 3gp 3gp2 3gpp amv asf av1 avc avi avif avifs cmfa cmft cmfv cr3 dash divx dv evo f4a f4b f4p f4v flc
    fli flv gxf h261 h263 h264 h265 heic heics heif heifs hevc ismt isma ismv ivf m1v m2p m2t m2ts m2v m4a m4b m4p m4s
    m4v mj2 mjp2 mjpeg mjpg mk3d mka mkv mod mov mp4 mp4v mpe mpeg mpg mpv mqv mts mxf nsv nut obu oga ogg ogm ogv ogx
    ps qt rm rmvb tod tp trp ts vc1 vob vp8 vp9 vvc weba webm wm wma wmv wtv y4m
    """.split()  # noqa: SIM905 - a hundred quoted words are harder to read
)
#: The most usual of them, looked for first.
_VIDEO_ENDINGS = (".mp4", ".mkv", ".webm", ".mov", ".avi")
_NAME = attrgetter("name")


class Item(NamedTuple):
    """One video to be indexed."""

    uri: str
    """absolute path, `ARCHIVE.tar::MEMBER` or object"""
    path: str
    """as given or found"""
    identity: Identity | None = None
    """what the listing says of it; None = could not be told"""
    error: MediaError | None = None
    """why it cannot be read, where the listing already knows"""


class Rules(NamedTuple):
    """What a listing takes."""

    patterns: tuple[str, ...] = ()
    """globs on the name, or on the path below SRC where they hold a slash; none = by extension"""
    column: str | None = None
    """the column of csv and parquet lists"""
    identities: bool = True
    """look up size and time of local files; whoever opens them anyway has those for nothing"""

    def takes(self, relative: str) -> bool:
        """Whether a file of a folder or a member of a tar is taken."""
        if relative.startswith(".") or "/." in relative:
            return False
        name = relative.rpartition("/")[2]
        if self.patterns:
            return any(fnmatch.fnmatchcase(relative if "/" in glob else name, glob) for glob in self.patterns)
        extension = name.rpartition(".")[2].lower() if "." in name else None
        return extension is None or extension in VIDEO_EXTENSIONS


def list_items(sources: Iterable[str], rules: Rules | None = None) -> Iterator[Item]:
    """All items of the sources, in their order; the same file twice if two sources give it.

    Raises:
        SourceError: a source that was named directly does not exist.
    """
    rules = rules or Rules()
    for source in sources:
        if source == "-" or source.startswith("@"):
            entries = read_list(source.removeprefix("@"), rules.column)
            for entry, look_up in side_by_side(entries, _look_up, is_remote):
                yield from _expand_entry(entry, look_up, rules)
        else:
            yield from _expand(source, rules)


def _look_up(entry: str) -> Identity | MediaError | None:
    """Identity of an object; None for a folder or a member of a tar."""
    from vidprep.sources.objects import stat_object

    try:
        return None if MEMBER_MARK in entry or entry.endswith("/") else stat_object(entry)
    except MediaError as error:
        return error


def _expand_entry(entry: str, look_up: Identity | MediaError | None, rules: Rules) -> Iterator[Item]:
    if isinstance(look_up, MediaError):
        yield Item(entry, entry, error=look_up)
        return
    try:
        yield from _expand_object(entry, look_up, rules) if look_up else _expand(entry, rules)
    except MediaError as error:
        yield Item(absolute(entry), entry, error=error)


def _expand(source: str, rules: Rules) -> Iterator[Item]:
    if is_remote(source):
        return _expand_remote(source, rules)
    source = source.removeprefix("file://")
    if MEMBER_MARK in source and not os.path.lexists(source):
        return iter([Item(absolute(source), source)])
    try:
        is_folder = stat.S_ISDIR(os.stat(source).st_mode)  # noqa: PTH116 - names may be any bytes; str paths keep them
    except (OSError, ValueError):
        if not os.path.lexists(source):
            raise SourceError("no such file or folder", reason=Reason.NOT_FOUND, uri=source) from None
        is_folder = False  # a dangling link, or not to be looked at: opening it will say so
    return _walk(source, rules) if is_folder else _expand_file(source, rules)


def absolute(path: str) -> str:
    """The uri of a path; links are kept, `.` and `..` are not."""
    if is_remote(path):
        return path
    path = path.removeprefix("file://")
    archive, mark, name = path.partition(MEMBER_MARK)
    if mark and not os.path.lexists(path):  # names of members stay as the archive has them
        return os.path.abspath(archive) + mark + name  # noqa: PTH100 - keeps any bytes
    return os.path.abspath(path)  # noqa: PTH100 - keeps any bytes


def _expand_file(path: str, rules: Rules) -> Iterator[Item]:
    uri = absolute(path)
    if path.endswith(".tar"):
        yield from _expand_tar(uri, path, rules)
    else:
        yield _named(uri, path, local_identity(path) if rules.identities else None)


def _named(uri: str, path: str, identity: Identity | None) -> Item:
    """A file that was named directly."""
    return Item(uri, path, identity, archive_error(uri) if uri.endswith(COMPRESSED) else None)


def _expand_tar(uri: str, path: str, rules: Rules) -> Iterator[Item]:
    return _members(uri, path, directory_of(uri), rules)


def _members(uri: str, path: str, directory: Directory, rules: Rules) -> Iterator[Item]:
    """Members, and the archive itself where it has an error."""
    for member in directory.members:
        if directory.identity is not None and rules.takes(_without_dots(member.name)):
            identity = member_identity(directory.identity, member)
            yield Item(member_uri(uri, member.name), member_uri(path, member.name), identity, member.error)
    if directory.error is not None:
        yield Item(uri, path, directory.identity, directory.error)


def _without_dots(name: str) -> str:
    """A member's name without `.` and `..`, which lead nowhere as nothing is unpacked."""
    return (
        "/".join(part for part in name.split("/") if part not in (".", ".."))
        if "." in name[:2] or "/." in name
        else name
    )


def _walk(root: str, rules: Rules) -> Iterator[Item]:
    """Items below a folder: its real tree first, then what only its links lead to."""
    seen: set[tuple[int, int]] = set()
    links: list[str] = []
    yield from _walk_folder(root, root, rules, seen, links)
    while links:
        yield from _walk_folder(root, links.pop(0), rules, seen, links)


def _walk_folder(root: str, folder: str, rules: Rules, seen: set[tuple[int, int]], links: list[str]) -> Iterator[Item]:
    """Files of a folder in sorted order, then its sub-folders; an explicit stack, as trees may be deep."""
    stack = [folder]
    while stack:
        folder = stack.pop()
        try:
            facts = os.stat(folder)  # noqa: PTH116 - names may be any bytes
            entries = _in_order(list(os.scandir(folder)))
        except OSError as error:
            yield Item(absolute(folder), folder, error=SourceError(f"cannot be listed: {error.strerror}"))
            continue
        if (facts.st_dev, facts.st_ino) in seen:
            logger.info("%r leads to a folder that was listed already", folder)
            continue
        seen.add((facts.st_dev, facts.st_ino))
        files: list[os.DirEntry[str]] = []
        folders: list[os.DirEntry[str]] = []
        for entry in entries:
            if not entry.name.startswith(".") and not entry.name.endswith(STATE_SUFFIX):
                (folders if _is_dir(entry) else files).append(entry)
        stack.extend(entry.path for entry in reversed(folders) if not entry.is_symlink())
        links.extend(entry.path for entry in folders if entry.is_symlink())
        yield from _files(root, files, rules)


def _in_order(entries: list[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    """By the bytes of their names, which for ASCII is the order of their characters, at a third of the cost."""
    is_ascii = "".join([entry.name for entry in entries]).isascii()
    return sorted(entries, key=_NAME if is_ascii else lambda entry: os.fsencode(entry.name))


def _files(root: str, entries: list[os.DirEntry[str]], rules: Rules) -> Iterator[Item]:
    below = len(root.rstrip("/")) + 1
    base = absolute(root).rstrip("/") + "/"
    is_absolute = base == root[:below].rstrip("/") + "/"
    is_usual, identities = not rules.patterns, rules.identities
    for entry in entries:
        path = entry.path
        if is_usual and path.endswith(_VIDEO_ENDINGS):  # as `takes` says of what is not hidden, at a third of the cost
            yield Item(path if is_absolute else base + path[below:], path, local_identity(path) if identities else None)
            continue
        relative = path[below:]
        uri = path if is_absolute else base + relative
        if path.endswith(".tar"):
            yield from _expand_tar(uri, path, _tar_rules(relative, rules))
        elif rules.takes(relative):
            yield Item(uri, path, local_identity(path) if rules.identities else None)
        elif path.endswith(COMPRESSED):
            logger.warning(_PASSED_OVER, uri)


def _tar_rules(relative: str, rules: Rules) -> Rules:
    """A pattern that names the archive takes all its videos; one that does not chooses among its members."""
    return Rules() if rules.patterns and rules.takes(relative) else rules


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _expand_remote(source: str, rules: Rules) -> Iterator[Item]:
    from vidprep.sources.objects import list_objects, stat_object

    if MEMBER_MARK in source:
        yield Item(source, source)
        return
    identity = None if source.endswith("/") else stat_object(source)
    if identity is not None:
        yield from _expand_object(source, identity, rules)
        return
    below = len(source.rstrip("/")) + 1
    objects = list_objects(source.rstrip("/"))
    taken = (found for found in objects if _takes_object(found[0], found[0][below:], rules))
    directories = side_by_side(taken, lambda found: directory_of(*found), lambda found: found[0].endswith(".tar"))
    for (uri, found), directory in directories:
        if directory is None:
            yield Item(uri, uri, found)
        else:
            yield from _members(uri, uri, directory, _tar_rules(uri[below:], rules))


def _takes_object(uri: str, relative: str, rules: Rules) -> bool:
    if uri.endswith(".tar") or rules.takes(relative):
        return True
    if uri.endswith(COMPRESSED):
        logger.warning(_PASSED_OVER, uri)
    return False


def _expand_object(uri: str, identity: Identity, rules: Rules) -> Iterator[Item]:
    if uri.endswith(".tar"):
        yield from _members(uri, uri, directory_of(uri, identity), rules)
    else:
        yield _named(uri, uri, identity)


def side_by_side(
    values: Iterable[T], work: Callable[[T], R], is_slow: Callable[[T], bool]
) -> Iterator[tuple[T, R | None]]:
    """(value, work(value)) in order, the slow ones done by threads ahead of their turn; None for those not slow."""
    pool: ThreadPoolExecutor | None = None
    ahead: deque[tuple[T, Future[R] | None]] = deque()
    try:
        for value in values:
            future = None
            if is_slow(value):
                pool = pool or ThreadPoolExecutor(_LOOK_UPS_IN_FLIGHT, thread_name_prefix="list")
                future = pool.submit(work, value)
            ahead.append((value, future))
            while ahead and (len(ahead) > 2 * _LOOK_UPS_IN_FLIGHT or ahead[0][1] is None):
                value, future = ahead.popleft()
                yield value, None if future is None else future.result()
        for value, future in ahead:
            yield value, None if future is None else future.result()
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
