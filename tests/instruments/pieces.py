"""Cuts modules into files of one kernel each, so that a launch of it costs no more than that kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptxtools.reader import Function, read

# Of a newer architecture than the emulated GPU has, a text is tried all the same.
_TARGET = re.compile(r"^(\s*\.target\s+)sm_1\d\d[af]?\b", re.MULTILINE)
_VARIABLE = re.compile(
    r"^\s*(?:\.(?:visible|extern|weak|common)\s+)*\.(?:global|const|shared)\b([^;=]*)([^;]*);", re.MULTILINE
)
_DECLARATION = re.compile(r"^\s*(?:\.(?:visible|extern|weak)\s+)*\.func\b[^;{}]*;", re.MULTILINE)
_NAME = re.compile(r"(?<![.\w$%])[%A-Za-z_$][\w$]*")  # no directive or type


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """(name, text) of each kernel with the functions and variables that it needs. Errors: PtxError."""
    text = emulated(text)
    module = read(text)
    spans = sorted((_begin(text, each), _end(text, each), each.name) for each in module.functions.values())
    names = {each.name: set(_NAME.findall(text, each.header, each.end)) for each in module.functions.values()}
    for variable in _VARIABLE.finditer(text):
        held = set(_NAME.findall(variable[2]))
        for name in _NAME.findall(variable[1]):
            names[name] = held
    for kernel in module.kernels:
        kept = _reached(names, kernel.name)
        used = set().union(*(names[name] for name in kept))
        yield kernel.name, _assembled(text, spans, kept, used)


def emulated(text: str) -> str:
    """The text for the emulated GPU."""
    return _TARGET.sub(r"\g<1>sm_90", text)


def _begin(text: str, function: Function) -> int:
    return text.rfind("\n", 0, function.header) + 1


def _end(text: str, function: Function) -> int:
    return function.end + 1 if function.has_body else text.find(";", function.header) + 1


def _reached(names: dict[str, set[str]], kernel: str) -> set[str]:
    """The kernel, and what its functions call and its variables point to."""
    found: set[str] = set()
    pending = [kernel]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += names[name] & names.keys()
    return found


def _assembled(text: str, spans: list[tuple[int, int, str]], kept: set[str], used: set[str]) -> str:
    """The text without other functions, and without variables whose names are not used."""
    parts = []
    position = 0
    for begin, end, name in spans:
        parts.append(_between(text[position:begin], kept, used))
        if name in kept:
            parts.append(text[begin:end])
        position = end
    parts.append(_between(text[position:], kept, used))
    return "".join(parts)


def _between(text: str, kept: set[str], used: set[str]) -> str:
    """What stands between functions, without the declarations of others and variables that nobody uses."""
    text = _DECLARATION.sub(lambda match: _if_named(match[0], match[0], kept), text)
    return _VARIABLE.sub(lambda match: _if_named(match[0], match[1], used), text)


def _if_named(text: str, naming: str, names: set[str]) -> str:
    return "" if names.isdisjoint(_NAME.findall(naming)) else text
