"""Where the real driver is: the places where the shim looks, in its order (interpose/driver/driver_file.h)."""

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from ptxtools import native

NAME = "libcuda.so.1"
CACHE = Path("/etc/ld.so.cache")
CACHE_MAGIC, CACHE_HEADER_BYTES, CACHE_ENTRY = b"glibc-ld.so.cache1.1", 48, struct.Struct("=iIIIQ")
CACHE_X86_64 = 0x0303


def find(environment: Mapping[str, str]) -> Path | None:
    """The driver that a program with this environment would load; TESSERA_DRIVER is not looked at."""
    return next((path for path in candidates(environment) if path.is_file()), None)


def candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    """Where it may be, the likeliest first; our own libraries are left out."""
    ours = native.directory()
    for directory in re.split("[:;]", environment.get("LD_LIBRARY_PATH", "")):
        if directory.startswith("/") and not Path(directory).is_relative_to(ours):
            yield from in_directory(Path(directory))
    yield from cached(CACHE.read_bytes() if CACHE.exists() else b"")
    for directory in listed():
        yield from in_directory(Path(directory))


def in_directory(directory: Path) -> Iterator[Path]:
    """The usual name; a driver that was mounted into a container may only have the one with its version."""
    yield directory / NAME
    versions = [path for path in directory.glob("libcuda.so.*") if re.fullmatch(r"libcuda\.so\.\d[\d.]*", path.name)]
    yield from sorted(versions, key=_version, reverse=True)[:1]


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.name.removeprefix("libcuda.so.").split(".") if part)


def listed() -> tuple[str, ...]:
    """The directories of tessera/driver_places.h."""
    return tuple(re.findall(r'X\("([^"]+)"\)', native.file("include/tessera/driver_places.h").read_text()))


def cached(cache: bytes) -> Iterator[Path]:
    """What the dynamic loader's cache says; nothing if it is of another format than glibc has written since 2.32."""
    if not cache.startswith(CACHE_MAGIC) or len(cache) < CACHE_HEADER_BYTES:
        return
    (count,) = struct.unpack_from("=I", cache, len(CACHE_MAGIC))
    end = min(CACHE_HEADER_BYTES + count * CACHE_ENTRY.size, len(cache) - CACHE_ENTRY.size + 1)
    for offset in range(CACHE_HEADER_BYTES, end, CACHE_ENTRY.size):
        flags, name, path, _, _ = CACHE_ENTRY.unpack_from(cache, offset)
        if flags == CACHE_X86_64 and _text(cache, name) == NAME:
            yield Path(_text(cache, path))


def _text(cache: bytes, offset: int) -> str:
    return cache[offset : max(offset, cache.find(b"\0", offset))].decode(errors="replace")
