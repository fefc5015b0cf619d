"""Rewrites a module's text into the clone of one of its kernels.

Before each instruction that accesses global memory a call is inserted, under the same guard, which tests the bytes that
the instruction will access. Variables of the module are those of the program (places.py). Nothing else of the kernel
changes: parameters, registers, shared memory and line numbers are as they were. Other kernels of the module lose their
bodies, and debugging information is removed, as it refers to those.

Not tested are copies through tensor maps, and constant memory, which nobody writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ptxtools.access.activation import called
from ptxtools.access.effects import TensorEffect, effects, is_harmless
from ptxtools.clone.check import declarations
from ptxtools.clone.places import Places
from ptxtools.clone.site import tests
from ptxtools.reader import Function, Module
from ptxtools.reader.text import closing_brace, without_comments

_HEAD = re.compile(r"\.address_size\s+(\d+)")
_VERSION = re.compile(r"\.version\s+(\d+)\.(\d+)")
_DEBUG_TARGET = re.compile(r"\.target\b[^\n]*?(,[ \t]*debug\b)")  # which asks for debugging information
_OLDEST = (6, 2)  # that has activemask
_SECTION = re.compile(r"\.section\s+[\w.$]+\s*(?=\{)")
_LINE = re.compile(r"\.loc\b[^\n]*")
_OTHER_WINDOWS = {"cvta.const": "isspacep.const", "cvta.param": "isspacep.param::entry"}

TENSORS = "copies through tensor maps"

Edit = tuple[int, int, str]  # the text between two offsets becomes this one


@dataclass(frozen=True, slots=True)
class Clone:
    """`text`: PTX; "": there is none. `untested`: what it does not test, or why there is none; "" when it tests all.

    The names of the program's variables that it is given: addresses of those in global memory, in their order, and
    contents of those in constant memory.
    """

    text: str
    untested: str = ""
    global_names: tuple[str, ...] = ()
    constant_names: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """As the shim reads it (tessera/clones.h)."""
        head = [f"!{self.untested}"] if self.untested else []
        head += [f"@{name}" for name in self.global_names] + [f"={name}" for name in self.constant_names]
        return "".join(f"{each}\0" for each in [*head, "", self.text]).encode()


def rewrite(source: str, module: Module, name: str) -> Clone:
    """`module`: the source, read. Errors: ValueError with why there is no clone; PtxError."""
    source = source.rstrip("\0")
    used, places = _reached(module, module.functions[name]), Places(module)
    places.find(used.values())
    plain, windows = without_comments(source), _windows(used.values())
    removed = [*_other_bodies(source, module, used), *_sections(source, plain)]
    edits = [*_head(plain), *removed, *_line_numbers(plain, removed)]
    for function in used.values():
        edits += _tests(source, plain, function, windows, places)
    untested = TENSORS if any(map(_copies_tensors, used.values())) else ""
    return Clone(_edited(source, edits), untested, tuple(places.global_names), tuple(places.constant_names))


def _reached(module: Module, kernel: Function) -> dict[str, Function]:
    """The kernel and the functions that it calls, by name."""
    found, waiting = {kernel.name: kernel}, [kernel]
    while waiting:
        for instruction in waiting.pop().body.instructions:
            if instruction.base != "call":
                continue
            function = module.functions.get(called(instruction)[0])
            if function is None:
                raise ValueError("call through a pointer")
            if function.has_body and function.name not in found:
                found[function.name] = function
                waiting.append(function)
    return found


def _head(text: str) -> Iterator[Edit]:
    head, version = _HEAD.search(text), _VERSION.search(text)
    if head is None or head[1] != "64" or version is None:
        raise ValueError("addresses do not have 64 bits")
    if (int(version[1]), int(version[2])) < _OLDEST:
        yield version.start(), version.end(), ".version {}.{}".format(*_OLDEST)
    if debug := _DEBUG_TARGET.search(text):
        yield debug.start(1), debug.end(1), ""
    yield head.end(), head.end(), declarations()


def _other_bodies(source: str, module: Module, used: Mapping[str, Function]) -> Iterator[Edit]:
    for each in module.kernels:
        if each.name not in used:
            yield each.begin, each.end, " ret; " + _lines(source, each.begin, each.end)


def _sections(source: str, text: str) -> Iterator[Edit]:
    """Debugging information."""
    for match in _SECTION.finditer(text):
        end = closing_brace(text, match.end()) + 1
        yield match.start(), end, _lines(source, match.start(), end)


def _line_numbers(text: str, removed: Iterable[Edit]) -> Iterator[Edit]:
    """Those that are not in what is removed anyway."""
    position = 0
    for begin, end, _ in [*sorted(removed), (len(text), len(text), "")]:
        for match in _LINE.finditer(text, position, begin):
            yield match.start(), match.end(), ""
        position = end


def _lines(source: str, begin: int, end: int) -> str:
    """The ends of lines, so that all others keep their numbers."""
    return "\n" * source.count("\n", begin, end)


def _windows(used: Iterable[Function]) -> list[str]:
    """Instructions that tell generic addresses of other memory from global ones, of that whose address is taken."""
    opcodes = {instruction.opcode for function in used for instruction in function.body.instructions}
    return [test for taken, test in _OTHER_WINDOWS.items() if any(opcode.startswith(taken) for opcode in opcodes)]


def _tests(source: str, plain: str, function: Function, windows: list[str], places: Places) -> Iterator[Edit]:
    for instruction in function.body.instructions:
        begin = end = instruction.offset
        text = "" if is_harmless(instruction.opcode) else tests(function, instruction, windows, places)
        if places.uses(function, instruction):
            end = plain.index(";", begin) + 1
            text += places.moved(function, instruction, source[begin:end])
        if text:
            yield begin, end, text


def _copies_tensors(function: Function) -> bool:
    return any(
        isinstance(effects(instruction.opcode, instruction.operand_count), TensorEffect)
        for instruction in function.body.instructions
        if instruction.base == "cp"
    )


def _edited(source: str, edits: list[Edit]) -> str:
    parts, position = [], 0
    for begin, end, text in sorted(edits):
        if begin < position:
            raise ValueError(f"two edits overlap at offset {begin}")
        parts += [source[position:begin], text]
        position = end
    return "".join([*parts, source[position:]])
