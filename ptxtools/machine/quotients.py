"""Recognises routines that divide numbers of 64 bits, for which GPUs have no instruction.

ptxas brings such a routine for each kind of `div` and `rem`, without branches. One is known by what it computes: the
words that it leaves in registers, as functions of those that it finds there, are those of a routine that ptxas brings
(`known_quotients`), in whatever registers and order. A routine's name says nothing.

Divided by 0, Op.DIV and Op.REM are any value; so nothing need be said of what the routines give then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from ptxtools.access.flow import Flow
from ptxtools.access.graph import Graph
from ptxtools.access.template import Op, Template
from ptxtools.machine.banks import Banks
from ptxtools.machine.code import Code, read
from ptxtools.machine.cubin import Cubin, Kernel
from ptxtools.machine.digest import Digest
from ptxtools.machine.disassembler import Line
from ptxtools.machine.instruction import Branch, Divided, Division, MachineInstruction
from ptxtools.machine.known_quotients import KNOWN
from ptxtools.machine.operand import Operand, Sort
from ptxtools.machine.values import MachineValues
from ptxtools.reader.body import Body
from ptxtools.reader.instruction import Instruction

Routine = Sequence[MachineInstruction]

_NAMES = ("a.low", "a.high", "b.low", "b.high")


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a routine computes. `roles`: nodes of the words of a and b, low ones first; `words`: which of its
    instructions leaves which word (0 or 1) of the result in which register.
    """

    op: Op
    signed: bool
    roles: tuple[int, ...]
    words: tuple[tuple[int, str, int], ...]


def find_quotients(code: Code, cubin: Cubin, kernel: Kernel) -> None:
    """Tells instructions of routines in a kernel's code which words of quotients they leave."""
    known: dict[int, tuple[Inputs, Recognised | None]] = {}
    body = code.body.instructions
    for begin, routine in _copies(code):
        entry = routine[0].offset
        if entry not in known:
            inputs = Inputs(routine, cubin, kernel)
            known[entry] = inputs, recognised(inputs)
        inputs, found = known[entry]
        if found is None:
            continue
        operands = tuple(map(inputs.operand, found.roles))
        for index, register, half in found.words:
            same = body[begin + index]
            divided = same if isinstance(same, Divided) else Divided(routine[index])
            divided.quotients[register] = Division(found.op, found.signed, operands, begin, half)
            body[begin + index] = divided


def routines(lines: Sequence[Line], kernel: Kernel, names: Mapping[str, int]) -> list[Routine]:
    """The routines of a function that may divide."""
    found = {routine[0].offset: routine for _, routine in _copies(read(lines, kernel, names))}
    return list(found.values())


def _copies(code: Code) -> Iterator[tuple[int, Routine]]:
    """Where routines without branches begin, and their instructions up to the one that returns."""
    for begin, end in code.copies:
        whole = code.body.instructions[begin:end]
        routine = [each for each in whole if isinstance(each, MachineInstruction)]
        is_straight = len(whole) == len(routine) + 1 and isinstance(whole[-1], Branch) and not whole[-1].guard
        if is_straight and any(each.base == "I2F" for each in routine):  # of the divisor: quotients begin with that
            yield begin, routine


def recognised(inputs: Inputs) -> Recognised | None:
    """What a routine computes, if that is known."""
    results = {name: inputs.result(name) for name in inputs.last}
    for leaves in {inputs.leaves(node) for node in results.values()}:
        for roles in permutations(leaves) if len(leaves) == len(_NAMES) else ():
            digest = Digest(inputs.graph, dict(zip(roles, _NAMES, strict=True)))
            matches = {name: KNOWN.get(digest.of(node).hex()) for name, node in results.items()}
            what = next((match[:2] for match in matches.values() if match), None)
            if what is not None:
                words = tuple((inputs.last[name], name, m[2]) for name, m in matches.items() if m and m[:2] == what)
                return Recognised(*what, roles, words)
    return None


class Inputs(MachineValues):
    """Values of a routine's registers, of what is in registers and constant banks where it begins.

    `last`: the instruction that writes a register last.
    """

    def __init__(self, routine: Routine, cubin: Cubin, kernel: Kernel) -> None:
        template = Template(kernel.name)
        instructions: list[Instruction] = [*routine, Branch("exit", "", "", False, 0)]
        code = Code(Body(instructions))
        self.graph, self._kernel, self._length = Graph(template), kernel, len(routine)
        self.last = {name: index for index, each in enumerate(routine) for name in each.results if name}
        self._registers: dict[int, str] = {}
        self._at_entry: dict[str, int] = {}
        flow, banks = Flow(code.body, template, 0, frozenset()), Banks(cubin, kernel, template)
        super().__init__(code, flow, self.graph, banks)

    def at_entry(self, name: str, block: int) -> int:
        if name not in self._at_entry:
            index = self._at_entry[name] = self.opaque(32, block)
            self._registers[index] = name
        return self._at_entry[name]

    def result(self, name: str) -> int:
        """What a register holds when the routine returns."""
        return self.register(name, 0, self._length)

    def operand(self, index: int) -> Operand:
        """A word that the routine begins with."""
        if index in self._registers:
            return Operand(Sort.REGISTER, self._registers[index])
        return Operand(Sort.CONSTANT, number=self._kernel.parameter_base + self.graph.nodes[index].number)

    def leaves(self, result: int) -> tuple[int, ...]:
        """The words that a result is made of, of those that the routine begins with."""
        found: set[int] = set()
        seen: set[int] = set()
        pending = [result]
        while pending:
            index = self.graph.resolve(pending.pop())
            if index in seen:
                continue
            seen.add(index)
            node = self.graph.nodes[index]
            if index in self._registers or (node.op is Op.PARAMETER and node.width == 32):
                found.add(index)
            pending += node.args
        return tuple(sorted(found))
