"""Functions of a cubin that its kernels call: their code stands behind the kernel's, as if they were routines of it.

A function is taken when no other can take its place: its name is local to the file, and only one has it. One that
reads constants of its own is left out, as those lie in the bank of the kernel that calls it, at a place not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ptxtools.machine.cubin import Cubin, Kernel
from ptxtools.machine.disassembler import Line
from ptxtools.machine.operand import split

STEP = 16  # bytes of an instruction
_HALF = re.compile(r"(32@(?:lo|hi))\((?:0x[0-9a-f]+|\([^()]*@srel\))\)")
_PLACE = re.compile(r"0x[0-9a-f]+\Z")
_GOING = {"BRA", "JMP", "BSSY", "CALL", "WARPSYNC"}
_OWN_CONSTANTS = re.compile(r"\bc\[(?:0x[12]|UR\d+)\]")

_BEHIND = Line("", "BPT.TRAP", "")  # nothing runs on from the end of a function into the next one

Lines = Callable[[str], "Sequence[Line] | None"]


def offset_of(operand: str) -> int:
    """The offset that an operand says, in the function; -1 of others."""
    return int(operand, 16) if _PLACE.match(operand) else -1


def called(line: Line) -> str:
    """The name of the function that an instruction calls by its address; "" of others."""
    return line.operands if line.opcode.startswith("CALL.ABS") and "," not in line.operands else ""


def with_names(line: Line, named: tuple[str, int] | None) -> str:
    """The operands; half an address that is a number, or seen from here, has the name that the loader knows it by."""
    if named is None or "@" not in line.operands:
        return line.operands
    name, addend = named
    return _HALF.sub(rf"\g<1>({name} + {addend:#x})", line.operands)


def linked(cubin: Cubin, kernel: str, lines: Lines) -> list[Line] | None:
    """A kernel's lines and, behind them, those of functions that it calls; calls of these go to offsets.

    `lines`: of a function, as far as they are known. None when the kernel's are not.
    """
    own = lines(kernel)
    if own is None:
        return None
    found, begins = list(own), {kernel: 0}
    index = 0
    while index < len(found):
        name = called(found[index])
        if name in cubin.functions and name not in begins:
            more = lines(name)
            if more is not None and not any(_OWN_CONSTANTS.search(each.operands) for each in more):
                found.append(_BEHIND)
                begins[name] = len(found)
                found += _moved(more, len(found), cubin.functions[name], cubin.routines.get(name, {}))
        if name in begins and name != kernel:
            found[index] = replace(found[index], operands=hex(begins[name] * STEP))
        index += 1
    return found


def _first(line: Line) -> str:
    return line.operands.partition(",")[0].partition(" ")[0]


def returning(line: Line) -> tuple[str, str]:
    """Of an instruction that returns: the register that it goes to, and the function whose beginning that counts from;
    "" when it is the one that it stands in.
    """
    return _first(line), line.operands.partition(",")[2]


def _moved(lines: Sequence[Line], by: int, function: Kernel, routines: Mapping[str, int]) -> list[Line]:
    """A function's lines as they are behind so many others."""
    found = []
    for index, line in enumerate(lines):
        line = replace(line, operands=with_names(line, function.named.get(index * STEP)))
        base = line.opcode.partition(".")[0]
        if line.opcode.startswith("RET.REL"):
            line = replace(line, operands=f"{_first(line)},{function.name}")
        elif base in _GOING and line.operands:
            *before, last = split(line.operands)
            target = routines.get(last, offset_of(last))
            if target >= 0:
                line = replace(line, operands=",".join([*before, hex(target + by * STEP)]))
        found.append(line)
    return found
