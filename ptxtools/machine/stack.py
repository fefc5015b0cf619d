"""Spills and other words on a thread's stack at fixed offsets: each becomes a register of its own, named by its offset,
if nothing else can write it.

The stack pointer R1 is set at the kernel's entry and then stays. A store to the stack at an offset that is not fixed,
or through a generic pointer that may point there, could change any word: then none of them is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptxtools.machine.instruction import Branch, MachineInstruction
from ptxtools.machine.operand import addresses
from ptxtools.reader.body import Body

_POINTER = "R1"
_POINTED = re.compile(r"\bR1\b|\bR0\.64\b")
_WORD_BYTES = 4
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_GENERIC_STORES = {"ST", "ATOM", "RED"}


def find_slots(body: Body) -> None:
    """Tells stores to the stack what they write, and loads what they read."""
    used = [(index, each) for index, each in _machine(body) if each.base in ("LDL", "STL")]
    if not used or not _is_settled(body, used[0][0]) or _is_written_elsewhere(body):
        return
    for _, each in used:
        place = _place(each)
        if place is None:
            continue
        size = next((_BYTES[part] for part in each.parts if part in _BYTES), _WORD_BYTES)
        words = [f"[{word}]" for word in range(place // _WORD_BYTES, -(-(place + size) // _WORD_BYTES))]
        if place % _WORD_BYTES == size % _WORD_BYTES == 0:
            each.slots = words
        if each.base == "STL":
            each.results = words


def _machine(body: Body) -> Iterator[tuple[int, MachineInstruction]]:
    for index, each in enumerate(body.instructions):
        if isinstance(each, MachineInstruction):
            yield index, each


def _is_settled(body: Body, first_use: int) -> bool:
    """Whether the stack pointer is set before its first use and any branch, once and for all."""
    setting = [(index, each) for index, each in _machine(body) if _POINTER in each.written]
    last = max((index for index, _ in setting), default=-1)
    branches = [(index, each) for index, each in enumerate(body.instructions) if isinstance(each, Branch)]
    return (
        last < first_use
        and not any(each.guard for _, each in setting)
        and all(index > last for index, _ in branches)
        and all(target > last for _, each in branches for target in _targets(body, each))
    )


def _targets(body: Body, branch: Branch) -> list[int]:
    names = [name for text in branch.operand_texts for name in body.lists.get(text, [text])]
    return [body.labels[name] for name in names if name in body.labels]


def _is_written_elsewhere(body: Body) -> bool:
    """Whether something may store to the stack at a place that is not fixed."""
    moving = [each for _, each in _machine(body) if _place(each) is None]
    if any(each.base == "STL" for each in moving):
        return True
    is_handed_on = any(_POINTED.search(each.text) and _POINTER not in each.written for each in moving)
    return is_handed_on and any(each.base in _GENERIC_STORES for each in moving)


def _place(instruction: MachineInstruction) -> int | None:
    """How far from the stack pointer it loads or stores, when that is fixed and the pointer itself is not stored."""
    if instruction.base not in ("LDL", "STL") or len(_POINTED.findall(instruction.text)) != 1:
        return None
    found = addresses(instruction.text)
    return found[0].displacement if len(found) == 1 and found[0].terms == ((_POINTER, ()),) else None
