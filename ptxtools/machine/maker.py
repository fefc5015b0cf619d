"""Nodes of machine values: registers of 32 bits, pairs of them, sums with carries.

Some nodes are for the time of building only (`scratch`): `pairs` makes 64-bit values of them, or takes them apart.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op

SUM = "sum"  # args: words, then predicates that are carried in; number: which words are negated, their count << 8
CARRY = "carry"  # out of the sum args[0]: its carry number `number`
HIGH_OF_SHIFT = "high of shift"  # args: low, high, count: the upper half of high:low shifted to the left
LOW_OF_SHIFT = "low of shift"  # the lower half of high:low shifted to the right
RECIPROCAL = "reciprocal"  # of the unsigned 32-bit args[0], as a float
ESTIMATE = "estimate"  # that float as an integer, scaled by 2^32
PREDICATES = "predicates"  # a word with the bits number & 255 from args, lowest first, at bit number >> 8; 0 elsewhere
FLOAT = "float"  # the unsigned args[0], or the pair of args, as a float
WIDE_ESTIMATE = "wide estimate"  # word `number` of a float as an integer, scaled: the reciprocal of the pair of args
WIDE_CARRY = "wide carry"  # out of the 64-bit sum of args
_FULL = (1 << 32) - 1


class Maker:
    """Makes nodes at one place: a block of the template and a condition."""

    def __init__(self, graph: Graph, block: int, condition: int) -> None:
        self.graph, self.block, self.condition = graph, block, condition

    def node(self, op: Op, args: tuple[int, ...], width: int = 32, signed: bool = False, name: str = "") -> int:
        return self.graph.add(Node(op, args, width, signed, name=name, block=self.block, condition=self.condition))

    def scratch(self, name: str, args: tuple[int, ...], number: int = 0, width: int = 32) -> int:
        return self.graph.add(
            Node(Op.UNKNOWN, args, width, number=number, name=name, block=self.block, condition=self.condition)
        )

    def any(self, width: int = 32) -> int:
        return self.graph.fresh(Node(Op.OPAQUE, width=width, block=self.block))

    def loaded(self, width: int, signed: bool, line: int) -> int:
        return self.graph.fresh(Node(Op.LOADED, width=width, signed=signed, number=line, block=self.block))

    def number(self, value: int) -> int:
        return self.graph.number(value)

    def word(self, value: int) -> int:
        """A number of 32 bits: 0xffffffff is -1, so that a choice of it and of a small number has close bounds."""
        return self.number(_near(value, 32))

    def of(self, index: int) -> int | None:
        return self.graph.number_of(index)

    def add(self, a: int, b: int, width: int = 32) -> int:
        x, y = self.of(a), self.of(b)
        if x == 0:
            return b
        if y == 0:
            return a
        if x is not None and y is not None:
            return self.number(_near(x + y, width))
        if x is not None:
            a, b = b, self.number(_near(x, width))
        elif y is not None:
            b = self.number(_near(y, width))
        return self.node(Op.ADD, (a, b), width)

    def negative(self, a: int, width: int = 32) -> int:
        x = self.of(a)
        return self.number(-x) if x is not None else self.node(Op.NEG, (a,), width)

    def inverse(self, a: int, width: int = 32) -> int:
        x = self.of(a)
        return self.number(~x) if x is not None else self.node(Op.NOT, (a,), width)

    def exclusive(self, a: int, b: int, width: int = 32) -> int:
        """a ^ b, where a ^ (a ^ b) is b: registers are swapped so."""
        for one, other in ((a, b), (b, a)):
            node = self.graph.nodes[self.graph.resolve(one)]
            if node.op is Op.XOR and node.width == width and other in node.args:
                return node.args[1 - node.args.index(other)]
        return self.node(Op.XOR, (a, b), width)

    def subtract(self, a: int, b: int, width: int = 32) -> int:
        x, y = self.of(a), self.of(b)
        if y is not None:
            return self.add(a, self.number(-y), width)
        return self.negative(b, width) if x == 0 else self.node(Op.SUB, (a, b), width)

    def multiply(self, a: int, b: int, width: int = 32) -> int:
        for one, other in ((a, b), (b, a)):
            x, y = self.of(one), self.of(other)
            if x is None:
                continue
            x = _near(x, width)
            if x in (0, 1):
                return other if x else self.number(0)
            if y is not None:
                return self.number(_near(x * y, width))
            return self.node(Op.MUL, (other, self.number(x)), width)
        return self.node(Op.MUL, (a, b), width)

    def multiply_wide(self, a: int, b: int, signed: bool) -> int:
        """The whole product of two words."""
        for one, other in ((a, b), (b, a)):
            x = self.of(one)
            if x is not None:
                x = _seen(x, signed)
                if x == 0:
                    return self.number(0)
                y = self.of(other)
                if y is not None:
                    return self.number(x * _seen(y, signed))
                if x == 1:
                    return self.node(Op.CONVERT, (other,), 32, signed)
        return self.node(Op.MUL_WIDE, (a, b), 32, signed)

    def shift_left(self, a: int, count: int, width: int = 32) -> int:
        x = self.of(a)
        if count == 0:
            return a
        if x is not None:
            return self.number(_near(x << count, width))
        return self.node(Op.SHL, (a, self.number(count)), width)

    def shift_right(self, a: int, count: int, signed: bool, width: int = 32) -> int:
        return a if count == 0 else self.node(Op.SHR, (a, self.number(count)), width, signed)

    def low(self, whole: int) -> int:
        """The lower word of a 64-bit value."""
        x = self.of(whole)
        if x is not None:
            return self.word(x)
        return self.graph.add(Node(Op.EXTRACT, (whole, self.number(0), self.number(32)), 64))

    def high(self, whole: int) -> int:
        x = self.of(whole)
        if x is not None:
            return self.word(x >> 32)
        return self.graph.add(Node(Op.EXTRACT, (whole, self.number(32), self.number(32)), 64))

    def pack(self, low: int, high: int) -> int:
        """The 64-bit value of two words, low first."""
        x, y = self.of(low), self.of(high)
        if x is not None and y is not None:
            return self.number(_near((x & _FULL) | y << 32, 64))
        return self.node(Op.PACK, (low, high), 32)

    def opposite(self, predicate: int) -> int:
        node = self.graph.nodes[self.graph.resolve(predicate)]
        if node.op is Op.NUMBER:
            return self.number(1 - node.number)
        return node.args[0] if node.op is Op.OPPOSITE else self.node(Op.OPPOSITE, (predicate,), 1)

    def both(self, a: int, b: int) -> int:
        for one, other in ((a, b), (b, a)):
            x = self.of(one)
            if x is not None:
                return other if x else self.number(0)
        return self.node(Op.BOTH, (a, b), 1)

    def either(self, a: int, b: int) -> int:
        for one, other in ((a, b), (b, a)):
            x = self.of(one)
            if x is not None:
                return self.number(1) if x else other
        return self.node(Op.EITHER, (a, b), 1)

    def bit(self, value: int, place: int) -> int:
        """Whether a bit of a word is 1."""
        known = self.bits(value, 1 << place)
        if known is not None:
            return known
        one = self.node(Op.AND, (value, self.number(1 << place)), 32)
        return self.node(Op.COMPARE, (one, self.number(0)), 32, name="ne")

    def bits(self, value: int, mask: int) -> int | None:
        """Whether one of these bits is 1, of a word made of predicates or a number; None of others."""
        node = self.graph.nodes[self.graph.resolve(value)]
        if node.op is Op.NUMBER:
            return self.number(int(node.number & mask != 0))
        if node.op is not Op.UNKNOWN or node.name != PREDICATES:
            return None
        found = self.number(0)
        places = [place for place in range(8) if node.number >> place & 1]
        for predicate, place in zip(node.args, places, strict=True):
            if mask >> (place + (node.number >> 8)) & 1:
                found = self.either(found, predicate)
        return found

    def select(self, predicate: int, a: int, b: int, width: int = 32) -> int:
        x = self.of(predicate)
        if x is not None:
            return a if x else b
        return a if a == b else self.node(Op.SELECT, (predicate, a, b), width)


def _near(value: int, width: int) -> int:
    """The number nearest to 0 that is congruent."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def _seen(value: int, signed: bool) -> int:
    value &= _FULL
    return value - (1 << 32) if signed and value >> 31 else value
