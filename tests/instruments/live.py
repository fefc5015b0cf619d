"""PTX without the loads, and the parts of loads, whose values nobody uses: an assembler may leave them out."""

from __future__ import annotations

import re
from collections.abc import Callable

from ptxtools.access.effects import elements, width
from ptxtools.reader import Function, read
from ptxtools.reader.instruction import Instruction
from ptxtools.reader.operand import Address, parse, split
from tests.instruments.demand import demands, is_plain_load

_LOAD = re.compile(r"(@\s*!?\s*[\w$%]+\s+)?(\w[\w.:]*)\s+(.*)\Z", re.DOTALL)
_SHAPE = re.compile(r"\.(?:v\d|[busf]\d+)(?=\.|\Z)")  # vector and type


def live(text: str, is_wanted: Callable[[str], bool] = lambda _: True) -> str:
    """The module with narrower loads in its functions, and in those kernels that are wanted; lines stay where they are.

    Errors: PtxError.
    """
    parts, position = [], 0
    functions = [each for each in read(text).functions.values() if each.has_body]
    changed = [each for each in functions if not each.is_kernel or is_wanted(each.name)]
    changes = sorted(change for each in changed for change in _changes(text, each))
    for begin, end, statement in changes:
        parts += [text[position:begin], statement, "\n" * text.count("\n", begin, end)]
        position = end
    return "".join([*parts, text[position:]])


def _changes(text: str, function: Function) -> list[tuple[int, int, str]]:
    """(begin, end, instead) of the loads that are not used as they are."""
    body, found = function.body, []
    asked = demands(body)
    for each in body.instructions:
        if not is_plain_load(each) or not {"global", "const"} & set(each.parts):
            continue
        used = [asked.get(name, 0) for name in each.written]
        size, count = width(each.parts) // 8, elements(each.parts)
        if len(used) == count and size in (1, 2, 4, 8):
            is_whole = [(body.register_type(name) or "f")[0] == "f" for name in each.written]
            pieces = [_piece(bits, size, whole) for bits, whole in zip(used, is_whole, strict=True)]
            if pieces != [(0, size)] * count:
                end = text.index(";", each.offset) + 1
                found.append((each.offset, end, _narrowed(text[each.offset : end - 1], each, pieces)))
    return found


def _piece(bits: int, size: int, whole: bool) -> tuple[int, int]:
    """(first byte, bytes) of what holds the used ones: an aligned power of two; (0, 0) for none."""
    used = [place for place in range(size) if bits >> 8 * place & 255]
    if not used or whole:
        return (0, size if used else 0)
    wide = 1
    while used[0] // wide != used[-1] // wide:
        wide *= 2
    return used[0] // wide * wide, wide


def _narrowed(statement: str, load: Instruction, pieces: list[tuple[int, int]]) -> str:
    """Loads of the pieces, the one into the address's own register last."""
    match = _LOAD.match(statement)
    assert match is not None, statement
    guard, opcode, (target, address, *rest) = match[1] or "", match[2], split(match[3].strip())
    place = parse(address)
    assert isinstance(place, Address), statement
    base, size = place.base or "0", width(load.parts) // 8
    made = []
    for number, (name, (first, count)) in enumerate(zip(split(target.strip("{} ")), pieces, strict=True)):
        if count:
            plain = _SHAPE.sub("", opcode) + (f".b{8 * count}" if count < size else f".{load.parts[-1]}")
            where = f"[{base}+{place.displacement + size * number + first}]"
            line = f"{guard}{plain} {', '.join([name, where, *rest])};"
            if first:
                line += f" {guard}shl.b{8 * size} {name}, {name}, {8 * first};"
            made.append((name == base, line))
    return " ".join(line for _, line in sorted(made))
