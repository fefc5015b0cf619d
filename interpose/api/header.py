"""Prototypes of the driver functions, read from cuda.h.

cuda.h declares a function under its plain name and renames it with `#define` to the exported one; inside its
__CUDA_API_VERSION_INTERNAL part it declares older versions under the exported names themselves. Both are resolved here
to exported names. Nothing is checked: the compiler compares what is generated from this with cuda.h itself.
"""

import re
from dataclasses import dataclass
from pathlib import Path

INTERNAL = "#if defined(__CUDA_API_VERSION_INTERNAL)\n"
DEFINE = re.compile(r"^\s*#define\s+(cu[A-Z]\w*)\s+(?:__CUDA_API_(PTDS|PTSZ)\((\w+)\)|(cu[A-Z]\w*))\s*$", re.MULTILINE)
PROTOTYPE = re.compile(r"\bCUresult\s+CUDAAPI\s+(cu[A-Z]\w*)\s*\(([^;{]*)\)\s*;")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
NAME = re.compile(r"(\w+)\s*(?:\[\w*\])?$")


@dataclass(frozen=True, slots=True)
class Prototype:
    """`parameters` is the C text between the parentheses, `arguments` the names alone, for a call."""

    parameters: str
    arguments: tuple[str, ...]


def read_prototypes(path: Path) -> dict[str, Prototype]:
    """Prototype of each exported function that cuda.h declares."""
    text = COMMENT.sub(" ", path.read_text(encoding="utf-8", errors="replace"))
    plain, _, internal = text.rpartition(INTERNAL)
    exported = _renames(plain)
    found: dict[str, Prototype] = {}
    for name, parameters in PROTOTYPE.findall(plain):
        for symbol in exported.get(name, (name,)):
            found[symbol] = _prototype(parameters)
    for name, parameters in PROTOTYPE.findall(internal):
        found[name] = _prototype(parameters)
    return found


def _renames(text: str) -> dict[str, tuple[str, ...]]:
    """Plain name to the exported names that share its prototype: a per-thread variant has that of its base."""
    names: dict[str, tuple[str, ...]] = {}
    for name, kind, inner, direct in DEFINE.findall(text):
        names[name] = (inner, f"{inner}_{kind.lower()}") if kind else (direct,)
    return names


def _prototype(parameters: str) -> Prototype:
    text = " ".join(parameters.split())
    if text in ("", "void"):
        return Prototype("void", ())
    names = []
    for parameter in text.split(","):
        match = NAME.search(parameter.strip())
        if match is None:
            raise ValueError(f"parameter without a name: {parameter}")
        names.append(match[1])
    return Prototype(text, tuple(names))
