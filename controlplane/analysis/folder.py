"""A folder on disk that belongs to this user alone: its contents are trusted, so nobody else may have written them.

It is opened component by component without following links, and held open. Its last two components must belong to this
user, and are created for this user only. Of its files, only regular ones of this user are read that nobody else can
read or write; anything else is unlinked by name, which removes the entry from the open folder and nothing elsewhere.

A folder of another user is not used, which is reported once. Other errors of the file system mean that something is not
kept; they are not reported.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

OWN_PARTS = 2  # of its path, from the end
MOST_BYTES = 256 << 20  # of one file
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FILE = (errno.ELOOP, errno.ENXIO)  # what opening a link or a socket gives
_PRIVATE = 0o700
_OTHERS = 0o077
PARTIAL = ".partial-"  # begins the names of files that are being written


class ForeignError(Exception):
    """Something belongs to another user, or is a link; the text says what."""


_QUIETLY = contextlib.suppress(OSError, ForeignError)


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A file. used: when it was written or touched last. place: its name, with that of the folder's part it is in."""

    used: float
    size: int
    place: str


class Folder:
    """Places of files are "name", or "part/name" for a folder in the folder; they are the program's, not input.

    problem: why the folder is not used; empty: it is, as far as is known.
    """

    def __init__(self, path: Path, complain: Callable[[str], None] | None = None) -> None:
        self.path, self.problem, self._complain = path, "", complain
        self._opened: dict[str, int] = {}  # by part; that of "" is the folder itself

    def read(self, place: str, most_bytes: int = MOST_BYTES) -> tuple[bytes, float] | None:
        """The contents and the time of the last use; None: nothing that is ours."""
        try:
            directory, name = self._place(place)
            descriptor = os.open(name, _READ, dir_fd=directory)
        except OSError as problem:
            if problem.errno in _NO_FILE:
                self.remove(place)
            return None
        except ForeignError:
            return None
        try:
            status = os.fstat(descriptor)
            if _is_own_file(status) and status.st_size <= most_bytes:
                return os.read(descriptor, status.st_size), status.st_mtime
        except OSError:
            return None
        finally:
            os.close(descriptor)
        self.remove(place)
        return None

    def write(self, place: str, data: bytes) -> None:
        """Aside first, so that nobody reads a part; not at all where it cannot be written."""
        with _QUIETLY:
            directory, name = self._place(place, make=True)
            partial = f"{PARTIAL}{os.urandom(8).hex()}"
            descriptor = os.open(partial, _WRITE, 0o600, dir_fd=directory)
            try:
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(data)
                os.rename(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError:
                os.unlink(partial, dir_fd=directory)
                raise

    def touch(self, place: str) -> None:
        with _QUIETLY:
            directory, name = self._place(place)
            os.utime(name, dir_fd=directory, follow_symlinks=False)

    def remove(self, place: str) -> bool:
        """Whether it was there. Never a folder."""
        with _QUIETLY:
            directory, name = self._place(place)
            os.unlink(name, dir_fd=directory)
            return True
        return False

    def files(self, part: str = "") -> list[Entry]:
        """Own regular files in the folder, or in a part of it."""
        found = []
        with _QUIETLY, os.scandir(self._directory(part)) as entries:
            for each in entries:
                status = each.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    place = f"{part}/{each.name}" if part else each.name
                    found.append(Entry(status.st_mtime, status.st_size, place))
        return found

    def parts(self) -> list[str]:
        """The folders in it."""
        with _QUIETLY, os.scandir(self._directory("")) as entries:
            return [each.name for each in entries if each.is_dir(follow_symlinks=False)]
        return []

    def _place(self, place: str, *, make: bool = False) -> tuple[int, str]:
        """The folder of a place, open, and the name in it. Errors: OSError, ForeignError."""
        part, _, name = place.rpartition("/")
        return self._directory(part, make=make), name

    def _directory(self, part: str, *, make: bool = False) -> int:
        """Open until this object goes. Errors: OSError, ForeignError."""
        opened = self._opened.get(part, -1)
        if opened < 0 or not os.fstat(opened).st_nlink:  # somebody may have removed it
            opened = _own(part, self._directory("", make=make), make=make) if part else self._begin(make=make)
            self._opened[part] = opened
            weakref.finalize(self, os.close, opened)
        return opened

    def _begin(self, *, make: bool) -> int:
        if self.problem:
            raise ForeignError(self.problem)
        try:
            return _walk(self.path, make=make)
        except ForeignError as found:
            self.problem = str(found)
            if self._complain is not None:
                self._complain(f"the cache of analyses {self.path} is not used: {found}")
            raise


def _walk(path: Path, *, make: bool) -> int:
    """The folder, open. Errors: OSError, ForeignError."""
    parts = path.parts[-OWN_PARTS:]
    base = Path(*path.parts[:-OWN_PARTS])
    if make:
        base.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
    directory = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        outer = directory
        try:
            directory = _own(part, outer, make=make)
        finally:
            os.close(outer)
    return directory


def _own(name: str, outer: int, *, make: bool) -> int:
    """A folder of this user in another, open, and from now on for this user only. Errors: OSError, ForeignError."""
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, _PRIVATE, dir_fd=outer)
    try:
        directory = os.open(name, _DIRECTORY, dir_fd=outer)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=outer, follow_symlinks=False).st_mode):
            raise ForeignError(f"'{name}' is a symbolic link") from None
        raise
    try:
        status = os.fstat(directory)
        if status.st_uid != os.geteuid():
            raise ForeignError(f"'{name}' belongs to user {status.st_uid}")
        if status.st_mode & 0o7777 != _PRIVATE:
            os.fchmod(directory, _PRIVATE)
    except BaseException:
        os.close(directory)
        raise
    return directory


def _is_own_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS
