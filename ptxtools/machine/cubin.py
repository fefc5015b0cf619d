"""What a cubin says of its kernels besides their code: parameters, variables, routines, targets of branches."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ptxtools.access.template import Slot
from ptxtools.image import elf
from ptxtools.image.elf import Section

_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE, _RELA, _REL = 2, 4, 9
_ENTRY = 0x10  # in st_other: a kernel
_OBJECTS, _FUNCTION = {1, 13}, 2
_LOCAL = 0  # the binding of a symbol that no other file sees
_SIZED = 4  # an attribute with as many bytes as its value says
_PARAM_CBANK, _KPARAM_INFO, _CBANK_PARAM_SIZE, _BRANCH_TARGETS = 0x0A, 0x17, 0x19, 0x34
_HALVES = (0x38, 0x39)  # relocations of the lower and upper half of an address in an instruction
_INFO = ".nv.info."
_TEXT = ".text."
_ADDRESSES = ".nv.constant4"
_CONSTANTS = ".nv.constant3"
_NUMBERS = re.compile(r"\.nv\.constant([12])\.(.+)")


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    kind: int
    section: int
    value: int
    size: int
    is_entry: bool = False
    is_local: bool = False


@dataclass(slots=True)
class Kernel:
    """`parameter_base`, `parameter_size`: where parameters lie in constant bank 0.

    `branches`: targets of indirect branches, by the branch's offset. `symbol`: its number in the table of symbols; -1
    when it has none. `code_bytes`: of its instructions. `named`: by offset of the instruction, the variable or function
    whose address the loader puts into it, and how far in.
    """

    name: str
    symbol: int = -1
    code_bytes: int = 0
    parameter_base: int = 0
    parameter_size: int = 0
    slots: list[Slot] = field(default_factory=list)
    branches: dict[int, list[int]] = field(default_factory=dict)
    named: dict[int, tuple[str, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Cubin:
    """`sizes`: bytes of variables. `addresses`: for offsets of constant bank 4, whose address is there, and how far in.

    `constants`: (begin, end, name) of variables in constant bank 3. `routines`: by function, offsets of what it calls
    inside of itself. `functions`: those that kernels may call, local to the file and of a name of their own. `numbers`:
    by function and bank, what the compiler put into a constant bank.
    """

    kernels: dict[str, Kernel] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    addresses: dict[int, tuple[str, int]] = field(default_factory=dict)
    constants: list[tuple[int, int, str]] = field(default_factory=list)
    functions: dict[str, Kernel] = field(default_factory=dict)
    routines: dict[str, dict[str, int]] = field(default_factory=dict)
    numbers: dict[tuple[str, int], bytes] = field(default_factory=dict)


def read(data: bytes) -> Cubin:
    """Errors: ValueError when the cubin is damaged."""
    try:
        return _read(elf.sections(data))
    except struct.error as problem:
        raise ValueError(f"a damaged cubin: {problem}") from problem


def _read(sections: Sequence[Section]) -> Cubin:
    cubin = Cubin()
    symbols = _symbols(sections)
    entries = {symbol.name for symbol in symbols if symbol.is_entry}
    for section in sections:
        if section.name.startswith(_INFO):
            name = section.name[len(_INFO) :]
            kernel = _kernel(name, section.contents, name in entries)
            if kernel is not None:
                cubin.kernels[kernel.name] = kernel
        elif match := _NUMBERS.match(section.name):
            cubin.numbers[match[2], int(match[1])] = section.contents
        elif section.kind in (_REL, _RELA) and section.name.endswith(_ADDRESSES):
            cubin.addresses.update(_addresses(section, symbols))
    cubin.functions = _functions(sections, symbols)
    for section in sections:
        place = section.name.partition(_TEXT)[2]
        place_of = cubin.kernels.get(place) or cubin.functions.get(place)
        if section.kind in (_REL, _RELA) and place_of is not None:
            place_of.named.update(_addresses(section, symbols, _HALVES))
        match = _NUMBERS.search(section.name) if section.kind in (_REL, _RELA) and section.contents else None
        if match:
            cubin.numbers.pop((match[2], int(match[1])), None)  # the loader changes them
    for number, symbol in enumerate(symbols):
        place = sections[symbol.section].name if symbol.section < len(sections) else ""
        if symbol.kind in _OBJECTS:
            cubin.sizes[symbol.name] = symbol.size
            if place == _CONSTANTS:
                cubin.constants.append((symbol.value, symbol.value + symbol.size, symbol.name))
        elif symbol.kind == _FUNCTION and place.startswith(_TEXT):
            cubin.routines.setdefault(place[len(_TEXT) :], {})[symbol.name] = symbol.value
            kernel = cubin.kernels.get(symbol.name)
            if kernel is not None and place[len(_TEXT) :] == symbol.name:
                kernel.symbol, kernel.code_bytes = number, len(sections[symbol.section].contents)
    return cubin


def _symbols(sections: Sequence[Section]) -> list[Symbol]:
    table = next((section for section in sections if section.kind == _SYMBOL_TABLE), None)
    if table is None or table.link >= len(sections):
        return []
    names = sections[table.link].contents
    found = []
    whole = len(table.contents) // _SYMBOL.size * _SYMBOL.size
    for name, info, other, place, value, size in _SYMBOL.iter_unpack(table.contents[:whole]):
        text = names[name : names.find(b"\0", name)].decode(errors="replace")
        found.append(Symbol(text, info & 15, place, value, size, bool(other & _ENTRY), info >> 4 == _LOCAL))
    return found


def _functions(sections: Sequence[Section], symbols: Sequence[Symbol]) -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    names = Counter(symbol.name for symbol in symbols if symbol.kind == _FUNCTION)
    for number, symbol in enumerate(symbols):
        is_whole = symbol.section < len(sections) and sections[symbol.section].name == _TEXT + symbol.name
        if (
            symbol.kind == _FUNCTION
            and symbol.is_local
            and not symbol.is_entry
            and names[symbol.name] == 1
            and is_whole
        ):
            size = len(sections[symbol.section].contents)
            found[symbol.name] = Kernel(symbol.name, symbol=number, code_bytes=size)
    return found


def _addresses(
    section: Section, symbols: Sequence[Symbol], kinds: Collection[int] = ()
) -> Iterator[tuple[int, tuple[str, int]]]:
    """Relocations: of a bank of addresses, or of some kinds."""
    entry = struct.Struct("<QQq" if section.kind == _RELA else "<QQ")
    whole = len(section.contents) // entry.size * entry.size
    for fields in entry.iter_unpack(section.contents[:whole]):
        number = fields[1] >> 32
        if number < len(symbols) and (not kinds or fields[1] & 0xFFFFFFFF in kinds):
            yield fields[0], (symbols[number].name, fields[2] if len(fields) > 2 else 0)


def _kernel(name: str, info: bytes, is_entry: bool) -> Kernel | None:
    """What a section .nv.info says; None without the place of the parameters, unless it is a kernel without any."""
    kernel = Kernel(name)
    known = False
    for attribute, value in _attributes(info):
        if attribute == _PARAM_CBANK and len(value) >= 8:
            kernel.parameter_base, kernel.parameter_size = struct.unpack_from("<HH", value, 4)
            known = True
        elif attribute == _KPARAM_INFO and len(value) >= 12:
            _, ordinal, offset, packed = struct.unpack_from("<IHHI", value)
            kernel.slots.append(Slot(ordinal, offset, packed >> 18))
        elif attribute == _BRANCH_TARGETS:
            kernel.branches.update(_branches(value))
    kernel.slots.sort(key=lambda slot: slot.index)
    if known and not kernel.slots and kernel.parameter_size:
        kernel.slots = [Slot(0, 0, kernel.parameter_size)]  # large blocks are not described further
    return kernel if known or (is_entry and not kernel.slots) else None


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position + 4 <= len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, position)
        position += 4
        if form == _SIZED:
            yield attribute, info[position : position + value]
            position += value
        else:
            yield attribute, struct.pack("<H", value)


def _branches(value: bytes) -> Mapping[int, list[int]]:
    """Entries of (offset, two halves, count, targets)."""
    found: dict[int, list[int]] = {}
    position = 0
    while position + 12 <= len(value):
        offset, _, _, count = struct.unpack_from("<IHHI", value, position)
        position += 12
        if position + 4 * count > len(value):
            break
        found[offset] = list(struct.unpack_from(f"<{count}I", value, position))
        position += 4 * count
    return found
