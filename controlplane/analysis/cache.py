"""Analyses on disk, one file each, by what they are of: code, architecture, function, and the analyser's own version.

They decide where launches run, and which code: they lie in a folder that is this user's own (folder.py). A file repeats
what it is of and has a digest: one that is damaged, or of something else, is removed and made again. Without a folder
that can be written, nothing is kept. The oldest files go when the folder grows too large.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ptxtools
from controlplane.analysis.describe import description_of
from controlplane.analysis.folder import PARTIAL, Entry, Folder
from controlplane.analysis.result import Analysis

MAGIC = b"TSRANLZ3"
# Magic, digest of what follows, bytes of the key's JSON, of the description's, of the template; the rest is the clone.
HEADER = struct.Struct("<8s16sIII")
DIGESTED = 24  # what the digest is of begins here
LIMIT_BYTES = 512 << 20
SUFFIX = ".analysis"
_PART = re.compile("[0-9a-f]{2}")
_FILE = re.compile(rf"[0-9a-f]{{30}}\.(analysis|observed)|{re.escape(PARTIAL)}\w+")
RECENT = "recent-"  # begins the names of files that say which were used last (recent.py)
SECONDS_BETWEEN_TOUCHES = 86400  # what is used once a day stays


@dataclass(frozen=True, slots=True)
class Key:
    """Of which function an analysis is: `code` and `code_bytes` are the image's hash (base/content.py) and size.

    `sources`: hashes of the PTX that is known to be linked into the image. `disassemble`: whether machine code may be.
    `clone`: the analysis comes with the function's clone.
    """

    code: int
    code_bytes: int
    architecture: int
    ptx_only: bool
    function: str
    sources: tuple[int, ...] = ()
    disassemble: bool = True
    clone: bool = False

    def fields(self) -> tuple[int, int, int, bool, str, tuple[int, ...], bool, bool]:
        return (
            self.code,
            self.code_bytes,
            self.architecture,
            self.ptx_only,
            self.function,
            self.sources,
            self.disassemble,
            self.clone,
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
    """complain: is told once of a folder that is not used."""

    def __init__(
        self,
        directory: Path | None = None,
        limit_bytes: int = LIMIT_BYTES,
        complain: Callable[[str], None] | None = None,
    ) -> None:
        self.directory, self.limit_bytes = directory or default_directory(), limit_bytes
        self.folder = Folder(self.directory, complain)

    def get(self, key: Key, *, is_use: bool = True) -> Analysis | None:
        """is_use: it counts as used now."""
        place, wanted = _place(key)
        read = self.folder.read(place)
        if read is None:
            return None
        data, used = read
        found = decode(data, wanted)
        if found is None:
            self.folder.remove(place)
        elif is_use and time.time() - used > SECONDS_BETWEEN_TOUCHES:
            self.folder.touch(place)
        return found

    def put(self, key: Key, analysis: Analysis) -> None:
        if not analysis.is_lasting:
            return
        place, wanted = _place(key)
        self.folder.write(place, encode(wanted, analysis))

    def usage(self) -> Usage:
        sizes = [each.size for each in self._files()]
        return Usage(self.directory, len(sizes), sum(sizes), self.limit_bytes)

    def clear(self) -> int:
        """Removes everything; the result is how many analyses went."""
        for each in self.folder.files():
            if each.place.startswith((RECENT, PARTIAL)):
                self.folder.remove(each.place)
        return sum(self.folder.remove(each.place) for each in self._files())

    def trim(self) -> int:
        """Removes the files that were not used for longest until the rest is within the limit."""
        files = sorted(self._files())
        excess, gone = sum(each.size for each in files) - self.limit_bytes, 0
        for each in files:
            if excess <= 0:
                break
            excess -= each.size
            gone += self.folder.remove(each.place)
        return gone

    def _files(self) -> list[Entry]:
        """Of every version; what was left half-written, too."""
        parts = [part for part in self.folder.parts() if _PART.fullmatch(part)]
        files = [each for part in parts for each in self.folder.files(part)]
        return [each for each in files if _FILE.fullmatch(each.place, 3)]


def _place(key: Key) -> tuple[str, bytes]:
    """Its file, and what that is of."""
    wanted = key.to_json()
    return place_of(wanted, SUFFIX), wanted


def place_of(wanted: bytes, suffix: str) -> str:
    name = hashlib.blake2b(wanted, digest_size=16).hexdigest()
    return f"{name[:2]}/{name[2:]}{suffix}"


def digest_of(data: bytes | memoryview) -> bytes:
    """Against damage; what nobody else may write needs no secret."""
    return hashlib.blake2b(data, digest_size=16).digest()


def encode(key: bytes, analysis: Analysis) -> bytes:
    description = json.dumps(analysis.description, separators=(",", ":")).encode()
    sizes = len(key), len(description), len(analysis.template)
    data = HEADER.pack(MAGIC, b"", *sizes) + key + description + analysis.template + analysis.clone
    return HEADER.pack(MAGIC, digest_of(memoryview(data)[DIGESTED:]), *sizes) + data[HEADER.size :]


def decode(data: bytes, key: bytes) -> Analysis | None:
    """None: damaged, or of something else."""
    if len(data) < HEADER.size:
        return None
    magic, digest, key_bytes, description_bytes, template_bytes = HEADER.unpack_from(data)
    begin = HEADER.size + key_bytes
    end = begin + description_bytes
    clone = end + template_bytes
    if magic != MAGIC or data[HEADER.size : begin] != key or digest_of(memoryview(data)[DIGESTED:]) != digest:
        return None
    try:
        description = description_of(json.loads(data[begin:end]))
    except (ValueError, RecursionError):
        return None
    return None if description is None else Analysis(description, data[end:clone], clone=data[clone:])
