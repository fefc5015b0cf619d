"""In gdb: each instruction from step_begin() to step_end(), twice; a line of JSON per access to memory but the stack's.

The file that TESSERA_ACCESSES names gets [run, written, address, function, instruction] each. x86-64; only what
operands name: what string instructions and pushes touch besides is the stack here, or a block that is copied whole.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import gdb

MEMORY = re.compile(
    r"(?P<segment>%fs:)?(?P<offset>-?0x[0-9a-f]+)?(?:\((?P<base>%\w+)?(?:,(?P<index>%\w+)(?:,(?P<scale>\d))?)?\))?$"
)
ONLY_READ = ("cmp", "test", "call", "jmp", "bt ", "push", "ucomis", "comis", "mul", "imul", "div", "idiv")
NO_ACCESS = ("lea", "nop", "endbr", "prefetch", "data16", "cs ")
READ_AND_WRITTEN = ("lock", "xchg")
RUNS, MOST_INSTRUCTIONS, STACK = 2, 20_000, 1 << 20


def register(name: str) -> int:
    return int(gdb.parse_and_eval(f"(unsigned long long)${name.removeprefix('%')}")) % 2**64


def address_of(operand: re.Match[str], next_address: int) -> int:
    address = int(operand["offset"] or "0", 0)
    if operand["segment"]:
        address += register("%fs_base")
    if operand["base"]:
        address += next_address if operand["base"] == "%rip" else register(operand["base"])
    if operand["index"]:
        address += register(operand["index"]) * int(operand["scale"] or 1)
    return address % 2**64


def operands(text: str) -> list[str]:
    """Of an instruction in AT&T's order, what it writes last."""
    return re.findall(r"(?:[^,(]|\([^)]*\))+", text.split("#")[0].split("<")[0].split(None, 1)[-1])


def accesses(frame: gdb.Frame) -> list[tuple[bool, int, str]]:
    """What the next instruction does to memory."""
    decoded = frame.architecture().disassemble(frame.pc())[0]
    text, found = str(decoded["asm"]), []
    if text.startswith(NO_ACCESS):
        return []
    listed = [part.strip().removeprefix("*") for part in operands(text)]
    for place, part in enumerate(listed):
        operand = MEMORY.search(part.split()[-1]) if "(" in part or "%fs:" in part else None
        if operand:
            writes = place == len(listed) - 1 and not text.startswith(ONLY_READ)
            written = writes or text.startswith(READ_AND_WRITTEN)
            found.append((written, address_of(operand, frame.pc() + decoded["length"]), text))
    return found


def step_through(run: int, out: list[str]) -> None:
    for _ in range(MOST_INSTRUCTIONS):
        frame = gdb.selected_frame()
        name = frame.name() or "?"
        if name == "step_end":
            return
        stack = register("%rsp")
        for written, address, text in accesses(frame):
            if abs(address - stack) > STACK:
                out.append(json.dumps([run, written, address, name, text]))
        gdb.execute("stepi", to_string=True)
    raise RuntimeError("the launch does not end")


def main() -> None:
    for setting in ("pagination off", "confirm off", "disassembly-flavor att", "disable-randomization off"):
        gdb.execute(f"set {setting}")
    out: list[str] = []
    gdb.execute("break step_begin")
    gdb.execute("run", to_string=True)
    for run in range(RUNS):
        gdb.execute("set scheduler-locking on")
        step_through(run, out)
        gdb.execute("set scheduler-locking off")
        gdb.execute("continue", to_string=True)
    Path(os.environ["TESSERA_ACCESSES"]).write_text("\n".join(out) + "\n")


main()
