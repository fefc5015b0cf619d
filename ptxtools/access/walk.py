"""Values of registers as nodes of a template, built on demand from a use back to its definitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ptxtools.access.flow import Flow
from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op
from ptxtools.reader.instruction import Instruction


class Walk(ABC):
    """Nodes of registers. A register that may be undefined is opaque. Blocks are the function's own."""

    def __init__(self, code: Sequence[Instruction], flow: Flow, graph: Graph) -> None:
        self._code, self._flow, self._graph = code, flow, graph
        self._entry: dict[tuple[int, str], int] = {}
        self._defined: dict[tuple[int, str], int] = {}

    @abstractmethod
    def _computed(self, instruction: Instruction, name: str, block: int, index: int) -> int:
        """What an instruction writes to a register. Errors: ValueError when that is not understood."""

    def _at(self, block: int) -> int:
        """The block's number in the template."""
        return self._flow.base + block

    def opaque(self, bits: int, block: int) -> int:
        """A value of its own of which only the width is known."""
        return self._graph.fresh(Node(Op.OPAQUE, width=bits, block=self._at(block)))

    def register(self, name: str, block: int, index: int) -> int:
        """The value of a register just before instruction `index` of a block."""
        only = self._flow.definitions.only(name)
        if only and only[0] != block and self._flow.dominators.dominates(only[0], block):
            return self.defined(only[1], name, only[0])
        found = self._flow.definitions.before(name, block, index)
        return self.at_entry(name, block) if found is None else self.defined(found, name, block)

    def at_exit(self, name: str, block: int) -> int:
        return self.register(name, block, self._flow.blocks[block].end)

    def at_entry(self, name: str, block: int) -> int:
        passed = []  # blocks that only the next one leads to, from use to definition
        value = self._known_at_entry(name, block)
        while value is None:
            edges = self._flow.blocks[block].predecessors
            if block in self._flow.irreducible or not edges:
                value = self.opaque(64, block)
            elif len(edges) == 1 and block != 0:
                passed.append(block)
                block = edges[0].source
                found = self._flow.definitions.last(name, block)
                value = self._known_at_entry(name, block) if found is None else self.defined(found, name, block)
                continue
            elif block in self._flow.loops:
                value = self._at_header(name, block)
            else:
                value = self._phi(name, block)
            self._entry[block, name] = value
        for each in passed:
            self._entry[each, name] = value
        return value

    def _known_at_entry(self, name: str, block: int) -> int | None:
        known = self._entry.get((block, name))
        return None if known is None else self._graph.resolve(known)

    def _phi(self, name: str, block: int) -> int:
        """Of several edges into a block. The node exists before its operands, as loops inside lead back to it."""
        node = self._graph.fresh(Node(Op.PHI, block=self._at(block), condition=self._flow.conditions[block]))
        self._entry[block, name] = node
        edges = self._flow.blocks[block].predecessors
        operands = [self.at_exit(name, edge.source) for edge in edges]
        self._graph.set_operands(node, operands, tuple(self._flow.edge_condition(edge) for edge in edges))
        others = {self._graph.resolve(each) for each in operands} - {node}
        if len(others) == 1:  # what comes next may ask what it is
            self._graph.substitute(node, others.pop())
        return self._graph.resolve(node)

    def _at_header(self, name: str, block: int) -> int:
        loop = self._flow.loops[block]
        number = self._flow.loop_numbers[block]
        node = self._graph.fresh(
            Node(Op.LOOP, number=number, block=self._at(block), condition=self._flow.conditions[block])
        )
        self._entry[block, name] = node
        before = [self.at_exit(name, edge.source) for edge in loop.entries] or [self.opaque(64, 0)]
        conditions = tuple(self._flow.edge_condition(edge) for edge in loop.entries) or (self._flow.conditions[0],)
        after = [self.at_exit(name, edge.source) for edge in loop.back]
        conditions += tuple(self._flow.edge_condition(edge) for edge in loop.back)
        self._graph.set_operands(node, [*before, *after], conditions)
        return node

    def defined(self, index: int, name: str, block: int) -> int:
        """The value that instruction `index` gives a register; with a guard, that or the one before."""
        known = self._defined.get((index, name))
        if known is not None:
            return self._graph.resolve(known)
        instruction = self._code[index]
        try:
            value = self._computed(instruction, name, block, index)
        except ValueError:
            value = self.opaque(64, block)
        if instruction.guard:
            before = self.register(name, block, index)
            guard = self.register(instruction.guard, block, index)
            if instruction.guard_negated:
                value, before = before, value
            value = self._graph.add(
                Node(Op.SELECT, (guard, value, before), block=self._at(block), condition=self._flow.conditions[block])
            )
        # What it is made from may lead round a loop to this place: then it has been made, and stays the only one.
        return self._graph.resolve(self._defined.setdefault((index, name), value))
