"""Values of machine registers as nodes of a template."""

from __future__ import annotations

from collections.abc import Sequence

from ptxtools.access.flow import Flow
from ptxtools.access.graph import Graph
from ptxtools.access.template import Op
from ptxtools.access.walk import Walk
from ptxtools.machine import meanings
from ptxtools.machine.banks import Banks
from ptxtools.machine.code import Code
from ptxtools.machine.instruction import Condition, Divided, Division, MachineInstruction
from ptxtools.machine.maker import Maker
from ptxtools.machine.operand import Address, Operand, Sort, following
from ptxtools.machine.table import ROWS
from ptxtools.reader.instruction import Instruction


class MachineValues(Walk):
    """Nodes of a kernel's registers and operands. `banks`: what its constant banks hold."""

    def __init__(self, code: Code, flow: Flow, graph: Graph, banks: Banks) -> None:
        super().__init__(code.body.instructions, flow, graph)
        self.banks = banks
        self._constants: dict[str, int] = {}
        self.loaded: dict[tuple[int, int], int] = {}  # by instruction and number of the pair

    def constant(self, name: str) -> int:
        """The value of a special register that never changes in a thread."""
        if name not in self._constants:
            self._constants[name] = self.opaque(32, 0)
        return self._constants[name]

    def offset(self, index: int) -> int:
        """Where in the function an instruction lies."""
        return self._code[index].offset

    def maker(self, block: int) -> Maker:
        return Maker(self._graph, self._at(block), self._flow.conditions[block])

    def guard(self, block: int, index: int) -> tuple[int, bool]:
        """The predicate that guards an instruction, and its value when the instruction runs; (-1, True) without one."""
        instruction = self._code[index]
        if not instruction.guard:
            return -1, True
        predicate = self.register(instruction.guard, block, index)
        return self._graph.plain(predicate, not instruction.guard_negated)

    def place(self, block: int, index: int) -> Place:
        """What an instruction sees."""
        return Place(self, self.maker(block), block, index)

    def _computed(self, instruction: Instruction, name: str, block: int, index: int) -> int:
        if isinstance(instruction, Divided) and name in instruction.quotients:
            return self._divided(instruction.quotients[name])
        place = self.place(block, index)
        if isinstance(instruction, Condition):
            total = place.make.number(1)
            for other, negated in instruction.others:
                value = place.register(other)
                total = place.make.both(total, place.make.opposite(value) if negated else value)
            return total
        if not isinstance(instruction, MachineInstruction):
            raise ValueError(f"{instruction.opcode} writes no register")
        of: Sequence[str] = instruction.results if name in instruction.results else instruction.predicates
        is_predicate = of is not instruction.results
        meaning = meanings.MEANINGS.get(ROWS[instruction.base].meaning)
        place.is_predicate, place.position = is_predicate, of.index(name)
        found = None if meaning is None else meaning(place, instruction)
        return self.opaque(1 if is_predicate else 32, block) if found is None else found

    def _divided(self, division: Division) -> int:
        place = self.place(self._block_at(division.begin), division.begin)
        words = [place.word(each) for each in division.operands]
        pairs = (place.make.pack(*words[:2]), place.make.pack(*words[2:]))
        whole = place.make.node(division.op, pairs, 64, division.signed)
        return place.make.high(whole) if division.half else place.make.low(whole)

    def _block_at(self, index: int) -> int:
        """The block that an instruction is in."""
        return next(n for n, block in enumerate(self._flow.blocks) if block.begin <= index < block.end)


class Place:
    """Operands as an instruction at one place sees them. `make` makes nodes there.

    `is_predicate`, `position`: which of the instruction's results is asked for.
    """

    def __init__(self, values: MachineValues, make: Maker, block: int, index: int) -> None:
        self.values, self.make = values, make
        self.block, self.index = block, index
        self.is_predicate, self.position = False, 0
        self.guard, self.truth = values.guard(block, index)

    def register(self, name: str) -> int:
        """A register's value while the instruction's guard holds; "" is 0."""
        if not name:
            return self.make.number(0)
        value = self.values.register(name, self.block, self.index)
        while self.guard >= 0:
            node = self.make.graph.nodes[value]
            if node.op is not Op.SELECT:
                break
            predicate, truth = self.make.graph.plain(node.args[0], self.truth)
            if predicate != self.guard:
                break
            value = self.make.graph.resolve(node.args[1 if truth else 2])
        return value

    def predicate(self, operand: Operand) -> int:
        """Errors: ValueError when the operand is none."""
        if operand.sort is not Sort.PREDICATE:
            raise ValueError("not a predicate")
        value = self.register(operand.name) if operand.name else self.make.number(1)
        return self.make.opposite(value) if operand.sign == "!" else value

    def word(self, operand: Operand, position: int = 0) -> int:
        """A word of an operand, without its sign. Errors: ValueError when it is not a plain word."""
        if operand.sort is Sort.ADDRESS_HALF:
            return self.values.banks.half_of_address(self.make, operand)
        if operand.absolute or (operand.part and operand.part not in ("64", "U32", "S32")):
            raise ValueError(f"a part of {operand.name}")
        if operand.sort is Sort.NUMBER:
            return self.make.word(operand.number if position == 0 else operand.number >> 32)
        if operand.sort is Sort.REGISTER:
            return self.register(following(operand.name, position))
        if operand.sort is Sort.CONSTANT:
            return self.values.banks.word(self.make, operand, position, self.register)
        raise ValueError(f"'{operand.name}' is no number")

    def value(self, operand: Operand) -> int:
        """A word with its sign."""
        value = self.word(operand)
        return self.signed(operand, value, 32)

    def signed(self, operand: Operand, value: int, width: int) -> int:
        if operand.sign == "-":
            return self.make.negative(value, width)
        return self.make.inverse(value, width) if operand.sign == "~" else value

    def pair(self, operand: Operand) -> int:
        """A 64-bit value: two registers or words in a row, with its sign."""
        if operand.sort is Sort.NUMBER:
            return self.signed(operand, self.make.number(operand.number), 64)
        return self.signed(operand, self.make.pack(self.word(operand), self.word(operand, 1)), 64)

    def address(self, address: Address, wide: bool) -> int:
        """The sum of registers; one of them a pair when the address has 64 bits. Errors: ValueError."""
        total = self.make.number(0)
        for name, parts in address.terms:
            if "U32" in parts:
                term = self.make.node(Op.CONVERT, (self.register(name),), 32)
            elif wide and ("64" in parts or name.startswith("UR") or len(address.terms) == 1):
                term = self.make.pack(self.register(name), self.register(following(name, 1)))
            elif not parts and wide:
                term = self.make.node(Op.CONVERT, (self.register(name),), 32, True)
            else:
                raise ValueError(f"an address with {name}.{'.'.join(parts)}")
            total = self.make.add(total, term, 64)
        return total
