"""Sections of 64-bit little-endian ELF files: executables, libraries and cubins."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_HEADER = 64
_SECTION_HEADER = 64
_NO_BITS = 8


def is_elf(data: bytes) -> bool:
    return data[:6] == b"\x7fELF\x02\x01"


def sections(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(name, contents) of each section. Errors: ValueError when the file is damaged."""
    if not is_elf(data) or len(data) < _HEADER:
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    if count and (entry < _SECTION_HEADER or names_index >= count or table + entry * count > len(data)):
        raise ValueError("the section table lies outside of the file")
    if not count:
        return
    names = _contents(data, table + entry * names_index)
    for number in range(count):
        at = table + entry * number
        (offset,) = struct.unpack_from("<I", data, at)
        end = names.find(b"\0", offset)
        name = names[offset : end if end >= 0 else len(names)].decode(errors="replace")
        yield name, _contents(data, at)


def _contents(data: bytes, header: int) -> bytes:
    (kind,) = struct.unpack_from("<I", data, header + 4)
    offset, size = struct.unpack_from("<QQ", data, header + 0x18)
    if kind == _NO_BITS:
        return b""
    if offset + size > len(data):
        raise ValueError("a section lies outside of the file")
    return data[offset : offset + size]
