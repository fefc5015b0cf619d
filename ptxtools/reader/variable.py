"""Variables in a state space: of a module or inside a function."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DECLARATION = re.compile(
    r"(?P<linkage>(?:\.(?:visible|extern|weak|common)\s++)*)\.(?P<space>global|const|shared|local|param)\b\s*+"
    r"(?:\.(?:attribute\s*+\([^)]*+\)|unified)\s*+)*(?:\.align\s++(?P<align>\d++)\s*+)?"
    r"(?:\.v(?P<vector>[248])\s*+)?\.(?P<type>[a-z]\w*+)\s++(?P<names>[^=]*+)(?:=.*)?\Z",
    re.DOTALL,
)
_NAME = re.compile(r"([%\w$.]++)\s*+(?:<\s*+(\d++)\s*+>)?\s*+((?:\[\s*+\d*+\s*+\]\s*+)*)\Z")
_DIMENSION = re.compile(r"\[\s*(\d*)\s*\]")
_DIGITS = re.compile(r"\d+\Z")
_MOST = 4096  # in one declaration with a count


@dataclass(frozen=True, slots=True)
class Variable:
    """`size` in bytes, 0 for extern arrays without one. `external`: declared, defined elsewhere."""

    name: str
    space: str
    size: int
    external: bool = False


def parse(text: str) -> list[Variable]:
    """Errors: ValueError when the declaration cannot be read."""
    match = _DECLARATION.match(text)
    if match is None:
        raise ValueError(f"'{text[:60]}' is no variable")
    bits = _DIGITS.search(match["type"])
    element = int(bits[0]) // 8 if bits else 8  # texture, sampler and surface references are handles
    element *= int(match["vector"] or 1)
    external = ".extern" in match["linkage"]
    names = [part.strip() for part in match["names"].split(",")]
    return [variable for name in names for variable in _named(name, match["space"], element, external)]


def _named(text: str, space: str, element: int, external: bool) -> list[Variable]:
    match = _NAME.match(text)
    if match is None:
        raise ValueError(f"'{text[:60]}' is no variable name")
    size = element
    for dimension in _DIMENSION.findall(match[3]):
        size *= int(dimension or 0)
    if match[2] is not None and int(match[2]) > _MOST:
        raise ValueError(f"'{text[:60]}' is more than {_MOST} variables")
    if match[2] is None:
        return [Variable(match[1], space, size, external)]
    return [Variable(f"{match[1]}{number}", space, size, external) for number in range(int(match[2]))]
