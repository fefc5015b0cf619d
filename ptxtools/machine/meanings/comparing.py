"""Choices, least and greatest ones, comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtools.access.template import Op
from ptxtools.machine.instruction import MachineInstruction
from ptxtools.machine.operand import Operand, Sort

if TYPE_CHECKING:
    from ptxtools.machine.values import Place

_COMPARISONS = {"LT": "lt", "LE": "le", "GT": "gt", "GE": "ge", "EQ": "eq", "NE": "ne"}
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}  # when the operands change places
_WORD = (1 << 32) - 1


def select(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate or len(code.sources) < 3:
        return None
    a, b, predicate = code.sources[0], code.sources[1], code.sources[-1]
    x, y = (at.signed(each, at.word(each, at.position), 32) for each in (a, b))
    return at.make.select(at.predicate(predicate), x, y)


def minmax(at: Place, code: MachineInstruction) -> int | None:
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    choice = [each for each in code.sources if each.sort is Sort.PREDICATE]
    if at.is_predicate or len(numbers) != 2 or not choice:
        return None
    if "S64" in code.parts or "U64" in code.parts:
        return _minmax_of_pairs(at, numbers, choice, "S64" in code.parts)
    return _least_or_greatest(at, at.value(numbers[0]), at.value(numbers[1]), choice[-1], "U32" not in code.parts)


def _minmax_of_pairs(at: Place, numbers: list[Operand], choice: list[Operand], signed: bool) -> int | None:
    """The first predicate chooses; what another one than false, the second, would do is not known."""
    if len(choice) != 2 or at.make.of(at.predicate(choice[1])) != 0:
        return None
    whole = _least_or_greatest(at, at.pair(numbers[0]), at.pair(numbers[1]), choice[0], signed, 64)
    if whole is None:
        return None
    return at.make.high(whole) if at.position else at.make.low(whole)


def _least_or_greatest(at: Place, a: int, b: int, choice: Operand, signed: bool, width: int = 32) -> int | None:
    is_least = at.make.of(at.predicate(choice))
    if is_least is None:
        return None
    return at.make.node(Op.MIN if is_least else Op.MAX, (a, b), width, signed)


def add_minmax(at: Place, code: MachineInstruction) -> int | None:
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    choice = [each for each in code.sources if each.sort is Sort.PREDICATE]
    if at.is_predicate or len(numbers) != 3 or not choice or code.parts[1:] not in ([], ["U32"]):
        return None
    total = at.make.add(at.value(numbers[0]), at.value(numbers[1]))
    return _least_or_greatest(at, total, at.value(numbers[2]), choice[-1], "U32" not in code.parts)


def absolute(at: Place, code: MachineInstruction) -> int | None:
    return None if at.is_predicate else at.make.node(Op.ABS, (at.value(code.sources[0]),), 32, True)


def compare(at: Place, code: MachineInstruction) -> int | None:
    """Destination 0 gets the comparison and the predicate, destination 1 its opposite and the predicate."""
    parts = code.parts
    name = _COMPARISONS.get(parts[1])
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    predicates = [each for each in code.sources if each.sort is Sort.PREDICATE]
    if name is None or len(numbers) != 2 or not predicates or "XOR" in parts:
        return None
    signed = not {"U32", "U64"} & set(parts)
    if "EX" in parts:
        test = _compare_pairs(at, numbers, name, signed, at.predicate(predicates[-1]))
    elif "U64" in parts or "S64" in parts or "64" in parts:
        test = at.make.node(Op.COMPARE, (at.pair(numbers[0]), at.pair(numbers[1])), 64, signed, name)
    else:
        test = _compare_words(at, at.value(numbers[0]), at.value(numbers[1]), name, signed)
    if at.position == 1:
        test = at.make.opposite(test)
    combine = at.make.either if "OR" in parts else at.make.both
    return combine(test, at.predicate(predicates[0]))


def _compare_words(at: Place, a: int, b: int, name: str, signed: bool) -> int:
    known = at.make.bits(a, _WORD) if at.make.of(b) == 0 and name in ("eq", "ne") and at.make.of(a) is None else None
    if known is not None:
        return known if name == "ne" else at.make.opposite(known)
    return at.make.node(Op.COMPARE, (a, b), 32, signed, name)


def _compare_pairs(at: Place, numbers: list[Operand], name: str, signed: bool, lower: int) -> int:
    """The high words, when the low ones were compared before, maybe the other way round."""
    node = at.make.graph.nodes[at.make.graph.resolve(lower)]
    found = node.name
    if node.op is Op.OPPOSITE:
        node = at.make.graph.nodes[at.make.graph.resolve(node.args[0])]
        found = _OPPOSITE.get(node.name, "")
    is_lower = node.op is Op.COMPARE and node.width == 32 and (not node.signed or name in ("eq", "ne"))
    if not is_lower or name not in (found, _SWAPPED.get(found)):
        return at.make.any(1)
    lows = node.args if found == name else node.args[::-1]
    pairs = [at.make.pack(low, at.value(high)) for low, high in zip(lows, numbers, strict=True)]
    return at.make.node(Op.COMPARE, (pairs[0], pairs[1]), 64, signed, name)
