"""Reconvergence: where threads that wait for each other (BSYNC) continue, which BSSY names by barrier register.

When barrier registers run out, one is saved to another register and restored, perhaps into a different one (BMOV).
Saved values are not tracked: a restored barrier register may name any target of those that were saved.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ptxtools.machine.disassembler import Line
from ptxtools.machine.linking import STEP, offset_of
from ptxtools.machine.operand import split

_BARRIER = re.compile(r"B\d+\Z")


def joins(lines: Sequence[Line]) -> dict[str, set[int]]:
    """By barrier register, the numbers of the instructions that it may name."""
    found: dict[str, set[int]] = {}
    kept: set[str] = set()
    taken: set[str] = set()
    for line in lines:
        base = line.opcode.partition(".")[0]
        if base == "BSSY":
            register, _, target = line.operands.partition(",")
            if offset_of(target) >= 0:
                found.setdefault(register, set()).add(offset_of(target) // STEP)
        elif base == "BMOV":
            first, *sources = split(line.operands)
            taken |= {first} if _BARRIER.match(first) else set()
            kept |= {each for each in sources if _BARRIER.match(each)}
    places = {each for register in kept for each in found.get(register, ())}
    for register in taken:
        found[register] = found.get(register, set()) | places
    return found
