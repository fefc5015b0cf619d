"""Kernels that a test writes as nvdisasm prints them, for sm_90.

What ptxas makes of a source changes with its version.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ptxtools.access.template import Slot, Template
from ptxtools.machine.build import build
from ptxtools.machine.cubin import Cubin, Kernel
from ptxtools.machine.disassembler import Line
from ptxtools.machine.linking import STEP, linked
from ptxtools.ranges import Launch, Result, evaluate

P, Q = 0x7F0000000000, 0x7F1000000000
SPAN_BYTES = 1 << 28  # of the allocation of p, for `spans`
_AROUND = 1 << 20  # bytes of the allocation on both sides of where each of them points
_BASE = 0x210  # where parameters lie in constant bank 0
_BYTES = 8


def listed(text: str, parameters: int, functions: Mapping[str, str] | None = None) -> Template:
    """The template of a kernel. Branches go to labels: "name:" before an instruction, or a line above it.

    `parameters`: how many, of 8 bytes each. `functions`: others of the file, by name, that the kernel may call.
    """
    slots = [Slot(number, _BYTES * number, _BYTES) for number in range(parameters)]
    kernel = Kernel("kernel", parameter_base=_BASE, parameter_size=_BYTES * parameters, slots=slots)
    others = functions or {}
    cubin = Cubin({"kernel": kernel}, functions={name: Kernel(name) for name in others})
    lines = linked(cubin, "kernel", {name: _lines(each) for name, each in {"kernel": text, **others}.items()}.get)
    assert lines is not None
    return build(cubin, kernel, lines)


def _lines(text: str) -> list[Line]:
    labels: dict[str, int] = {}
    code: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        label, _, instruction = line.rpartition(":")
        labels[label.strip()] = STEP * len(code)
        if instruction.strip():
            code.append(instruction.strip())
    return [_line(each, labels) for each in code]


def _line(text: str, labels: dict[str, int]) -> Line:
    guard, _, text = text.partition(" ") if text.startswith("@") else ("", "", text)
    opcode, _, operands = text.partition(" ")
    parts = map(str.strip, operands.split(","))
    return Line(guard, opcode, ",".join(hex(labels[each]) if each in labels else each for each in parts))


def template(text: str) -> Template:
    """Of a kernel with parameters p, q, n and m. The instruction that ends it need not be written."""
    return listed(f"{text}\nEXIT", 4)


def result(text: str, n: int = 0, m: int = 0, grid: int = 4, block: int = 64) -> Result:
    """Of a launch of such a kernel; nothing is unknown."""
    sizes = {each: (each - _AROUND, each + _AROUND) for each in (P, Q)}
    values = struct.pack("<QQQQ", P, Q, n, m)
    found = evaluate(template(text), Launch(values, (grid, 1, 1), (block, 1, 1), sizes.get))
    assert found.unknown == []
    return found


def ranges(text: str, n: int = 0, m: int = 0, grid: int = 4, block: int = 64) -> list[tuple[int, int, int, int]]:
    """(first, last, stride, width) of each range of a launch, from the pointer that it belongs to."""
    return [(each.first, each.last, each.stride, each.width) for each in result(text, n, m, grid, block).ranges]


def spans(text: str, *numbers: int, threads: int = 64) -> list[tuple[int, int]]:
    """(first, last) of each range of a block of a kernel whose parameters are p and these numbers."""
    values = struct.pack(f"<{1 + len(numbers)}Q", P, *numbers)
    launch = Launch(values, (1, 1, 1), (threads, 1, 1), {P: (P, P + SPAN_BYTES)}.get)
    found = evaluate(listed(text, 1 + len(numbers)), launch)
    assert found.unknown == []
    return [(each.first, each.last) for each in found.ranges]
