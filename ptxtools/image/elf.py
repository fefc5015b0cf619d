"""Sections of 64-bit little-endian ELF files: executables, libraries and cubins."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_HEADER = 64
_SECTION_HEADER = 64
_NO_BITS = 8
_CUDA_NO_BITS = {0x70000007, 0x7000000A, 0x70000015}  # global, shared and reserved shared memory
_CUDA_MACHINE = 190


def is_elf(data: bytes) -> bool:
    return data[:6] == b"\x7fELF\x02\x01"


def is_cubin(data: bytes) -> bool:
    """Whether an ELF file holds GPU machine code itself, and not a program for the host."""
    return is_elf(data) and len(data) >= _HEADER and struct.unpack_from("<H", data, 18)[0] == _CUDA_MACHINE


def section(data: bytes, wanted: str) -> bytes | None:
    """Contents of the first section of this name. Errors: ValueError when the file is damaged."""
    if not is_elf(data) or len(data) < _HEADER:
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    if not count:
        return None
    if entry < _SECTION_HEADER or names_index >= count or table + entry * count > len(data):
        raise ValueError("the section table lies outside of the file")
    names = _contents(data, table + entry * names_index)
    for at in range(table, table + entry * count, entry):
        (offset,) = struct.unpack_from("<I", data, at)
        if names.startswith(wanted.encode() + b"\0", offset):
            return _contents(data, at)
    return None


def _contents(data: bytes, header: int) -> bytes:
    (kind,) = struct.unpack_from("<I", data, header + 4)
    offset, size = struct.unpack_from("<QQ", data, header + 0x18)
    if kind == _NO_BITS or kind in _CUDA_NO_BITS:
        return b""
    if offset + size > len(data):
        raise ValueError("a section lies outside of the file")
    return data[offset : offset + size]


@dataclass(frozen=True, slots=True)
class Section:
    """`link` and `info` as in the section's header; `contents` empty where the file holds none."""

    name: str
    kind: int
    link: int
    info: int
    contents: bytes


def sections(data: bytes) -> list[Section]:
    """All sections, in order. Errors: ValueError when the file is damaged."""
    if not is_elf(data) or len(data) < _HEADER:
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    if not count:
        return []
    if entry < _SECTION_HEADER or names_index >= count or table + entry * count > len(data):
        raise ValueError("the section table lies outside of the file")
    names = _contents(data, table + entry * names_index)
    found = []
    for at in range(table, table + entry * count, entry):
        offset, kind = struct.unpack_from("<II", data, at)
        link, info = struct.unpack_from("<II", data, at + 0x28)
        name = names[offset : names.find(b"\0", offset)].decode(errors="replace") if offset < len(names) else ""
        found.append(Section(name, kind, link, info, _contents(data, at)))
    return found
