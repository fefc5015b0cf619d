"""Fat binaries: containers of PTX and cubins for several architectures.

A container has a header of its own (magic, version, header size, size of what follows) and entries; each entry's
header says its own size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from ptxtools.image import lz4

MAGIC = b"\x50\xed\x55\xba"
_CONTAINER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_LARGEST = 1 << 30


class Kind(IntEnum):
    PTX = 1
    ELF = 2


class Flag(IntFlag):
    LZ4 = 0x2000
    ZSTD = 0x8000
    ARCHITECTURE_SPECIFIC = 0x100000
    FAMILY = 0x200000


@dataclass(frozen=True, slots=True)
class Entry:
    """`kind` as stored, see Kind; `architecture`: 80 for sm_80. The payload is as stored: `plain` unpacks it."""

    kind: int
    architecture: int
    flags: int
    payload: bytes
    plain_size: int

    def plain(self) -> bytes:
        """The payload before compression. Errors: ValueError when it cannot be unpacked."""
        if not self.flags & (Flag.LZ4 | Flag.ZSTD):
            return self.payload
        if not 0 < self.plain_size <= _LARGEST:
            raise ValueError(f"a fat binary entry claims {self.plain_size} bytes")
        if self.flags & Flag.LZ4:
            return lz4.decompress(self.payload, self.plain_size)
        return _zstd(self.payload, self.plain_size)


def _zstd(data: bytes, size: int) -> bytes:
    try:
        import zstandard  # only where there is such an entry
    except ImportError as problem:
        raise ValueError(
            "a fat binary entry is compressed with zstd: the package zstandard is missing (pip install zstandard)"
        ) from problem
    try:
        plain = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError as problem:
        raise ValueError(f"a zstd frame cannot be unpacked: {problem}") from problem
    if len(plain) != size:
        raise ValueError(f"a zstd frame unpacks to {len(plain)} bytes, not {size}")
    return plain


def containers(data: bytes) -> Iterator[int]:
    """Offsets at which containers begin, wherever in the data they lie."""
    at = data.find(MAGIC)
    while at >= 0:
        if at + _CONTAINER.size <= len(data):
            _, version, header, size = _CONTAINER.unpack_from(data, at)
            if version == 1 and header >= _CONTAINER.size and at + header + size <= len(data):
                yield at
                at += header + size - 1
        at = data.find(MAGIC, at + 1)


def entries(data: bytes, at: int) -> Iterator[Entry]:
    """The entries of the container at an offset. Errors: ValueError when they are damaged."""
    _, _, header, size = _CONTAINER.unpack_from(data, at)
    position, end = at + header, min(at + header + size, len(data))
    while position + _ENTRY.size <= end:
        fields = _ENTRY.unpack_from(data, position)
        kind, own, padded, compressed = fields[0], fields[2], fields[3], fields[4]
        if kind == 0:
            return
        if own < _ENTRY.size or position + own + padded > end or compressed > padded:
            raise ValueError("a fat binary entry lies outside of its container")
        payload = data[position + own : position + own + (compressed or padded)]
        yield Entry(kind, fields[8], fields[11], payload, fields[13])
        position += own + padded
