"""Words as parts of 64-bit values: halves, terms of sums and products, shifted words."""

from __future__ import annotations

from collections.abc import Sequence

from ptxtools.access.graph import Graph
from ptxtools.access.numbering import Numbering
from ptxtools.access.template import Node, Op
from ptxtools.machine.maker import CARRY, HIGH_OF_SHIFT, SUM

WORD = (1 << 32) - 1


class Words:
    """Looks at words of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.numbers = Numbering(graph)

    def node(self, index: int) -> Node:
        return self.graph.nodes[self.graph.resolve(index)]

    def half(self, index: int) -> tuple[int, int]:
        """(value, 0 or 1) when a node is the lower or upper word of a value; otherwise (-1, 0)."""
        node = self.node(index)
        if node.op is Op.EXTRACT and node.width == 64 and self.graph.number_of(node.args[2]) == 32:
            return self.graph.resolve(node.args[0]), 1 if self.graph.number_of(node.args[1]) == 32 else 0
        return -1, 0

    def sign_of(self, index: int) -> int:
        """The word whose sign a word repeats; -1 when it is no such word."""
        node = self.node(index)
        if node.op is Op.SHR and node.signed and node.width == 32 and self.graph.number_of(node.args[1]) == 31:
            return self.graph.resolve(node.args[0])
        return -1

    def scratch(self, index: int, name: str) -> Node | None:
        node = self.node(index)
        return node if node.op is Op.UNKNOWN and node.name == name else None

    def parts(self, node: Node) -> tuple[list[int], int, list[int]]:
        """Terms of a sum with carries, which of them are negated, and what is carried in."""
        count = node.number >> 8
        args = [self.graph.resolve(arg) for arg in node.args]
        return args[:count], node.number & 255, args[count:]

    def carried(self, index: int) -> int:
        """The sum that a predicate is a carry of; -1 of others."""
        node = self.scratch(index, CARRY)
        return -1 if node is None else self.graph.resolve(node.args[0])

    def total(self, terms: Sequence[tuple[int, bool]]) -> tuple[int, list[tuple[int, bool]]]:
        """The numbers among words that are added up as one number, and the other words, as value numbers in order."""
        number, others = 0, []
        for index, minus in terms:
            value = self.graph.number_of(index)
            if value is None:
                others.append((self.numbers.of(index), minus))
            else:
                number += -value if minus else value
        return number & WORD, sorted(others)

    def terms(self, index: int, minus: bool = False) -> list[tuple[int, bool]]:
        """Words that are added up in a word, and which are subtracted."""
        found: list[tuple[int, bool]] = []
        pending = [(index, minus)]
        while pending and len(found) < 8:
            each, minus = pending.pop()
            node = self.node(each)
            if node.op in (Op.ADD, Op.SUB) and node.width == 32:
                pending += [(node.args[0], minus), (node.args[1], minus ^ (node.op is Op.SUB))]
            else:
                found.append((self.graph.resolve(each), minus))
        return [*found, *pending]

    def factors(self, value: int) -> tuple[Node | None, int | None]:
        """The product of two unsigned words in a value, and what is added to it."""
        node = self.node(value)
        if node.op is Op.ADD:
            for one, other in (node.args, node.args[::-1]):
                if self.node(one).op is Op.MUL_WIDE and not self.node(one).signed:
                    return self.node(one), other
        return (node, None) if node.op is Op.MUL_WIDE and not node.signed else (None, None)

    def same(self, a: int, b: int) -> bool:
        x, y = self.graph.number_of(a), self.graph.number_of(b)
        return a == b or (x is not None and y is not None and (x - y) & WORD == 0)

    def moved(self, node: Node) -> tuple[int, int]:
        """(value, count) of a word that is another one shifted to the left; (-1, 0) of others."""
        number = self.graph.number_of(node.args[1]) if node.op in (Op.SHL, Op.MUL) and node.width == 32 else None
        if node.op is Op.MUL and number is not None:
            number = number.bit_length() - 1 if number > 0 and number.bit_count() == 1 else None
        return (-1, 0) if number is None else (self.graph.resolve(node.args[0]), number)

    def closeness(self, low: int, high: int) -> int:
        """How much two words look like one value's. Any match is right; a good one is simple."""
        a, b = self.node(low), self.node(high)
        (one, first), (other, second) = self.half(low), self.half(high)
        if one >= 0 and one == other and first < second:
            return 10
        if a.op is b.op is Op.PARAMETER and b.number == a.number + 4:
            return 10
        if self.sign_of(high) == low or self.belong(low, high):
            return 9
        if a.op is b.op and a.op in (Op.PHI, Op.LOOP) and a.block == b.block:
            return 7
        if a.op is b.op is Op.SELECT and a.args[0] == b.args[0]:
            return 7
        if a.op is b.op is Op.NUMBER:
            return 6
        return 1 if b.op is Op.NUMBER else 0

    def belong(self, low: int, high: int) -> bool:
        """Whether one was computed with the other."""
        a, b = self.node(low), self.node(high)
        if b.op is Op.UNKNOWN and b.name == HIGH_OF_SHIFT:
            return self.moved(a)[0] == self.graph.resolve(b.args[0])
        if a.op is b.op is Op.UNKNOWN and a.name == b.name == SUM:
            return any(self.scratch(each, CARRY) is not None and low in self.node(each).args for each in b.args)
        value, part = self.half(low)
        if value >= 0 and part == 0:
            return any(self.half(term) == (value, 1) for term, _ in self.terms(high))
        if b.op is Op.SHR:
            moved, count = self.moved(a)
            return moved == self.graph.resolve(b.args[0]) and self.graph.number_of(b.args[1]) == 32 - count
        return False
