"""Builds a kernel's template from its machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptxtools.access.depth import deep
from ptxtools.access.flow import Flow
from ptxtools.access.graph import Graph
from ptxtools.access.indices import find_indices
from ptxtools.access.lookback import looks_back
from ptxtools.access.must import mark_must
from ptxtools.access.steps import find_steps
from ptxtools.access.stored import MustRun, pointers
from ptxtools.access.template import IN_MEMORY, Access, AccessKind, Node, Op, Template, TensorAccess, Unknown
from ptxtools.access.tensors import of_map
from ptxtools.flow.blocks import ENDS
from ptxtools.machine import copies
from ptxtools.machine.banks import Banks
from ptxtools.machine.code import Code, read
from ptxtools.machine.cubin import Cubin, Kernel
from ptxtools.machine.disassembler import Line
from ptxtools.machine.instruction import FarCall, MachineInstruction
from ptxtools.machine.maps import Cell, Maps
from ptxtools.machine.operand import Operand, Sort, addresses, global_address
from ptxtools.machine.passes import rewrite, widen
from ptxtools.machine.quotients import find_quotients
from ptxtools.machine.rebase import rebase
from ptxtools.machine.stack import find_slots
from ptxtools.machine.table import ROWS, Effect, Row, Through, accessed_bytes
from ptxtools.machine.values import MachineValues

TIER = "machine"
_KINDS = {Effect.READ: AccessKind.READ, Effect.WRITE: AccessKind.WRITE, Effect.ATOMIC: AccessKind.ATOMIC}
_ENDING_CALLS = {"__assertfail"}  # a failed assertion: the kernel ends
_MOST_COPIED = 0xFFFF  # times 16 bytes


def build(cubin: Cubin, kernel: Kernel, lines: Sequence[Line]) -> Template:
    """The template of a kernel."""
    template = Template(kernel.name, tier=TIER)
    template.slots = list(kernel.slots)
    code = read(lines, kernel, cubin.routines.get(kernel.name, {}))
    find_slots(code.body)
    find_quotients(code, cubin, kernel)
    template.unknown = [Unknown(offset, reason) for offset, reason in code.unknown]
    if not code.body.instructions:
        return template
    try:
        with deep():
            _Builder(template, code, cubin, kernel).build()
    except RecursionError:
        template.accesses.clear()
        template.unknown.append(Unknown(0, "values depend on each other too deeply"))
    return template


class _Builder:
    def __init__(self, template: Template, code: Code, cubin: Cubin, kernel: Kernel) -> None:
        self.template, self.code = template, code
        self.graph = Graph(template)
        self.flow = Flow(code.body, template, 0, frozenset())
        self.banks = Banks(cubin, kernel, template)
        self.values = MachineValues(code, self.flow, self.graph, self.banks)
        self.tensors: list[tuple[int, int, TensorAccess]] = []  # each with the node of its map's address, and the block
        self.stored: dict[int, list[int]] = {}  # by number of the access, values of 64 bits
        self.writing: set[int] = set()  # numbers of accesses that put values into memory
        self.maps = Maps(self.graph)
        bases = {instruction.base for instruction in code.body.instructions}
        self.uses_maps = any(base in ROWS and ROWS[base].through is Through.TENSOR_MAP for base in bases)
        self.failing: set[int] = set()  # blocks that end with a failed assertion

    def build(self) -> None:
        for number, block in enumerate(self.flow.blocks):
            for index in range(block.begin, block.end):
                instruction = self.code.body.instructions[index]
                if isinstance(instruction, MachineInstruction):
                    self.instruction(instruction, number, index)
                elif isinstance(instruction, FarCall):
                    self.call(instruction, number, index)
        while self.flow.pending:
            for condition, edge in list(self.flow.pending.items()):
                self.flow.complete(condition, self.values.at_exit(edge.guard, edge.source))
        rewrite(self.graph, self.flow.dominators.dominates)
        self.find_tensors()
        widen(self.graph)
        if any(each.offset == IN_MEMORY for each in self.template.tensors):
            self.maps.complete()
        find_indices(self.graph)
        self.graph.simplify()
        self.find_pointers()
        find_steps(self.graph)
        rebase(self.graph)

    def find_pointers(self) -> None:
        """What stores put where pointers may be loaded from; and which conditions are assertions."""
        blocks, code = self.flow.blocks, self.code.body.instructions
        exits = {n for n, block in enumerate(blocks) if code[block.end - 1].base in ENDS} - self.failing
        must = MustRun(blocks, self.flow.dominators, exits, self.failing)
        self.flow.mark_certain(must.failing, exits)
        mark_must(self.template, self.flow, exits, must.failing, self.writing)
        for number, values in self.stored.items():
            access = self.template.accesses[number]
            found = pointers(self.graph, values)
            if found is not None and must.runs(access.block - self.flow.base):
                self.template.accesses[number] = replace(access, pointers=found)

    def instruction(self, instruction: MachineInstruction, block: int, index: int) -> None:
        row = ROWS.get(instruction.base)
        try:
            if row is None:
                raise ValueError(f"{instruction.opcode} is not analysed")
            if row.effect is Effect.UNKNOWN:
                raise ValueError(row.reason)
            if row.through is Through.TENSOR_MAP:
                self.tensor(instruction, row, block, index)
            elif row.through is Through.BULK:
                self.bulk(instruction, row, block, index)
            elif row.effect is not Effect.NONE:
                self.access(instruction, row, block, index)
            elif self.uses_maps and instruction.base in ("LDS", "STS"):
                self.shared(instruction, block, index)
            for operand in instruction.sources:
                if operand.sort is Sort.CONSTANT and operand.bank == 3:
                    self.constant(instruction, operand, block, index)
        except ValueError as problem:
            self.template.unknown.append(Unknown(instruction.offset, str(problem)))

    def call(self, instruction: FarCall, block: int, index: int) -> None:
        """Of a function of the system, which ends the kernel; others are unknown."""
        node = self.graph.nodes[self.values.register(instruction.register, block, index)]
        symbol = self.graph.nodes[node.args[0]] if node.op is Op.EXTRACT else node
        if symbol.op is not Op.SYMBOL or symbol.name not in _ENDING_CALLS:
            name = symbol.name if symbol.op is Op.SYMBOL else f"what {instruction.register} holds"
            self.template.unknown.append(Unknown(instruction.offset, f"call of {name}"))
        elif not instruction.guard:
            self.failing.add(block)

    def condition(self, instruction: MachineInstruction, block: int, index: int) -> int:
        condition = self.flow.conditions[block]
        if not instruction.guard:
            return condition
        guard = self.values.register(instruction.guard, block, index)
        return self.graph.condition(condition, guard, not instruction.guard_negated)

    def access(self, instruction: MachineInstruction, row: Row, block: int, index: int) -> None:
        """Errors: ValueError when the address cannot be read."""
        text = instruction.text
        condition = self.condition(instruction, block, index)
        if instruction.base == "LDGSTS":
            condition = self.copied(instruction, condition, block, index)
            where = copies.source(text)
        else:
            where = global_address(text)
        wide = "E" in instruction.parts or any("64" in parts for _, parts in where.terms)
        if not wide:
            raise ValueError(f"{instruction.opcode} has an address of 32 bits")
        place, displacement, length = self.values.place(block, index), where.displacement, -1
        address, size = place.address(where, wide), accessed_bytes(instruction.parts)
        if row.effect in (Effect.WRITE, Effect.ATOMIC):
            self.writes(len(self.template.accesses), self.written(instruction, size, block, index), row, size)
        if "ZFILL" in instruction.parts:
            address, length = copies.filled(place.make, address, displacement, size)
            displacement = 0
        self.template.accesses.append(
            Access(
                _KINDS[row.effect],
                address,
                displacement,
                size,
                condition,
                instruction.offset,
                row.generic,
                length=length,
                block=self.flow.base + block,
                looks_back=looks_back(self.template.name, _KINDS[row.effect], instruction.parts),
            )
        )

    def writes(self, number: int, values: list[int], row: Row, size: int) -> None:
        """Keeps what an access writes until it is known what its address begins with."""
        self.maps.written[number] = values
        if row.effect is Effect.WRITE:
            self.writing.add(number)
            if size % 8 == 0:
                self.stored[number] = values

    def written(self, instruction: MachineInstruction, size: int, block: int, index: int) -> list[int]:
        """The values of 64 bits, or the smaller one, that an instruction writes."""
        place, source = self.values.place(block, index), instruction.sources[-1]
        if source.sort is not Sort.REGISTER or source.part or source.sign or "ENL2" in instruction.parts:
            return [place.make.any(64)]
        words = [place.word(source, position) for position in range(max(size // 4, 1))]
        if len(words) == 1:
            return words
        return [place.make.pack(*two) for two in zip(words[::2], words[1::2], strict=True)]

    def shared(self, instruction: MachineInstruction, block: int, index: int) -> None:
        """Notes what goes through shared memory: tensor maps may."""
        size = accessed_bytes(instruction.parts)
        cell = self.cell(instruction, size, block, index)
        if instruction.base == "LDS":
            self.maps.loads[instruction.offset] = cell
        elif size % 8 == 0:
            self.maps.stored.append((cell, self.written(instruction, size, block, index)))

    def cell(self, instruction: MachineInstruction, size: int, block: int, index: int) -> Cell:
        """Where in shared memory an instruction reads or writes."""
        (where,) = addresses(instruction.text)
        if any(parts for _, parts in where.terms):
            return Cell(-1, 0, size)
        place = self.values.place(block, index)
        total = place.make.number(0)
        for name, _ in where.terms:
            total = place.make.add(total, place.register(name))
        return Cell(total, where.displacement, size)

    def tensor(self, instruction: MachineInstruction, row: Row, block: int, index: int) -> None:
        """A copy between shared memory and a tensor, whose map is at the second address. Errors: ValueError."""
        where = addresses(instruction.text)[1]
        node = self.values.place(block, index).address(where, wide=True)
        condition = self.condition(instruction, block, index)
        access = TensorAccess(_KINDS[row.effect], where.displacement, condition, instruction.offset)
        self.tensors.append((node, self.flow.base + block, access))

    def find_tensors(self) -> None:
        """Where the maps lie."""
        for node, block, access in self.tensors:
            try:
                tensors, maps = of_map(self.graph, access, self.graph.resolve(node), block)
            except ValueError as problem:
                self.template.unknown.append(Unknown(access.line, str(problem)))
            else:
                self.template.tensors += tensors
                self.template.accesses += maps

    def bulk(self, instruction: MachineInstruction, row: Row, block: int, index: int) -> None:
        """A copy of a number of 16 bytes, or a reduction. Errors: ValueError."""
        begin, end = instruction.parts[1:3]
        if (begin, end) == ("S", "S"):
            return
        if {begin, end} != {"G", "S"}:
            raise ValueError(f"{instruction.opcode} is not analysed")
        kind = AccessKind.WRITE if row.effect is Effect.READ and begin == "G" else _KINDS[row.effect]
        where = addresses(instruction.text)[0 if begin == "G" else 1]
        place = self.values.place(block, index)
        count = place.make.node(Op.AND, (place.word(instruction.sources[2]), place.make.number(_MOST_COPIED)), 32)
        self.template.accesses.append(
            Access(
                kind,
                place.address(where, wide=True),
                where.displacement,
                0,
                self.condition(instruction, block, index),
                instruction.offset,
                length=place.make.shift_left(count, 4),
                block=self.flow.base + block,
            )
        )

    def copied(self, instruction: MachineInstruction, condition: int, block: int, index: int) -> int:
        """A copy to shared memory reads only when its predicate is true."""
        predicate, truth = copies.condition(instruction.text)
        if not predicate:
            return condition
        return self.graph.condition(condition, self.values.register(predicate, block, index), truth)

    def constant(self, instruction: MachineInstruction, operand: Operand, block: int, index: int) -> None:
        """A variable in constant memory is read."""
        found = self.banks.constants(operand)
        if not found:
            raise ValueError("constant memory without a variable")
        place = self.values.place(block, index)
        moved = place.make.number(0)
        if operand.name:
            moved = place.make.node(Op.CONVERT, (place.register(operand.name),), 32, True)
        condition = self.condition(instruction, block, index)
        size = accessed_bytes(instruction.parts) if "LDC" in instruction.base else 4
        for name, offset in found:
            self.template.sizes[name] = self.banks.cubin.sizes[name]
            address = place.make.add(self.graph.add(Node(Op.SYMBOL, name=name)), moved, 64)
            self.template.accesses.append(
                Access(
                    AccessKind.READ, address, offset, size, condition, instruction.offset, block=self.flow.base + block
                )
            )
