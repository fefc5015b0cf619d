"""Ranges of machine code that a test writes down as nvdisasm prints it, for sm_90."""

from __future__ import annotations

import struct

from ptxtools.access.template import Slot, Template
from ptxtools.machine.build import build
from ptxtools.machine.cubin import Cubin, Kernel
from ptxtools.machine.disassembler import Line
from ptxtools.ranges import Launch, Result, evaluate

P, Q = 0x7F0000000000, 0x7F1000000000
_AROUND = 1 << 20  # bytes of the allocation on both sides of where each of them points
_BASE = 0x210  # where parameters lie in constant bank 0
_BYTES = 8
_STEP = 16


def template(text: str) -> Template:
    """Of a kernel with parameters p, q, n and m, of 8 bytes each. Branches go to labels: "name:" before an instruction.

    Instructions that end a kernel need not be written.
    """
    labels: dict[str, int] = {}
    code: list[str] = []
    for line in filter(str.strip, [*text.splitlines(), "EXIT"]):
        label, _, instruction = line.rpartition(":")
        labels[label.strip()] = _STEP * len(code)
        code.append(instruction.strip().removesuffix(";").strip())
    slots = [Slot(number, _BYTES * number, _BYTES) for number in range(4)]
    kernel = Kernel("k", parameter_base=_BASE, parameter_size=_BYTES * len(slots), slots=slots)
    return build(Cubin({"k": kernel}), kernel, [_line(each, labels) for each in code])


def _line(text: str, labels: dict[str, int]) -> Line:
    guard, _, text = text.partition(" ") if text.startswith("@") else ("", "", text)
    opcode, _, operands = text.partition(" ")
    parts = [each.strip() for each in operands.split(",")] if operands else []
    return Line(guard, opcode, ",".join(hex(labels[each]) if each in labels else each for each in parts))


def result(text: str, n: int = 0, m: int = 0, grid: int = 4, block: int = 64) -> Result:
    """Of a launch; nothing is unknown."""
    sizes = {each: (each - _AROUND, each + _AROUND) for each in (P, Q)}
    values = struct.pack("<QQQQ", P, Q, n, m)
    found = evaluate(template(text), Launch(values, (grid, 1, 1), (block, 1, 1), sizes.get))
    assert found.unknown == []
    return found


def ranges(text: str, n: int = 0, m: int = 0, grid: int = 4, block: int = 64) -> list[tuple[int, int, int, int]]:
    """(first, last, stride, width) of each range of a launch, from the pointer that it belongs to."""
    return [(each.first, each.last, each.stride, each.width) for each in result(text, n, m, grid, block).ranges]
