"""A hash of what a value is computed from and how, which is the same for the same computation in other registers."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from ptxtools.access.graph import Graph
from ptxtools.access.template import Op
from ptxtools.machine.maker import SUM

_EITHER_WAY = {Op.ADD, Op.MUL, Op.MUL_WIDE, Op.AND, Op.OR, Op.XOR, Op.BOTH, Op.EITHER}
_OPPOSITE = {"ge": "lt", "le": "gt", "ne": "eq"}
_BYTES = 16


class Digest:
    """`leaves`: nodes that have names of their own; any other node without operands is told by what it is."""

    def __init__(self, graph: Graph, leaves: Mapping[int, str]) -> None:
        self.graph = graph
        self.known = {graph.resolve(index): _hash("leaf", name) for index, name in leaves.items()}

    def of(self, index: int) -> bytes:
        index = self.graph.resolve(index)
        known = self.known.get(index)
        if known is None:
            known = self.known[index] = self._made(index)
        return known

    def _made(self, index: int) -> bytes:
        node = self.graph.nodes[index]
        args = [self.of(arg) for arg in node.args]
        name = node.name
        if node.op is Op.SELECT:
            test, truth = self._test(node.args[0])
            args = [test, *(args[1:] if truth else args[:0:-1])]
        elif node.op in (Op.COMPARE, Op.OPPOSITE):
            test, truth = self._test(index)
            return _hash("predicate", test.hex(), truth)
        elif node.op in _EITHER_WAY:
            args.sort()
        elif node.op is Op.UNKNOWN and name == SUM:
            return self._sum(args, node.number)
        return _hash(node.op.value, node.width, node.signed, node.number, name, *args)

    def _test(self, index: int) -> tuple[bytes, bool]:
        """A predicate or its opposite, whichever is said with less or equal; and whether it is the predicate itself."""
        index, truth = self.graph.plain(index)
        node = self.graph.nodes[index]
        if node.op is not Op.COMPARE:
            return self.of(index), truth
        name, args = node.name, [self.of(arg) for arg in node.args]
        if name in _OPPOSITE:
            name, truth = _OPPOSITE[name], not truth
        if name == "gt":
            name, args = "lt", args[::-1]
        if name == "eq":
            args.sort()
        return _hash("compare", name, node.width, node.signed, *args), truth

    def _sum(self, args: list[bytes], number: int) -> bytes:
        """Words in any order, each negated or not, and carries in any order."""
        count = number >> 8
        terms = sorted((args[place], number >> place & 1) for place in range(count))
        return _hash(SUM, *(part for term in terms for part in term), "carries", *sorted(args[count:]))


def _hash(*parts: object) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=_BYTES).digest()
