"""What PTX leaves open: what a division by zero gives, and what a register holds before it is written."""

from __future__ import annotations

import re
from dataclasses import replace

from ptxtools.access.template import Access, AccessKind, Node, Op, Template
from ptxtools.ranges import Launch, evaluate

_REGISTERS = re.compile(r"\.reg\s+\.[bsuf](16|32|64)\s+(%\w+)<(\d+)>\s*;")
_DIRECTIVES = re.compile(r"(?:\s*(?://[^\n]*\n|\.(?:reg|shared|local|pragma|loc)\b[^;]*;))*")


def divides_by_zero(template: Template, launch: Launch) -> bool:
    """Whether the launch may get to a division by what is zero in all its threads. False when that is not known."""
    divisions = [node for node in template.nodes if node.op in (Op.DIV, Op.REM)]
    return any(_divides_by_zero(template, each, launch) for each in divisions)


def _divides_by_zero(template: Template, division: Node, launch: Launch) -> bool:
    """As if there was an access with the divisor for its address: it touches byte 0 and no other."""
    seen = Node(
        Op.CONVERT, division.args[1:], division.width, False, block=division.block, condition=division.condition
    )
    access = Access(AccessKind.READ, len(template.nodes), 0, 1, division.condition, 0)
    asked = replace(template, nodes=[*template.nodes, seen], accesses=[access], tensors=[], unknown=[])
    found = evaluate(asked, launch)
    return not found.unknown and [(each.begin, each.end, each.whole) for each in found.ranges] == [(0, 1, False)]


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
