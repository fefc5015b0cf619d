"""Analyses on disk, one file each, by what they are of: code, architecture, function, and the analyser's own version.

A file is written aside and renamed, so that readers see a whole one or none, and writers of the same one do not meet.
It repeats what it is of and has a checksum: one that is damaged, or of something else, is removed and made again.
Without a directory that can be written, nothing is kept. The oldest files go when the directory grows too large.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ptxtools
from controlplane.analysis.kernel import Analysis

MAGIC = b"TSRANLZ2"
# Magic, CRC-32 of what follows, bytes of the key's JSON, of the description's, of the template; the rest is the twin.
HEADER = struct.Struct("<8sIIII")
SUMMED = 12  # what the checksum is of begins here
LIMIT_BYTES = 512 << 20
SUFFIX = ".analysis"
RECENT = "recent-"  # begins the names of files that say which were used last (recent.py)
SECONDS_BETWEEN_TOUCHES = 86400  # what is used once a day stays


@dataclass(frozen=True, slots=True)
class Key:
    """Of which function an analysis is: `code` and `code_bytes` are the image's hash (controlplane/content.py), size.

    `sources`: hashes of the PTX that is known to be linked into the image. `disassemble`: whether machine code may be.
    `twin`: the analysis comes with the function's twin.
    """

    code: int
    code_bytes: int
    architecture: int
    ptx_only: bool
    function: str
    sources: tuple[int, ...] = ()
    disassemble: bool = True
    twin: bool = False

    def fields(self) -> tuple[int, int, int, bool, str, tuple[int, ...], bool, bool]:
        return (
            self.code,
            self.code_bytes,
            self.architecture,
            self.ptx_only,
            self.function,
            self.sources,
            self.disassemble,
            self.twin,
        )

    def to_json(self) -> bytes:
        return json.dumps([analyser_version(), *self.fields()]).encode()


@dataclass(frozen=True, slots=True)
class Usage:
    """What the cache holds, of every version."""

    directory: Path
    files: int
    size_bytes: int
    limit_bytes: int


@cache
def analyser_version() -> str:
    """Of the analysis' own code: by another code, it is another analysis."""
    digest = hashlib.blake2b(digest_size=8)
    package = Path(ptxtools.__path__[0])
    for source in sorted(package.rglob("*.py")):
        digest.update(source.relative_to(package).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()


def default_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "tessera" / "analysis"


class Cache:
    """Errors of the file system mean that something is not kept; they are nobody's business."""

    def __init__(self, directory: Path | None = None, limit_bytes: int = LIMIT_BYTES) -> None:
        self.directory, self.limit_bytes = directory or default_directory(), limit_bytes
        self._prefix = f"{self.directory}/"

    def get(self, key: Key, *, is_use: bool = True) -> Analysis | None:
        """is_use: it counts as used now."""
        file, wanted = self._place(key)
        try:
            data, used = _contents(file)
        except OSError:
            return None
        found = decode(data, wanted)
        with contextlib.suppress(OSError):
            if found is None:
                Path(file).unlink()
            elif is_use and time.time() - used > SECONDS_BETWEEN_TOUCHES:
                os.utime(file)
        return found

    def put(self, key: Key, analysis: Analysis) -> None:
        if not analysis.is_lasting:
            return
        place, wanted = self._place(key)
        write_whole(Path(place), encode(wanted, analysis))

    def usage(self) -> Usage:
        sizes = [size for _, size, _ in self._files()]
        return Usage(self.directory, len(sizes), sum(sizes), self.limit_bytes)

    def clear(self) -> int:
        """Removes everything; the result is how many analyses went."""
        for file in self.directory.glob(f"{RECENT}*"):
            _removed(file)
        return sum(_removed(file) for _, _, file in list(self._files()))

    def trim(self) -> int:
        """Removes the files that were not used for longest until the rest is within the limit."""
        files = sorted(self._files())
        excess, gone = sum(size for _, size, _ in files) - self.limit_bytes, 0
        for _, size, file in files:
            if excess <= 0:
                break
            excess -= size
            gone += _removed(file)
        return gone

    def _place(self, key: Key) -> tuple[str, bytes]:
        """Its file, and what that is of. A text: making a Path takes longer than reading the file."""
        wanted = key.to_json()
        name = hashlib.blake2b(wanted, digest_size=16).hexdigest()
        return f"{self._prefix}{name[:2]}/{name[2:]}{SUFFIX}", wanted

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Time of the last use, size, path; what was left half-written, too."""
        for file in self.directory.glob("??/*"):
            with contextlib.suppress(OSError):
                status = file.stat()
                yield status.st_mtime, status.st_size, file


def write_whole(file: Path, data: bytes) -> None:
    """Aside first, so that nobody reads a part; not at all where it cannot be written."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, partial = tempfile.mkstemp(dir=file.parent, prefix=".partial-")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
            Path(partial).rename(file)
        except OSError:
            Path(partial).unlink()
            raise


def _contents(file: str) -> tuple[bytes, float]:
    """And the time of the last use."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        return os.read(descriptor, status.st_size), status.st_mtime
    finally:
        os.close(descriptor)


def _removed(file: Path) -> bool:
    try:
        file.unlink()
    except OSError:
        return False
    return True


def encode(key: bytes, analysis: Analysis) -> bytes:
    description = json.dumps(analysis.description, separators=(",", ":")).encode()
    sizes = len(key), len(description), len(analysis.template)
    data = HEADER.pack(MAGIC, 0, *sizes) + key + description + analysis.template + analysis.twin
    return HEADER.pack(MAGIC, zlib.crc32(memoryview(data)[SUMMED:]), *sizes) + data[HEADER.size :]


def decode(data: bytes, key: bytes) -> Analysis | None:
    """None: damaged, or of something else."""
    if len(data) < HEADER.size:
        return None
    magic, checksum, key_bytes, description_bytes, template_bytes = HEADER.unpack_from(data)
    begin = HEADER.size + key_bytes
    end = begin + description_bytes
    twin = end + template_bytes
    if magic != MAGIC or data[HEADER.size : begin] != key or zlib.crc32(memoryview(data)[SUMMED:]) != checksum:
        return None
    try:
        return Analysis(json.loads(data[begin:end]), data[end:twin], twin=data[twin:])
    except ValueError:
        return None
