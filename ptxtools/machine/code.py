"""A function's machine code as a body: instructions with guards and the registers that they write, labels, branches.

Branches get the names that PTX gives them, so that `ptxtools.flow` reads both. A routine inside a function is taken as
if it stood where it is called, once for each call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ptxtools.access.template import Op
from ptxtools.machine.barriers import joins
from ptxtools.machine.cubin import Kernel
from ptxtools.machine.disassembler import Line
from ptxtools.machine.linking import STEP, with_names
from ptxtools.machine.operand import Operand, Sort, parse, split
from ptxtools.machine.returns import Returns
from ptxtools.machine.table import CONTROL, ROWS, words
from ptxtools.reader.body import Body
from ptxtools.reader.instruction import Instruction

_DEPTH = 6  # calls in calls
_INSTRUCTIONS = 50_000
_REGISTERS = 255
_GUARD = re.compile(r"@(!?)(U?P(?:\d+|T))\Z")
_TARGET = re.compile(r"0x[0-9a-f]+\Z")
_ONLY_PREDICATES = {
    *("ISETP", "UISETP", "PLOP3", "UPLOP3", "PSETP"),
    *("FSETP", "DSETP", "HSETP2", "UFSETP", "UHSETP2", "FCHK"),
}
_WRITING_PREDICATES = {"R2P": "P", "R2UP": "UP", "UR2UP": "UP"}
_PREDICATES = 7
_HALVES = "ENL2"  # of a load: each half of it goes to registers of its own
BOTH = "both"  # of predicates: the guard of a branch that has a condition besides


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
        super().__init__(BOTH, "", "", False, offset)
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


def _named_places(body: Body) -> set[str]:
    """The labels that branches go to; others would only make blocks smaller."""
    names = (name for each in body.instructions if isinstance(each, Branch) for name in each.operand_texts)
    return {place for name in names for place in body.lists.get(name, [name])}


def _is_written_predicate(operand: Operand) -> bool:
    return operand.sort is Sort.PREDICATE and not operand.sign


def _registers(name: str, count: int) -> list[str]:
    """As many registers from this one on."""
    if not name:
        return [""] * min(count, _REGISTERS)
    prefix = name.rstrip("0123456789")
    first = int(name[len(prefix) :])
    return [f"{prefix}{number}" for number in range(first, min(first + count, _REGISTERS))]


@dataclass(slots=True)
class Code:
    """`body` for `ptxtools.flow`. `unknown`: (offset, reason) of what is not understood of the flow.

    `copies`: the instructions of each routine that was copied, as the first one and the one behind the last.
    """

    body: Body = field(default_factory=Body)
    unknown: list[tuple[int, str]] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)


def read(lines: Sequence[Line], kernel: Kernel, routines: Mapping[str, int]) -> Code:
    """The body of a kernel."""
    reader = _Reader(lines, kernel, routines)
    reader.copy(0, 0, None, ())
    reader.finish()
    return reader.code


class _Reader:
    """Copies of the code that an entry reaches: copy 0 is the kernel itself, each call makes one more."""

    def __init__(self, lines: Sequence[Line], kernel: Kernel, routines: Mapping[str, int]) -> None:
        self.lines, self.kernel, self.routines = lines, kernel, routines
        self.code = Code()
        self.out: list[Instruction] = []
        self.copies = 1
        self.pending: list[tuple[int, int, str, tuple[int, ...]]] = []
        self.joins = joins(lines)
        self.returns = Returns(kernel.name, lines, STEP, self.successors, self.called, self.written)

    def finish(self) -> None:
        while self.pending:
            number, entry, back, callers = self.pending.pop()
            self.copy(number, entry, back, callers)
        self.code.body.instructions = self.out
        places, named = self.code.body.labels, _named_places(self.code.body)
        self.code.body.labels = {name: place for name, place in places.items() if name in named}

    def copy(self, number: int, entry: int, back: str | None, callers: tuple[int, ...]) -> None:
        """Adds what an instruction reaches. `back`: the label behind the call; None for the kernel itself."""
        if len(self.out) > _INSTRUCTIONS:
            self.code.unknown.append((entry * STEP, "too many calls in calls"))
            self.code.body.labels[f"{number}:{entry}"] = len(self.out)
            self.out.append(Branch("trap", "", "", False, entry * STEP))
            return
        successors = {}
        waiting = [entry]
        while waiting:
            index = waiting.pop()
            if index in successors or not 0 <= index < len(self.lines):
                continue
            successors[index] = self.following(index)
            waiting += successors[index]
        order, begin = sorted(successors), len(self.out)
        for position, index in enumerate(order):
            self.code.body.labels[f"{number}:{index}"] = len(self.out)
            self.add(index, number, back, callers)
            following = order[position + 1] if position + 1 < len(order) else -1
            if following != index + 1 and not isinstance(self.out[-1], Branch):
                self.out.append(Branch("trap", "", "", False, index * STEP))  # the code ends here
        if back is not None and order[0] == entry:
            self.code.copies.append((begin, len(self.out)))

    def target(self, line: Line) -> int:
        """The instruction that a branch goes to; -1 when it is not written."""
        last = split(line.operands)[-1] if line.operands else ""
        return int(last, 16) // STEP if _TARGET.match(last) else -1

    def called(self, line: Line) -> int:
        """The instruction that a call goes to; -1 when it is not known, or outside of the function.

        A relative call with a register goes to the place that the register says, as seen from what is named.
        """
        *through, name = split(line.operands) if line.operands else [""]
        if through:
            return -1
        if line.opcode.startswith("CALL.ABS"):
            return self.target(line)
        return self.routines[name] // STEP if name in self.routines else self.target(line)

    def following(self, index: int) -> list[int]:
        """What may run behind an instruction; a call that is a jump goes nowhere else."""
        line = self.lines[index]
        entry = self.called(line) if line.opcode.startswith("CALL") else -1
        if entry < 0 or not self.returns.is_jump(entry):
            return self.successors(index)
        return [entry, *([index + 1] if line.guard else [])]

    def successors(self, index: int) -> list[int]:
        line = self.lines[index]
        base = line.opcode.partition(".")[0]
        following = index + 1
        if base in ("EXIT", "RET", "KILL") or line.opcode == "BPT.TRAP":
            return [following] if line.guard else []
        if base in ("BRA", "JMP"):
            always = not line.guard and "," not in line.operands
            return [self.target(line)] if always else [self.target(line), following]
        if base in ("BRX", "BRXU", "JMX", "JMXU"):
            return [target // STEP for target in self.kernel.branches.get(index * STEP, [])] + (
                [following] if line.guard else []
            )
        if base == "BSYNC":
            return [following, *self.elsewhere(index)]
        if base == "WARPSYNC" and "COLLECTIVE" in line.opcode:
            return [following, self.target(line)]
        return [following]

    def elsewhere(self, index: int) -> list[int]:
        """Where threads that waited for each other go on, unless that is right behind.

        A barrier register is used again and again: the place behind belongs to the use that ends there.
        """
        register = split(self.lines[index].operands)[-1]
        places = self.joins.get(register, set())
        return [] if index + 1 in places else sorted(places)

    def add(self, index: int, number: int, back: str | None, callers: tuple[int, ...]) -> None:
        line = self.lines[index]
        base = line.opcode.partition(".")[0]
        offset = index * STEP
        match = _GUARD.match(line.guard)
        guard, negated = (match[2], bool(match[1])) if match else ("", False)
        if guard.endswith("T"):
            if negated:
                self.out.append(MachineInstruction("NOP", "", "", False, offset))
                return
            guard = ""
        if base not in CONTROL:
            self.out.append(
                MachineInstruction(line.opcode, with_names(line, self.kernel.named.get(offset)), guard, negated, offset)
            )
        elif line.opcode == "BPT.TRAP":
            self.out.append(Branch("trap", "", guard, negated, offset))
        elif base in ("EXIT", "KILL"):
            self.leave(line, guard, negated, offset)
        elif base == "RET":
            self.returned(back, guard, negated, offset)
        elif base == "CALL":
            self.call(index, number, guard, negated, callers)
        else:
            self.branch(index, number, base, guard, negated)

    def leave(self, line: Line, guard: str, negated: bool, offset: int) -> None:
        guard, negated = self.condition(line, guard, negated, offset)
        self.out.append(Branch("exit", "", guard, negated, offset))

    def returned(self, back: str | None, guard: str, negated: bool, offset: int) -> None:
        if back is None:
            self.out.append(Branch("exit", "", guard, negated, offset))
        else:
            self.out.append(Branch("bra", back, guard, negated, offset))

    def condition(self, line: Line, guard: str, negated: bool, offset: int) -> tuple[str, bool]:
        """The guard, and a predicate among a branch's operands."""
        found = [parse(text) for text in split(line.operands)]
        more = [(each.name, each.sign == "!") for each in found if each.sort is Sort.PREDICATE and each.name]
        if not more:
            return guard, negated
        others = ((guard, negated), *more) if guard else tuple(more)
        if len(others) == 1:
            return others[0]
        name = f"G{offset}"
        self.out.append(Condition(name, others, offset))
        return name, False

    def branch(self, index: int, number: int, base: str, guard: str, negated: bool) -> None:
        line, offset = self.lines[index], index * STEP
        if base in ("BRA", "JMP"):
            target = self.target(line)
            if not 0 <= target < len(self.lines):
                self.unknown(index, "a branch to somewhere else")
                return
            guard, negated = self.condition(line, guard, negated, offset)
            if ".DIV" in line.opcode or ".CONV" in line.opcode:
                self.either(number, [target, index + 1], offset)
                return
            self.out.append(Branch("bra", f"{number}:{target}", guard, negated, offset))
        elif base in ("BRX", "BRXU", "JMX", "JMXU"):
            targets = [target // STEP for target in self.kernel.branches.get(offset, [])]
            if not targets:
                self.unknown(index, "a branch through a register")
                return
            self.either(number, targets + ([index + 1] if guard else []), offset)
        elif base == "BSYNC" or "COLLECTIVE" in line.opcode:
            targets = self.elsewhere(index) if base == "BSYNC" else [self.target(line)]
            if targets:
                self.either(number, [index + 1, *targets], offset)
            else:
                self.out.append(MachineInstruction("NOP", "", "", False, offset))
        else:
            self.out.append(MachineInstruction("NOP", "", "", False, offset))

    def either(self, number: int, targets: Sequence[int], offset: int) -> None:
        """One of several places; nothing is known of which."""
        name = f"{number}:{offset}:targets"
        self.code.body.lists[name] = [f"{number}:{target}" for target in dict.fromkeys(targets)]
        self.out.append(Branch("brx", name, "", False, offset))

    def unknown(self, index: int, reason: str) -> None:
        self.code.unknown.append((index * STEP, reason))
        self.out.append(Branch("trap", "", "", False, index * STEP))

    def call(self, index: int, number: int, guard: str, negated: bool, callers: tuple[int, ...]) -> None:
        line = self.lines[index]
        name = split(line.operands)[-1] if line.operands else ""
        entry = self.called(line)
        called = parse(name)
        if line.opcode.startswith("CALL.ABS") and called.sort is Sort.REGISTER and called.name:
            self.out.append(FarCall(called.name, guard, negated, index * STEP))
            return
        if not 0 <= entry < len(self.lines):
            self.unknown(index, "call through a register" if "," in line.operands else f"call of {name}")
        elif self.returns.is_jump(entry):
            self.out.append(Branch("bra", f"{number}:{entry}", guard, negated, index * STEP))
        elif not self.returns.is_behind(index, entry):
            self.unknown(index, f"call of {name}: where it returns to is not clear")
        elif entry in callers or len(callers) >= _DEPTH:
            self.unknown(index, f"call of {name}: too many calls in calls")
        else:
            self.pending.append((self.copies, entry, f"{number}:{index + 1}", (*callers, entry)))
            self.out.append(Branch("bra", f"{self.copies}:{entry}", guard, negated, index * STEP))
            self.copies += 1

    def written(self, index: int) -> tuple[Sequence[str], Sequence[Operand]]:
        """The registers that an instruction writes, and its sources."""
        line = self.lines[index]
        if line.opcode.partition(".")[0] in CONTROL:
            return (), ()
        named = with_names(line, self.kernel.named.get(index * STEP))
        instruction = MachineInstruction(line.opcode, named, "", False, index * STEP)
        return instruction.written, instruction.sources
