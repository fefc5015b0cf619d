"""Functions of three bits, by truth table, as a few operations of two."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import permutations, product
from typing import TypeVar

_TABLES = (0xF0, 0xCC, 0xAA)
_FULL = 0xFF
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}

Literal = tuple[int, bool]  # which operand, and whether it is inverted
Value = TypeVar("Value")


@cache
def plan(table: int, constant: tuple[int | None, int | None, int | None]) -> tuple[object, ...] | None:
    """How to make a table: ("number", 0 or -1), ("literal", literal), or (operation, plan, plan); None when it takes more.

    `constant`: of each operand the bit that it is everywhere, None when it varies.
    """
    table = _reduced(table, constant)
    varying = [number for number in range(3) if constant[number] is None]
    if table in (0, _FULL):
        return ("number", -1 if table else 0)
    literals = {(number, inverted): _bits(number, inverted) for number in varying for inverted in (False, True)}
    for literal, bits in literals.items():
        if bits == table:
            return ("literal", literal)
    for (a, x), (b, y) in product(literals.items(), repeat=2):
        if a[0] < b[0]:
            for name, operation in _OPERATIONS.items():
                if operation(x, y) == table:
                    return (name, ("literal", a), ("literal", b))
    if len(varying) < 3:
        return None
    for first, second, third in permutations(range(3)):
        if second > third:
            continue
        for one, two, three in product((False, True), repeat=3):
            for inner, combine in _OPERATIONS.items():
                inside = combine(_bits(second, two), _bits(third, three))
                for outer, operation in _OPERATIONS.items():
                    if operation(_bits(first, one), inside) == table:
                        pair = (inner, ("literal", (second, two)), ("literal", (third, three)))
                        return (outer, ("literal", (first, one)), pair)
    return None


def _bits(number: int, inverted: bool) -> int:
    return _TABLES[number] ^ (_FULL if inverted else 0)


def _reduced(table: int, constant: tuple[int | None, int | None, int | None]) -> int:
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
