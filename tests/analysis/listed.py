"""Templates of kernels that a test writes as nvdisasm would: what ptxas makes of a source changes with its version."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ptxtools.access.template import Slot, Template
from ptxtools.machine.build import build
from ptxtools.machine.cubin import Cubin, Kernel
from ptxtools.machine.disassembler import Line
from ptxtools.machine.linking import STEP, linked

BASE = 0x210  # where Hopper's parameters begin in constant bank 0
_LINE = re.compile(r"(?:(@!?U?P\d) )?([\w.]+) ?(.*)")


def listed(text: str, parameters: int, functions: Mapping[str, str] | None = None) -> Template:
    """A template of instructions, one a line; `name:` is a place to go to. `parameters`: how many, of 8 bytes each.

    `functions`: others of the file, by name, that the kernel may call.
    """
    slots = [Slot(number, 8 * number, 8) for number in range(parameters)]
    kernel = Kernel("kernel", parameter_base=BASE, parameter_size=8 * parameters, slots=slots)
    others = functions or {}
    cubin = Cubin({"kernel": kernel}, functions={name: Kernel(name) for name in others})
    lines = linked(cubin, "kernel", {name: _lines(each) for name, each in {"kernel": text, **others}.items()}.get)
    assert lines is not None
    return build(cubin, kernel, lines)


def _lines(text: str) -> list[Line]:
    lines: list[str] = []
    places: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.endswith(":"):
            places[line[:-1]] = f"{len(lines) * STEP:#x}"
        else:
            lines.append(line)
    return [_read(line, places) for line in lines]


def _read(line: str, places: dict[str, str]) -> Line:
    match = _LINE.fullmatch(line)
    assert match is not None, line
    operands = [places.get(operand, operand) for operand in map(str.strip, match[3].split(","))]
    return Line(match[1] or "", match[2], ",".join(operands))
