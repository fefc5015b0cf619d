"""Sums, products, and what is subtracted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtools.machine.instruction import MachineInstruction
from ptxtools.machine.maker import CARRY, SUM, WIDE_CARRY
from ptxtools.machine.meanings.moving import high_of_shift
from ptxtools.machine.operand import Operand, Sort

if TYPE_CHECKING:
    from ptxtools.machine.values import Place

_SIGN = 31


def _terms(at: Place, sources: list[Operand]) -> tuple[list[int], int, list[int]]:
    """Words that are added; which are negated, as bits; predicates that are carried in."""
    terms: list[int] = []
    carries: list[int] = []
    negated = 0
    for source in sources:
        if source.sort is Sort.PREDICATE:
            predicate = at.predicate(source)
            if at.make.of(predicate) != 0:
                carries.append(predicate)
            continue
        value = at.word(source)
        if source.sign == "~":
            value = at.make.inverse(value)
        if at.make.of(value) == 0 and source.sign != "-":
            continue
        negated |= (source.sign == "-") << len(terms)
        terms.append(value)
    return terms, negated, carries


def _sum(at: Place, terms: list[int], negated: int, carries: list[int]) -> int:
    """A sum that takes part in a longer one, as it may have carries."""
    return at.make.scratch(SUM, (*terms, *carries), negated | len(terms) << 8)


def _plain(at: Place, terms: list[int], negated: int) -> int:
    """What is taken away comes last: -b + a is a - b."""
    total = at.make.number(0)
    for number, term in enumerate(terms):
        if not negated >> number & 1:
            total = at.make.add(total, term)
    for number, term in enumerate(terms):
        if negated >> number & 1:
            total = at.make.subtract(total, term)
    return total


def add(at: Place, code: MachineInstruction) -> int | None:
    if "64" in code.parts:
        return _add_pairs(at, code)
    sources = code.sources
    extended = "X" in code.parts
    terms, negated, carries = _terms(
        at, sources if extended else [each for each in sources if each.sort is not Sort.PREDICATE]
    )
    return _summed(at, code, terms, negated, carries)


def _summed(
    at: Place,
    code: MachineInstruction,
    terms: list[int],
    negated: int,
    carries: list[int],
) -> int | None:
    """A sum, or a carry out of it. With more than two terms there may be two carries: both must be asked for."""
    if not carries and not any(code.predicates):
        return _plain(at, terms, negated)
    whole = _sum(at, terms, negated, carries)
    if not at.is_predicate:
        return whole
    return at.make.scratch(CARRY, (whole,), at.position, 1)


def _add_pairs(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate:
        return None
    total = at.make.number(0)
    for source in code.sources:
        if source.sort is Sort.PREDICATE:
            if source.name or source.sign != "!":
                return None
        else:
            total = at.make.add(total, at.pair(source), 64)
    return at.make.high(total) if at.position else at.make.low(total)


def multiply(at: Place, code: MachineInstruction) -> int | None:
    parts = code.parts
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    if len(numbers) < 3:
        numbers = [*numbers, *[Operand(Sort.REGISTER)] * (3 - len(numbers))]
    a, b, c = numbers[:3]
    signed = "U32" not in parts
    if "WIDE" in parts or "HI" in parts:
        if "X" in parts or any(each.sort is Sort.PREDICATE for each in code.sources):
            return None
        return _multiply_wide(at, (a, b, c), signed, "HI" in parts or at.position == 1)
    terms, negated, carries = _terms(
        at, [each for each in code.sources[2:] if "X" in parts or each.sort is not Sort.PREDICATE]
    )
    product = at.make.multiply(at.value(a), at.value(b))
    if at.make.of(product) != 0:
        terms, negated = [product, *terms], negated << 1
    return _summed(at, code, terms, negated, carries)


def _multiply_wide(at: Place, operands: tuple[Operand, Operand, Operand], signed: bool, high: bool) -> int | None:
    a, b, c = operands
    if a.sign or b.sign:
        return None
    product = at.make.multiply_wide(at.word(a), at.word(b), signed)
    if at.is_predicate:
        return at.make.scratch(WIDE_CARRY, (product, at.pair(c)), at.position, 1)
    total = at.make.add(product, at.pair(c), 64)
    return at.make.high(total) if high else at.make.low(total)


def lea(at: Place, code: MachineInstruction) -> int | None:
    """a << s + b; .HI: the high word of c:a << s, plus b; .SX32: with a's sign as c."""
    parts = code.parts
    numbers = [each for each in code.sources if each.sort is not Sort.PREDICATE]
    shift = numbers[-1]
    if shift.sort is not Sort.NUMBER or not 0 <= shift.number < 32 or numbers[0].sign not in ("", "-"):
        return None
    count = shift.number
    terms, negated, carries = _terms(
        at, [numbers[1], *(each for each in code.sources if each.sort is Sort.PREDICATE and "X" in parts)]
    )
    if "HI" not in parts:
        shifted = at.make.shift_left(at.value(numbers[0]), count)
    elif numbers[0].sign:
        return None
    else:
        low = at.word(numbers[0])
        if "SX32" in parts:
            shifted = at.make.shift_right(low, min(32 - count, _SIGN), True)
        else:
            shifted = high_of_shift(at, low, at.value(numbers[2]) if len(numbers) > 3 else at.make.number(0), count)
    return _summed(at, code, [shifted, *terms], negated << 1, carries)
