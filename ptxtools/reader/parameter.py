"""Parameters of kernels: where each lies in the launch's parameter block."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DECLARATION = re.compile(
    r"\.param\s++(?:\.align\s++(?P<align>\d++)\s++)?+\.(?P<type>[a-z]\w*+)\s++"
    r"(?:\.ptr\s*+(?:\.(?:const|global|local|shared)\s*+)?+(?:\.align\s++\d++\s*+)?+)?+"
    r"(?P<name>[%\w$.]++)\s*+(?P<array>\[\s*+(?P<count>\d*+)\s*+\])?+\Z"
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: `offset`, `size` and `align` in bytes."""

    name: str
    type: str
    index: int
    offset: int
    size: int
    align: int = 1


def parse(declarations: list[str]) -> list[Parameter]:
    """Parameters in order, laid out as the driver does. Errors: ValueError with the declaration that cannot be read."""
    parameters: list[Parameter] = []
    end = 0
    for index, text in enumerate(declarations):
        match = _DECLARATION.match(text)
        bits = re.search(r"\d+\Z", match["type"]) if match else None
        if match is None or bits is None:
            raise ValueError(f"'{text}' is no parameter")
        element = int(bits[0]) // 8
        size = element * int(match["count"] or 0) if match["array"] else element
        align = max(int(match["align"] or 0), element, 1)
        offset = -(-end // align) * align
        parameters.append(Parameter(match["name"], match["type"], index, offset, size, align))
        end = offset + size
    return parameters
