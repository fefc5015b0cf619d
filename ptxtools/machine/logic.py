"""Functions of three bits, by truth table, as a few operations of two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

_TABLES = (0xF0, 0xCC, 0xAA)
_FULL = 0xFF
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@dataclass(frozen=True, slots=True)
class Number:
    """All bits 0, or all 1."""

    ones: bool


@dataclass(frozen=True, slots=True)
class Literal:
    """An operand, perhaps inverted."""

    operand: int
    inverted: bool


@dataclass(frozen=True, slots=True)
class Combined:
    """`operation`: and, or, xor."""

    operation: str
    left: Plan
    right: Plan


Plan = Number | Literal | Combined
Constant = tuple[int | None, ...]


@cache
def plan(table: int, constant: Constant) -> Plan | None:
    """How to make a table; None when it takes more than two operations and is no choice.

    `constant`: of each of the three operands the bit that it is everywhere, None when it varies.
    """
    table = _reduced(table, constant)
    if table in (0, _FULL):
        return Number(table == _FULL)
    varying = [number for number in range(3) if constant[number] is None]
    literals = [Literal(number, inverted) for number in varying for inverted in (False, True)]
    for each in literals:
        if _bits(each) == table:
            return each
    for left, right in product(literals, repeat=2):
        if left.operand < right.operand:
            for name, operation in _OPERATIONS.items():
                if operation(_bits(left), _bits(right)) == table:
                    return Combined(name, left, right)
    return _of_three(table) or _choice(table) if len(varying) == 3 else None


def _of_three(table: int) -> Plan | None:
    for first, second, third in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
        for signs in product((False, True), repeat=3):
            one, two, three = map(Literal, (first, second, third), signs)
            for inner, combine in _OPERATIONS.items():
                inside = combine(_bits(two), _bits(three))
                for outer, operation in _OPERATIONS.items():
                    if operation(_bits(one), inside) == table:
                        return Combined(outer, one, Combined(inner, two, three))
    return None


def _choice(table: int) -> Plan | None:
    """The bits of one operand where another has ones, and those of the third elsewhere."""
    for choosing, first, second in permutations(range(3)):
        for signs in product((False, True), repeat=2):
            one, other = map(Literal, (first, second), signs)
            ones, zeros = Literal(choosing, False), Literal(choosing, True)
            if _bits(ones) & _bits(one) | _bits(zeros) & _bits(other) == table:
                return Combined("or", Combined("and", one, ones), Combined("and", other, zeros))
    return None


def _bits(literal: Literal) -> int:
    return _TABLES[literal.operand] ^ (_FULL if literal.inverted else 0)


def _reduced(table: int, constant: Constant) -> int:
    """The table when some operands are constant, for any value of these."""
    result = 0
    for index in range(8):
        source = index
        for number, bit in enumerate(constant):
            place = 2 - number
            if bit is not None:
                source = source & ~(1 << place) | (bit << place)
        result |= (table >> source & 1) << index
    return result
