"""Holds the registers that instructions are taken to write against what nvdisasm says of them.

    scripts/lab registers-written CUBIN...

Prints instructions that write a register which the analysis does not know of, each opcode once, and which cubins
nvdisasm tells nothing of (it has to follow all branches of one). Exit status 1 when there is such an instruction.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ptxtools.machine.disassembler import locate
from scripts.commands.dispatch import parser_of
from tests.instruments.registers import missed


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("cubins", nargs="+", type=Path, metavar="CUBIN")
    cubins: list[Path] = parser.parse_args(words).cubins
    tool = locate()
    if tool is None:
        parser.error("nvdisasm is not here")
    said: set[str] = set()
    for cubin in cubins:
        try:
            for each in missed(tool, cubin):
                opcode = each.text.partition(" ")[0]
                if opcode not in said:
                    print(f"{cubin}: {each.offset:#x}: {each.text}: {', '.join(sorted(each.registers))}")
                said.add(opcode)
        except subprocess.CalledProcessError as problem:
            print(f"{cubin}: {problem.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    return 1 if said else 0
