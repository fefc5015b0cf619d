"""Shifts, and bits that change places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtools.access.template import Op
from ptxtools.machine.code import MachineInstruction
from ptxtools.machine.maker import HIGH_OF_SHIFT, LOW_OF_SHIFT
from ptxtools.machine.operand import Operand, Sort

if TYPE_CHECKING:
    from ptxtools.machine.values import Place

_SIGN = 31


def high_of_shift(at: Place, low: int, high: int, count: int) -> int:
    if count == 0:
        return high
    if at.make.of(high) == 0:
        return at.make.shift_right(low, 32 - count, False)
    return at.make.scratch(HIGH_OF_SHIFT, (low, high, at.make.number(count)))


def shift(at: Place, code: MachineInstruction) -> int | None:
    """sm_100's shifts of one value."""
    if at.is_predicate or len(code.sources) < 2:
        return None
    a, b = code.sources[:2]
    wide = "64" in code.parts or "S64" in code.parts or "U64" in code.parts
    signed = "S32" in code.parts or "S64" in code.parts
    if wide or a.sign or b.sign:
        return None
    op = Op.SHL if "SHL" in code.base else Op.SHR
    return at.make.node(op, (at.word(a), at.word(b)), 32, signed and op is Op.SHR)


def funnel(at: Place, code: MachineInstruction) -> int | None:
    parts = code.parts
    if at.is_predicate or len(code.sources) < 3 or any(each.sign for each in code.sources[:3]):
        return None
    low, count, high = code.sources[:3]
    left, upper = "L" in parts, "HI" in parts
    is_64 = "U64" in parts or "S64" in parts
    signed = "S32" in parts or "S64" in parts
    number = at.make.of(at.word(count))
    if "W" in parts or number is None:
        return _funnel_unknown(at, code, left, upper, is_64, signed)
    if not 0 <= number < 32:
        return _funnel_far(at, low, high, number, left, upper, is_64, signed)
    if left:
        return (
            high_of_shift(at, at.word(low), at.word(high), number)
            if upper
            else at.make.shift_left(at.word(low), number)
        )
    if upper:
        return at.make.shift_right(at.word(high), number, signed)
    x, y = at.word(low), at.word(high)
    if at.make.of(y) == 0:
        return at.make.shift_right(x, number, False)
    return at.make.scratch(LOW_OF_SHIFT, (x, y, at.make.number(number)))


def _funnel_far(
    at: Place, low: Operand, high: Operand, number: int, left: bool, upper: bool, is_64: bool, signed: bool
) -> int | None:
    """By 32 and more."""
    if not is_64 or not 32 <= number < 64:
        return None
    if left:
        return at.make.shift_left(at.word(low), number - 32) if upper else at.make.number(0)
    if upper:
        return at.make.shift_right(at.word(high), _SIGN, True) if signed else at.make.number(0)
    return at.make.shift_right(at.word(high), number - 32, signed)


def _funnel_unknown(
    at: Place, code: MachineInstruction, left: bool, upper: bool, is_64: bool, signed: bool
) -> int | None:
    """By a number that is not known yet, of one word: the other is 0 or not looked at. Or the upper word of a pair."""
    low, count, high = code.sources[:3]
    if "W" not in code.parts and is_64 and left and upper:
        return at.make.scratch(HIGH_OF_SHIFT, (at.word(low), at.word(high), at.word(count)))
    if is_64 or "W" in code.parts:
        return None
    if left and not upper:
        return at.make.node(Op.SHL, (at.word(low), at.word(count)), 32)
    if not left and upper:
        return at.make.node(Op.SHR, (at.word(high), at.word(count)), 32, signed)
    if not left and not high.name and high.sort is Sort.REGISTER:
        return at.make.node(Op.SHR, (at.word(low), at.word(count)), 32)
    return None


def byte(part: str) -> int:
    """Where a byte of a word begins."""
    return {"B1": 8, "B2": 16, "B3": 24}.get(part, 0)


def permute(at: Place, code: MachineInstruction) -> int | None:
    """Bytes of a (0 to 3) and c (4 to 7); from 8 on, the sign of the byte. Known are runs of bytes of one operand."""
    if at.is_predicate or len(code.sources) < 3 or code.parts[-1] != code.base:
        return None
    a, selector, c = code.sources[:3]
    choice = at.make.of(at.word(selector))
    if choice is None or a.sign or c.sign:
        return None
    chosen = [choice >> 4 * n & 15 for n in range(4)]
    zero = (a.sort is Sort.REGISTER and not a.name, c.sort is Sort.REGISTER and not c.name)
    for number, operand in ((0, a), (4, c)):
        if not number <= chosen[0] < number + 4 or zero[number // 4]:
            continue
        run = 1
        while run < 4 and chosen[run] == chosen[0] + run and chosen[run] < number + 4:
            run += 1
        rest = set(chosen[run:])
        first = (chosen[0] - number) * 8
        if not rest and run == 4:
            return at.word(operand)
        if all(byte < 8 and zero[byte // 4] for byte in rest) or rest == {chosen[run - 1] | 8}:
            return _extract(at, at.word(operand), first, 8 * run, rest == {chosen[run - 1] | 8})
    return None


def _extract(at: Place, value: int, first: int, count: int, signed: bool) -> int:
    return at.make.node(Op.EXTRACT, (value, at.make.number(first), at.make.number(count)), 32, signed)


def sign_extend(at: Place, code: MachineInstruction) -> int | None:
    a, count = code.sources[:2]
    if at.is_predicate or count.sort is not Sort.NUMBER or not 0 < count.number <= 32 or a.sign:
        return None
    return _extract(at, at.word(a), 0, count.number, "U32" not in code.parts)
