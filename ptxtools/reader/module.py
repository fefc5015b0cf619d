"""A module: one PTX text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ptxtools.reader import variable
from ptxtools.reader.function import Function
from ptxtools.reader.text import Lines, closing_brace, error, without_comments
from ptxtools.reader.variable import Variable

_SPACE = re.compile(r"[\s;]*")
_LINE_DIRECTIVE = re.compile(r"\.(version|target|address_size|file|loc|pragma)\b\s*([^\n;]*)")
_FUNCTION = re.compile(r"(?:\.(?:visible|extern|weak|common)\s+)*\.(entry|func)\b")
_SECTION = re.compile(r"\.section\s+[\w.$]+\s*")
_OTHER = re.compile(r"\.(?:alias|callprototype)\b")
_STOP = re.compile(r"[{;]")


@dataclass(slots=True)
class Module:
    """`functions` by name; a declaration is replaced by its definition. `target` is as written: "sm_80", "sm_90a,
    debug".
    """

    version: str = ""
    target: str = ""
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)

    @property
    def kernels(self) -> list[Function]:
        return [function for function in self.functions.values() if function.is_kernel and function.has_body]


def read(source: str) -> Module:
    """Reads a PTX text up to its functions' bodies. Errors: PtxError."""
    text = without_comments(source.rstrip("\0"))
    module, lines = Module(), Lines(text)
    position = _skip(text, 0)
    while position < len(text):
        position = _skip(text, _item(module, text, lines, position))
    if not module.version:
        raise error(text, 0, "no .version directive")
    return module


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _item(module: Module, text: str, lines: Lines, position: int) -> int:
    """Reads the item at an offset; the result is the offset behind it."""
    if text[position] != ".":
        raise error(text, position, f"'{text[position : position + 20].split()[0]}' is no directive")
    if match := _LINE_DIRECTIVE.match(text, position):
        if match[1] == "version":
            module.version = match[2].strip()
        elif match[1] == "target":
            module.target = match[2].strip()
        return match.end()
    if match := _FUNCTION.match(text, position):
        return _function(module, text, lines, match.end(), match[1] == "entry")
    if match := _SECTION.match(text, position):
        if text[match.end() : match.end() + 1] != "{":
            raise error(text, position, "a section without braces")
        return closing_brace(text, match.end()) + 1
    end = text.find(";", position)
    if end < 0:
        raise error(text, position, "a statement without semicolon")
    if not _OTHER.match(text, position):
        try:
            found = variable.parse(text[position:end])
        except ValueError as problem:
            raise error(text, position, str(problem)) from problem
        module.variables.update((each.name, each) for each in found)
    return end + 1


def _function(module: Module, text: str, lines: Lines, header: int, is_kernel: bool) -> int:
    stop = _STOP.search(text, header)
    if stop is None:
        raise error(text, header, "a function without body or semicolon")
    if stop[0] == ";":
        function = Function(text, lines, header, stop.start(), stop.start(), is_kernel)
        module.functions.setdefault(function.name, function)
        return stop.end()
    end = closing_brace(text, stop.start())
    function = Function(text, lines, header, stop.end(), end, is_kernel)
    module.functions[function.name] = function
    return end + 1
