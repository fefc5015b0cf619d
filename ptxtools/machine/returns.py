"""Where routines inside a function return to: the instruction after the call, if that is the address that the call
passes.

RET jumps to the contents of a register: an offset in the function, or an address, whose halves two registers hold. Each
value is traced back, through copies and along all paths, to the routine's entry and on from the call, until every path
ends at the address of the instruction after the call. A call on such a path is skipped if it returns to the instruction
after it and nothing that it runs writes the register. A call of something that never returns is a jump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from ptxtools.machine.disassembler import Line
from ptxtools.machine.linking import returning
from ptxtools.machine.operand import Operand, Sort, following, halves

_COPIES = {"MOV", "UMOV"}

Successors = Callable[[int], Sequence[int]]  # of an instruction; a call goes on behind itself
Target = Callable[[Line], int]  # of a call; -1 when it is not known
Written = Callable[[int], tuple[Sequence[str], Sequence[Operand]]]  # registers that an instruction writes, its sources
Holder = tuple[int, str, str]  # before which instruction, which register, and which half of an address it holds, if any


class Returns:
    """Of the lines of a function with this name, `step` bytes each, and of those of others behind it."""

    def __init__(
        self, name: str, lines: Sequence[Line], step: int, successors: Successors, target: Target, written: Written
    ) -> None:
        self.name, self.lines, self.step = name, lines, step
        self.successors, self.target, self.written = successors, target, written
        self.known: dict[int, bool] = {}
        self.open: set[int] = set()
        self.routines: dict[int, list[int]] = {}  # by entry, the instructions that a routine runs

    @cached_property
    def before(self) -> Mapping[int, Sequence[int]]:
        """What may run just before an instruction."""
        found: dict[int, list[int]] = {}
        for index in range(len(self.lines)):
            for behind in self.successors(index):
                found.setdefault(behind, []).append(index)
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
        return [index for index in self._reached(entry, self._is_open) if _is(self.lines[index], "RET")]

    def _is_open(self, call: int, entry: int) -> bool:
        return not self.is_behind(call, entry)

    def _reached(self, entry: int, is_entered: Callable[[int, int], bool]) -> list[int]:
        """The instructions that run from one on; inside of what is called, if `is_entered` says so of it."""
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
                if inner >= 0 and is_entered(index, inner):
                    waiting.append(inner)
        return list(found)

    def _keeps(self, call: int, register: str) -> bool:
        """Whether a register holds behind a call, and only there, what it held before."""
        entry = self.target(self.lines[call])
        if entry < 0 or not self.is_behind(call, entry):
            return False
        if entry not in self.routines:
            self.routines[entry] = self._reached(entry, lambda *_: True)
        for index in self.routines[entry]:
            if (_is(self.lines[index], "CALL") and self.target(self.lines[index]) < 0) or (
                register in self.written(index)[0]
            ):
                return False
        return True

    def _all_lead_behind(self, call: int, entry: int, ends: Sequence[int]) -> bool:
        waiting: list[Holder] = []
        for index in ends:
            register, place = returning(self.lines[index])
            if self.lines[index].opcode.startswith("RET.ABS"):
                waiting += [(index, register, "lo"), (index, following(register, 1), "hi")]
            elif place in ("", self.name):
                waiting.append((index, register, ""))
            else:
                return False
        seen = set(waiting)
        while waiting:
            origins = self._origins(waiting.pop(), call, entry)
            if origins is None:
                return False
            waiting += [each for each in origins if each not in seen]
            seen.update(origins)
        return True

    def _origins(self, holder: Holder, call: int, entry: int) -> list[Holder] | None:
        """Registers, before instructions, that hold what one holds before another; nothing when it is the place behind
        the call, and None when it may be something else.
        """
        index, register, half = holder
        before = self.before.get(index, ())
        found = [(call, register, half)] if index == entry else []
        if not before and not found:
            return None
        for place in before:
            line = self.lines[place]
            if _is(line, "CALL") and not self._keeps(place, register):
                return None
            written, sources = self.written(place)
            if register not in written or line.guard:
                found.append((place, register, half))
            if register in written:
                source = _copied(line, sources)
                if source is None or not (source.sort is Sort.REGISTER or self._is_place(source, half, call + 1)):
                    return None
                if source.sort is Sort.REGISTER:
                    found.append((place, source.name, half))
        return found

    def _is_place(self, source: Operand, half: str, index: int) -> bool:
        """Whether an operand is the place of an instruction of the function itself: its offset, or half its address."""
        if source.number != index * self.step:
            return False
        if not half:
            return source.sort is Sort.NUMBER
        return source.sort is Sort.ADDRESS_HALF and (source.name, source.part) == (self.name, half)


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
    return source if source.sort is not Sort.REGISTER or source.name else None
