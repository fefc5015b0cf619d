"""Shifts and permutations of bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtools.access.template import Op
from ptxtools.machine.instruction import MachineInstruction
from ptxtools.machine.maker import HIGH_OF_SHIFT, LOW_OF_SHIFT
from ptxtools.machine.operand import Operand, Sort

if TYPE_CHECKING:
    from ptxtools.machine.values import Place

_SIGN = 31
_SIGNS, _ZERO = 8, -16  # of what PRMT chooses: the sign of a byte; no byte


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
    if at.make.of(x) == 0:
        return at.make.shift_left(y, 32 - number) if number else x
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
    """Bytes of a (0 to 3) and c (4 to 7); from 8 on, the sign of the byte, which is only known behind that byte."""
    if at.is_predicate or len(code.sources) < 3 or code.parts[-1] != code.base:
        return None
    a, selector, c = code.sources[:3]
    choice = at.make.of(at.word(selector))
    if choice is None or a.sign or c.sign:
        return None
    words = [at.word(a), at.word(c)]
    chosen = [_ZERO if at.make.of(words[choice >> 4 * n >> 2 & 1]) == 0 else choice >> 4 * n & 15 for n in range(4)]
    total = at.make.number(0)
    for begin, end in _runs(chosen):
        part = _run(at, words, chosen[begin:end], begin)
        if part is None:
            return None
        total = at.make.add(total, part)
    return total


def _runs(chosen: list[int]) -> list[tuple[int, int]]:
    """Places of bytes that follow each other in one operand, with the signs behind them."""
    found: list[tuple[int, int]] = []
    for place, byte in enumerate(chosen):
        before = chosen[place - 1] if found and found[-1][1] == place else _ZERO
        follows = byte == before + 1 and byte % 4 != 0 and byte < _SIGNS
        if byte != _ZERO and before != _ZERO and (follows or byte == before | _SIGNS):
            found[-1] = (found[-1][0], place + 1)
        elif byte != _ZERO:
            found.append((place, place + 1))
    return found


def _run(at: Place, words: list[int], run: list[int], begin: int) -> int | None:
    """The bytes of a run at their place; None when they begin with a sign, or go on behind one."""
    plain = [byte for byte in run if byte < _SIGNS]
    is_signed = len(plain) < len(run)
    if not plain or run[0] >= _SIGNS or (is_signed and begin + len(run) < 4):
        return None
    word, first = words[run[0] >> 2], run[0] % 4
    if len(plain) == 4:
        return word
    return at.make.shift_left(_extract(at, word, 8 * first, 8 * len(plain), is_signed), 8 * begin)


def _extract(at: Place, value: int, first: int, count: int, signed: bool) -> int:
    return at.make.node(Op.EXTRACT, (value, at.make.number(first), at.make.number(count)), 32, signed)


def sign_extend(at: Place, code: MachineInstruction) -> int | None:
    a, count = code.sources[:2]
    if at.is_predicate or count.sort is not Sort.NUMBER or not 0 < count.number <= 32 or a.sign:
        return None
    return _extract(at, at.word(a), 0, count.number, "U32" not in code.parts)
