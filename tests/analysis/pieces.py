"""Cuts modules into files of one kernel each, so that a launch of it costs no more than that kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptxtools.reader import Function, Module, read

# Of a newer architecture than the emulated GPU has, a text is tried all the same.
_TARGET = re.compile(r"^(\s*\.target\s+)sm_1\d\d[af]?\b", re.MULTILINE)
_VARIABLE = re.compile(
    r"^\s*(?:\.(?:visible|extern|weak|common)\s+)*\.(?:global|const|shared)\b([^;=]*)[^;]*;", re.MULTILINE
)
_NAME = re.compile(r"[%A-Za-z_$][\w$]*")


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """(name, text) of each kernel with the functions and variables that it needs. Errors: PtxError."""
    text = emulated(text)
    module = read(text)
    spans = sorted((_begin(text, each), _end(text, each), each.name) for each in module.functions.values())
    names = {each.name: set(_NAME.findall(text, each.header, each.end)) for each in module.functions.values()}
    for kernel in module.kernels:
        kept = _reached(module, names, kernel.name)
        used = set().union(*(names[name] for name in kept))
        yield kernel.name, _assembled(text, spans, kept, used)


def emulated(text: str) -> str:
    """The text for the emulated GPU."""
    return _TARGET.sub(r"\g<1>sm_90", text)


def _begin(text: str, function: Function) -> int:
    return text.rfind("\n", 0, function.header) + 1


def _end(text: str, function: Function) -> int:
    return function.end + 1 if function.has_body else text.find(";", function.header) + 1


def _reached(module: Module, names: dict[str, set[str]], kernel: str) -> set[str]:
    found: set[str] = set()
    pending = [kernel]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += names[name] & module.functions.keys()
    return found


def _assembled(text: str, spans: list[tuple[int, int, str]], kept: set[str], used: set[str]) -> str:
    """The text without other functions, and without variables whose names are not used."""
    parts = []
    position = 0
    for begin, end, name in spans:
        parts.append(_VARIABLE.sub(lambda match: _kept(match, used), text[position:begin]))
        if name in kept:
            parts.append(text[begin:end])
        position = end
    parts.append(text[position:])
    return "".join(parts)


def _kept(variable: re.Match[str], used: set[str]) -> str:
    return "" if used.isdisjoint(_NAME.findall(variable[1])) else variable[0]
