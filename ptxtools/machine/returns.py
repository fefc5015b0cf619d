"""Where routines inside of a function return to: behind the call, when that is the address that the call hands over.

RET goes to what a register holds. Its value is followed backwards, through copies and over all ways, to the routine's
entry and on from the call, until every way ends at the offset of the instruction behind the call. A call of something
that never returns is a jump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from ptxtools.machine.disassembler import Line
from ptxtools.machine.operand import Operand, Sort, halves

_COPIES = {"MOV", "UMOV"}

Successors = Callable[[int], Sequence[int]]  # of an instruction; a call goes on behind itself
Target = Callable[[Line], int]  # of a call; -1 when it is not known
Written = Callable[[int], tuple[Sequence[str], Sequence[Operand]]]  # registers that an instruction writes, its sources


class Returns:
    """Of one function's lines, `step` bytes each."""

    def __init__(
        self, lines: Sequence[Line], step: int, successors: Successors, target: Target, written: Written
    ) -> None:
        self.lines, self.step = lines, step
        self.successors, self.target, self.written = successors, target, written
        self.known: dict[int, bool] = {}
        self.open: set[int] = set()

    @cached_property
    def before(self) -> Mapping[int, Sequence[int]]:
        """What may run just before an instruction."""
        found: dict[int, list[int]] = {}
        for index in range(len(self.lines)):
            for following in self.successors(index):
                found.setdefault(following, []).append(index)
        return found

    def is_jump(self, entry: int) -> bool:
        """Whether what is called never returns."""
        return not self.ends(entry)

    def is_behind(self, call: int, entry: int) -> bool:
        """Whether what is called returns, and always behind the call."""
        if call not in self.known:
            if call in self.open:
                return False
            self.open.add(call)
            ends = self.ends(entry)
            self.known[call] = bool(ends) and self._all_lead_behind(call, entry, ends)
            self.open.remove(call)
        return self.known[call]

    def ends(self, entry: int) -> list[int]:
        """Where a routine returns; what it calls itself returns into it when that is clear."""
        found: set[int] = set()
        waiting = [entry]
        while waiting:
            index = waiting.pop()
            if index in found or not 0 <= index < len(self.lines):
                continue
            found.add(index)
            waiting += self.successors(index)
            if _is(self.lines[index], "CALL"):
                inner = self.target(self.lines[index])
                if inner >= 0 and not self.is_behind(index, inner):
                    waiting.append(inner)
        return [index for index in found if _is(self.lines[index], "RET")]

    def _all_lead_behind(self, call: int, entry: int, ends: Sequence[int]) -> bool:
        waiting = [(index, self.lines[index].operands.partition(",")[0].partition(" ")[0]) for index in ends]
        seen = set(waiting)
        while waiting:
            index, register = waiting.pop()
            origins = self._origins(index, register, call, entry)
            if origins is None:
                return False
            waiting += [each for each in origins if each not in seen]
            seen.update(origins)
        return True

    def _origins(self, index: int, register: str, call: int, entry: int) -> list[tuple[int, str]] | None:
        """Registers, before instructions, that hold what one holds before another; nothing when it is the place behind
        the call, and None when it may be something else.
        """
        before = self.before.get(index, ())
        found = [(call, register)] if index == entry else []
        if not before and not found:
            return None
        for place in before:
            line = self.lines[place]
            if _is(line, "CALL"):
                return None
            written, sources = self.written(place)
            if register not in written or line.guard:
                found.append((place, register))
            if register in written:
                source = _copied(line, sources)
                if source is None or (source.sort is Sort.NUMBER and source.number != (call + 1) * self.step):
                    return None
                if source.sort is Sort.REGISTER:
                    found.append((place, source.name))
        return found


def _is(line: Line, base: str) -> bool:
    return line.opcode.partition(".")[0] == base


def _copied(line: Line, sources: Sequence[Operand]) -> Operand | None:
    """The register or number that an instruction copies; None of others."""
    base, *parts = line.opcode.split(".")
    if base.startswith("HFMA2"):
        number = halves(sources)
        return None if number is None else Operand(Sort.NUMBER, number=number)
    if not sources or not (base in _COPIES or (base == "IMAD" and parts[:1] == ["MOV"])):
        return None
    source = sources[-1]
    return source if source.sort is Sort.NUMBER or (source.sort is Sort.REGISTER and source.name) else None
