"""Instructions of machine code, with sources and destinations told apart, and what else a body has.

Branches get the names that PTX gives them, so that `ptxtools.flow` reads both.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxtools.access.template import Op
from ptxtools.machine.operand import Operand, Sort, parse, split
from ptxtools.machine.table import ROWS, words
from ptxtools.reader.instruction import Instruction

_REGISTERS = 255
_ONLY_PREDICATES = {
    *("ISETP", "UISETP", "PLOP3", "UPLOP3", "PSETP"),
    *("FSETP", "DSETP", "HSETP2", "UFSETP", "UHSETP2", "FCHK"),
}
_WRITING_PREDICATES = {"R2P": "P", "R2UP": "UP", "UR2UP": "UP"}
_PREDICATES = 7
_HALVES = "ENL2"  # of a load: each half of it goes to registers of its own
_BOTH = "both"  # of predicates: the guard of a branch that has a condition besides


class MachineInstruction(Instruction):
    """`operands`: the sources, `results`: registers written in order, `predicates`: predicates written in order.

    "" stands for one that is thrown away. `offset` is that in the function. `slots`: words of the stack that are loaded
    or stored whole (`stack`).
    """

    __slots__ = ("predicates", "results", "slots", "sources", "text")

    def __init__(self, opcode: str, text: str, guard: str, negated: bool, offset: int) -> None:
        super().__init__(opcode, "", guard, negated, offset)
        self.text = text
        self.results: list[str] = []
        self.predicates: list[str] = []
        self.sources: list[Operand] = []
        self.slots: list[str] = []
        self._divide()

    def _divide(self) -> None:
        """Tells what is written from what is read."""
        row = ROWS.get(self.base)
        if row is None:
            return
        texts = split(self.text)
        operands = [parse(text) for text in texts]
        position = 0
        if self.base in _ONLY_PREDICATES:
            while position < min(2, len(operands)) and _is_written_predicate(operands[position]):
                self.predicates.append(operands[position].name)
                position += 1
            self.sources = operands[position:]
            return
        if self.base in _WRITING_PREDICATES:
            self._divide_mask(operands)
            return
        count = words(self.opcode)
        if count == 0:
            while position < len(operands) and _is_written_predicate(operands[position]):
                self.predicates.append(operands[position].name)
                position += 1
            self.sources = operands[position:]
            return
        most = 1 if self.base in ("VOTE", "VOTEU") else len(operands)
        while position < min(most, len(operands)) and _is_written_predicate(operands[position]):
            self.predicates.append(operands[position].name)
            position += 1
        if position < len(operands) and operands[position].sort is Sort.REGISTER and not operands[position].sign:
            self.results = _registers(operands[position].name, count)
            position += 1
            if _HALVES in self.parts and position < len(operands):
                self.results = self.results[: count // 2] + _registers(operands[position].name, count // 2)
                position += 1
            last = position + 1 if most == 1 else len(operands)
            while position < min(last, len(operands)) and _is_written_predicate(operands[position]):
                self.predicates.append(operands[position].name)
                position += 1
        self.sources = operands[position:]

    def _divide_mask(self, operands: list[Operand]) -> None:
        """All predicates that a mask, the last operand, has a bit for: number n is from bit n."""
        mask = operands[-1].number if operands and operands[-1].sort is Sort.NUMBER else -1
        prefix = _WRITING_PREDICATES[self.base]
        self.predicates = [f"{prefix}{number}" if mask >> number & 1 else "" for number in range(_PREDICATES)]
        self.sources = operands[1:]

    @property
    def written(self) -> list[str]:
        return [name for name in (*self.results, *self.predicates) if name]


@dataclass(frozen=True, slots=True)
class Division:
    """Word `half` of the quotient or remainder of two pairs of words, as they are before instruction `begin`."""

    op: Op
    signed: bool
    operands: tuple[Operand, ...]
    begin: int
    half: int


class Divided(MachineInstruction):
    """An instruction that leaves words of quotients or remainders in registers (`quotients`)."""

    __slots__ = ("quotients",)

    def __init__(self, same: MachineInstruction) -> None:
        super().__init__(same.opcode, same.text, same.guard, same.guard_negated, same.offset)
        self.quotients: dict[str, Division] = {}


class Condition(Instruction):
    """A predicate of its own: both of two others (name, negated)."""

    __slots__ = ("name", "others")

    def __init__(self, name: str, others: tuple[tuple[str, bool], ...], offset: int) -> None:
        super().__init__(_BOTH, "", "", False, offset)
        self.name, self.others = name, others

    @property
    def written(self) -> list[str]:
        return [self.name]


class Branch(Instruction):
    """bra, brx, exit or trap; of a branch, `label` names where it goes."""

    __slots__ = ()

    def __init__(self, base: str, label: str, guard: str, negated: bool, offset: int) -> None:
        super().__init__(base, label, guard, negated, offset)

    @property
    def written(self) -> list[str]:
        return []


class FarCall(Branch):
    """A call of what `register` and the one behind it hold: the kernel ends there, unless it is another function."""

    __slots__ = ("register",)

    def __init__(self, register: str, guard: str, negated: bool, offset: int) -> None:
        super().__init__("trap", "", guard, negated, offset)
        self.register = register


def _is_written_predicate(operand: Operand) -> bool:
    return operand.sort is Sort.PREDICATE and not operand.sign


def _registers(name: str, count: int) -> list[str]:
    """As many registers from this one on."""
    if not name:
        return [""] * min(count, _REGISTERS)
    prefix = name.rstrip("0123456789")
    first = int(name[len(prefix) :])
    return [f"{prefix}{number}" for number in range(first, min(first + count, _REGISTERS))]
