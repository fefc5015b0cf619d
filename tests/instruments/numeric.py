"""Values of a graph's nodes as machine code computes them, of numbers that are given for some nodes."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping
from fractions import Fraction

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op
from ptxtools.machine.maker import CARRY, SUM, WIDE_CARRY, WIDE_ESTIMATE

_WORD = (1 << 32) - 1
_ARITHMETIC: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.MUL: operator.mul,
    Op.AND: operator.and_,
    Op.OR: operator.or_,
    Op.XOR: operator.xor,
    Op.BOTH: operator.and_,
    Op.EITHER: operator.or_,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}


class Numbers:
    """`given`: what some nodes are."""

    def __init__(self, graph: Graph, given: Mapping[int, int]) -> None:
        self.graph = graph
        self.known = dict(given)

    def of(self, index: int) -> int:
        """The bits of a node, as an unsigned number. Errors: ValueError of a node without a meaning here."""
        index = self.graph.resolve(index)
        if index not in self.known:
            self.known[index] = self._made(self.graph.nodes[index])
        return self.known[index]

    def _made(self, node: Node) -> int:
        if node.op is Op.NUMBER:
            return node.number & (1 << 64) - 1
        args = [self.of(arg) for arg in node.args]
        if node.op is Op.UNKNOWN:
            return self._scratch(node, args)
        if node.op in _ARITHMETIC:
            return _ARITHMETIC[node.op](*args) & (1 << node.width) - 1
        if node.op is Op.COMPARE:
            return int(_COMPARISONS[node.name](*(seen(each, node.width, node.signed) for each in args)))
        if node.op is Op.SELECT:
            return args[1] if args[0] else args[2]
        return self._other(node, args)

    def _other(self, node: Node, args: list[int]) -> int:
        mask = (1 << node.width) - 1
        match node.op:
            case Op.OPPOSITE:
                return 1 - args[0]
            case Op.NEG:
                return -args[0] & mask
            case Op.NOT:
                return ~args[0] & mask
            case Op.SHR:
                return seen(args[0], node.width, node.signed) >> args[1] & mask
            case Op.EXTRACT:
                return args[0] >> args[1] & (1 << args[2]) - 1
            case Op.PACK:
                return args[0] & _WORD | (args[1] & _WORD) << 32
            case Op.CONVERT:
                return seen(args[0], node.width, node.signed) & (1 << 64) - 1
            case Op.MUL_WIDE:
                a, b = (seen(each, 32, node.signed) for each in args)
                return a * b & (1 << 64) - 1
        raise ValueError(f"{node.op.value} has no number")

    def _scratch(self, node: Node, args: list[int]) -> int:
        if node.name == SUM:
            return self._sum(node) & _WORD
        if node.name == CARRY:
            return int(self._sum(self.graph.nodes[self.graph.resolve(node.args[0])]) >> 32 > node.number)
        if node.name == WIDE_CARRY:
            return (args[0] + args[1]) >> 64
        if node.name == WIDE_ESTIMATE:
            return estimate(args[0] & _WORD | (args[1] & _WORD) << 32) >> 32 * node.number & _WORD
        raise ValueError(f"'{node.name}' has no number")

    def _sum(self, node: Node) -> int:
        """The whole of a sum of words: what is negated adds its complement and 1."""
        count = node.number >> 8
        args = [self.of(arg) & _WORD for arg in node.args]
        terms = [(~each & _WORD) + 1 if node.number >> place & 1 else each for place, each in enumerate(args[:count])]
        return sum(terms) + sum(args[count:])


def seen(value: int, width: int, signed: bool) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if signed and value >> (width - 1) else value


def estimate(divisor: int) -> int:
    """Of a float not below the divisor the float nearest to its reciprocal, the bits moved, as an integer."""
    if divisor == 0:
        return (1 << 64) - 1
    bits = _bits(float(divisor))
    bits += _value(bits) < divisor
    near = _bits(1 / _value(bits))
    nearest = min(range(near - 1, near + 2), key=lambda each: abs(Fraction(_value(each)) - 1 / Fraction(_value(bits))))
    return int(_value(nearest + 0x1FFFFFFE))


def _bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _value(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])
