"""One cubin with the code of some kernels of several, so that nvdisasm, whose start takes long, runs once for all.

Of each kernel there are its code, the relocations in it, and the symbols that lie in the code or that relocations name.
As nvdisasm gives another name to what is called like something else, all names end with the cubin's number: "name~3~".

Of cubins that are not linked, nvdisasm works out what relocations give with the contents of other sections: they are
not for excerpts.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ptxtools.image import elf
from ptxtools.image.elf import Section

_HEADER_BYTES = 64
_LINKED = b"\2\0"  # the type of file
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ENTRIES = {4: struct.Struct("<QQq"), 9: struct.Struct("<QQ")}  # of relocations with an addend, and without
_SYMBOLS, _STRINGS = 2, 3
_WITH_CODE = 6  # flags
_NAMES_AT, _SYMBOLS_AT = 1, 2  # the numbers of these sections
_FUNCTION = 0xFFFFFF  # of the info of a section with code, the number of its symbol; registers are above it
_KIND = 0xFFFFFFFF  # of what a relocation says, its kind; the number of a symbol is above it
_RESERVED = 0xFF00  # numbers of sections that are none
_ALIGNMENT = 128
_TEXT = ".text."
_MARK = re.compile(r"~\d+~")


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: bytes
    info: int
    other: int
    section: int
    value: int
    size: int


@dataclass(slots=True)
class _Part:
    """A section of an excerpt. `name`: its place among the names. `entry`: bytes of each entry, if it has any."""

    name: int
    kind: int
    flags: int = 0
    link: int = 0
    info: int = 0
    contents: bytes = b""
    entry: int = 0


def likeness(cubin: bytes) -> bytes | None:
    """What cubins of one excerpt have in common: format and architecture. None of those that are not linked."""
    return cubin[:0x18] + cubin[0x30:0x34] if cubin[0x10:0x12] == _LINKED else None


def unmarked(text: str) -> str:
    """A text with the names as they were."""
    return _MARK.sub("", text) if "~" in text else text


class Excerpt:
    """Of cubins of one likeness. After an error it is of no use."""

    def __init__(self) -> None:
        self._header = b""
        self._cubins = 0
        self._names = bytearray(1)
        self._symbols = bytearray(_SYMBOL.size)
        self._parts = [_Part(0, 0), _Part(0, _STRINGS), _Part(0, _SYMBOLS, link=_NAMES_AT, entry=_SYMBOL.size)]

    def add(self, cubin: bytes, kernels: Collection[str]) -> str:
        """What these kernels' names end with. Errors: ValueError when the cubin is damaged."""
        mark = f"~{self._cubins}~"
        try:
            self._add(cubin, kernels, mark.encode())
        except (struct.error, LookupError) as problem:
            raise ValueError(f"a damaged cubin: {problem}") from problem
        self._cubins += 1
        self._header = cubin[:_HEADER_BYTES]
        return mark

    def to_bytes(self) -> bytes:
        """A cubin to be read by nvdisasm, not to be run."""
        self._parts[_NAMES_AT].contents = bytes(self._names)
        self._parts[_SYMBOLS_AT].contents = bytes(self._symbols)
        self._parts[_SYMBOLS_AT].info = len(self._symbols) // _SYMBOL.size
        data, headers = bytearray(self._header), bytearray()
        for part in self._parts:
            data += bytes(-len(data) % _ALIGNMENT)
            headers += _SECTION_HEADER.pack(
                part.name,
                part.kind,
                part.flags,
                0,
                len(data),
                len(part.contents),
                part.link,
                part.info,
                _ALIGNMENT,
                part.entry,
            )
            data += part.contents
        struct.pack_into("<QQ", data, 0x20, 0, len(data))  # there are no segments
        struct.pack_into("<5H", data, 0x36, 0, 0, _SECTION_HEADER.size, len(self._parts), _NAMES_AT)
        return bytes(data + headers)

    def _add(self, cubin: bytes, kernels: Collection[str], mark: bytes) -> None:
        sections = elf.sections(cubin)
        symbols = _symbols(sections)
        texts = {n for n, each in enumerate(sections) if each.name in {_TEXT + kernel for kernel in kernels}}
        changes = [each for each in sections if each.kind in _ENTRIES and each.info in texts]
        used = {n for n, each in enumerate(symbols) if each.section in texts}.union(*map(_named, changes))
        places = {old: len(self._parts) + new for new, old in enumerate(sorted(texts))}
        numbers = {old: len(self._symbols) // _SYMBOL.size + new for new, old in enumerate(sorted(used))}
        for old in places:
            each = sections[old]
            info = each.info & ~_FUNCTION | numbers.get(each.info & _FUNCTION, 0)
            self._part(each, mark, _Part(0, each.kind, _WITH_CODE, _SYMBOLS_AT, info, each.contents))
        for each in changes:
            contents = _renumbered(each, numbers)
            entry = _ENTRIES[each.kind].size
            self._part(each, mark, _Part(0, each.kind, 0, _SYMBOLS_AT, places[each.info], contents, entry))
        for old in numbers:
            self._symbol(symbols[old], places, mark)

    def _part(self, section: Section, mark: bytes, part: _Part) -> None:
        part.name = self._name(section.name.encode() + mark)
        self._parts.append(part)

    def _symbol(self, symbol: _Symbol, places: Mapping[int, int], mark: bytes) -> None:
        section = symbol.section if symbol.section >= _RESERVED else places.get(symbol.section, 0)
        name = self._name(symbol.name + mark) if symbol.name else 0
        self._symbols += _SYMBOL.pack(name, symbol.info, symbol.other, section, symbol.value, symbol.size)

    def _name(self, name: bytes) -> int:
        """Where it lies among the names."""
        place = len(self._names)
        self._names += name + b"\0"
        return place


def _symbols(sections: Sequence[Section]) -> list[_Symbol]:
    table = next((section for section in sections if section.kind == _SYMBOLS), None)
    if table is None:
        raise ValueError("a cubin without symbols")
    names = sections[table.link].contents
    whole = len(table.contents) // _SYMBOL.size * _SYMBOL.size
    entries = _SYMBOL.iter_unpack(table.contents[:whole])
    return [_Symbol(names[name : names.find(b"\0", name)], *fields) for name, *fields in entries]


def _named(relocations: Section) -> set[int]:
    """The numbers of symbols that relocations name."""
    return {entry[1] >> 32 for entry in _ENTRIES[relocations.kind].iter_unpack(relocations.contents)}


def _renumbered(relocations: Section, numbers: Mapping[int, int]) -> bytes:
    """Relocations that name the symbols by their new numbers."""
    form = _ENTRIES[relocations.kind]
    return b"".join(
        form.pack(entry[0], entry[1] & _KIND | numbers[entry[1] >> 32] << 32, *entry[2:])
        for entry in form.iter_unpack(relocations.contents)
    )
