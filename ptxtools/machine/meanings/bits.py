"""Logic by tables, of words and of predicates; predicates as the bits of a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtools.access.template import Op
from ptxtools.machine import logic
from ptxtools.machine.instruction import MachineInstruction
from ptxtools.machine.maker import PREDICATES
from ptxtools.machine.meanings.moving import byte
from ptxtools.machine.operand import Sort

if TYPE_CHECKING:
    from ptxtools.machine.values import Place

_BITWISE = {"and": Op.AND, "or": Op.OR}
_WORD = (1 << 32) - 1
_PREDICATES = 7


def by_logic(at: Place, code: MachineInstruction) -> int | None:
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    if (
        code.parts[-1] != "LUT"
        or len(numbers) < 4
        or numbers[3].sort is not Sort.NUMBER
        or any(each.sign for each in numbers[:3])
    ):
        return None
    found = _by_table(at, [at.word(each) for each in numbers[:3]], numbers[3].number)
    if not at.is_predicate or found is None:
        return found
    node = at.make.graph.nodes[found]
    mask = at.make.of(node.args[1]) if node.op is Op.AND else None
    known = None if mask is None else at.make.bits(node.args[0], mask)
    return at.make.node(Op.COMPARE, (found, at.make.number(0)), 32, name="ne") if known is None else known


def _by_table(at: Place, operands: list[int], table: int) -> int | None:
    planned = logic.plan(table, tuple(_bit(at.make.of(each)) for each in operands))
    return None if planned is None else _bits_of(at, planned, operands)


def _bits_of(at: Place, planned: logic.Plan, operands: list[int]) -> int:
    if isinstance(planned, logic.Number):
        return at.make.number(-1 if planned.ones else 0)
    if isinstance(planned, logic.Literal):
        value = operands[planned.operand]
        return at.make.inverse(value) if planned.inverted else value
    sides = (_bits_of(at, planned.left, operands), _bits_of(at, planned.right, operands))
    if planned.operation == "xor":
        return at.make.exclusive(*sides)
    return at.make.node(_BITWISE[planned.operation], sides, 32)


def _bit(number: int | None) -> int | None:
    """The bit that a number has everywhere."""
    return None if number is None else {0: 0, _WORD: 1}.get(number & _WORD)


def predicates(at: Place, code: MachineInstruction) -> int | None:
    sources = [each for each in code.sources if each.sort is Sort.PREDICATE]
    tables = [each.number for each in code.sources if each.sort is Sort.NUMBER]
    if len(sources) != 3 or at.position >= len(tables):
        return None
    operands = [at.predicate(each) for each in sources]
    planned = logic.plan(tables[at.position], tuple(at.make.of(each) for each in operands))
    return None if planned is None else _predicate_of(at, planned, operands)


def _predicate_of(at: Place, planned: logic.Plan, operands: list[int]) -> int | None:
    if isinstance(planned, logic.Number):
        return at.make.number(int(planned.ones))
    if isinstance(planned, logic.Literal):
        value = operands[planned.operand]
        return at.make.opposite(value) if planned.inverted else value
    one, other = (_predicate_of(at, side, operands) for side in (planned.left, planned.right))
    if one is None or other is None or planned.operation == "xor":
        return None
    return at.make.both(one, other) if planned.operation == "and" else at.make.either(one, other)


def from_predicates(at: Place, code: MachineInstruction) -> int | None:
    """The predicates that a mask names, as bits of one byte; the others are those of a register."""
    numbers = [each for each in code.sources if each.sort is not Sort.OTHER]
    if len(numbers) != 2 or numbers[1].sort is not Sort.NUMBER or at.make.of(at.word(numbers[0])) != 0:
        return None
    mask = numbers[1].number & (1 << _PREDICATES) - 1
    if mask != numbers[1].number or not set(code.parts[1:]) <= {"B1", "B2", "B3"}:
        return None
    prefix = "UP" if code.base == "UP2UR" else "P"
    predicates = [at.register(f"{prefix}{place}") for place in range(_PREDICATES) if mask >> place & 1]
    return at.make.scratch(PREDICATES, tuple(predicates), mask | byte(code.parts[-1]) << 8)


def to_predicate(at: Place, code: MachineInstruction) -> int | None:
    if not code.sources or code.sources[0].sort is not Sort.REGISTER:
        return None
    source = code.sources[0]
    place = at.position + byte(source.part)
    return at.make.bit(at.register(source.name), place)
