"""A function's machine code as a body: instructions and branches (`instruction`), labels, tables of branch targets.

A routine inside a function is inlined, once for each call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ptxtools.machine.barriers import joins
from ptxtools.machine.cubin import Kernel
from ptxtools.machine.disassembler import Line
from ptxtools.machine.instruction import Branch, Condition, FarCall, MachineInstruction
from ptxtools.machine.linking import STEP, offset_of, with_names
from ptxtools.machine.operand import Operand, Sort, parse, split
from ptxtools.machine.returns import Returns
from ptxtools.machine.table import CONTROL
from ptxtools.reader.body import Body
from ptxtools.reader.instruction import Instruction

_DEPTH = 6  # calls in calls
_INSTRUCTIONS = 50_000
_GUARD = re.compile(r"@(!?)(U?P(?:\d+|T))\Z")


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
        return offset_of(last) // STEP

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


def _named_places(body: Body) -> set[str]:
    """The labels that branches go to; others would only make blocks smaller."""
    names = (name for each in body.instructions if isinstance(each, Branch) for name in each.operand_texts)
    return {place for name in names for place in body.lists.get(name, [name])}
