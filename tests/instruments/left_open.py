"""What PTX leaves open: what a division by zero gives, and what a register holds before it is written."""

from __future__ import annotations

import re
from contextlib import suppress

from ptxtools.access.depth import deep
from ptxtools.access.template import Op, Template
from ptxtools.ranges import Launch
from ptxtools.ranges.evaluate import Evaluation
from ptxtools.ranges.form import TooMuchError

_REGISTERS = re.compile(r"\.reg\s+\.[bsuf](16|32|64)\s+(%\w+)<(\d+)>\s*;")
_DIRECTIVES = re.compile(r"(?:\s*(?://[^\n]*\n|\.(?:reg|shared|local|pragma|loc)\b[^;]*;))*")


def divides_by_zero(template: Template, launch: Launch) -> bool:
    """Whether the launch may get to a division by what is zero in all its threads. False when that is not known."""
    of = Evaluation(template, launch.parameters, launch.grid, launch.block, launch.variables)
    divisions = [node for node in template.nodes if node.op in (Op.DIV, Op.REM)]
    with deep(), suppress(TooMuchError, RecursionError):
        return any(
            of.symbols.number(of.viewed(node.args[1], node.width, node.signed, node.context)) == 0
            and of.facts(node.context) is not None
            for node in divisions
        )
    return False


def filled(text: str, kernel: str, byte: int) -> str:
    """The text with a kernel whose registers, but predicates, hold a byte everywhere before anything is written."""
    entry = re.search(rf"\.entry\s+{re.escape(kernel)}\b[^{{]*{{", text)
    assert entry
    directives = _DIRECTIVES.match(text, entry.end())
    assert directives
    found = [(int(bits), name, int(count)) for bits, name, count in _REGISTERS.findall(directives[0])]
    value = {bits: f"0x{byte:02x}" + f"{byte:02x}" * (bits // 8 - 1) for bits in (16, 32, 64)}
    moves = [f"mov.b{bits} {name}{n}, {value[bits]};\n" for bits, name, count in found for n in range(count)]
    return text[: directives.end()] + "\n" + "".join(moves) + text[directives.end() :]
