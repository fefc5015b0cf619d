"""Known bits: those that a value may have set, for every launch. An OR of values that share none is their sum.

A sum keeps its affine form, an OR does not, and compilers write either.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op

_DEPTH = 12
_SPECIAL = {"tid.x": 1023, "tid.y": 1023, "tid.z": 63, "laneid": 31}
_MODULAR = {Op.ADD, Op.SUB, Op.MUL, Op.SHL, Op.AND, Op.OR, Op.XOR}  # bits above their width mean nothing


def add_disjoint(graph: Graph) -> None:
    """Rewrites every OR and XOR of values that have no bit in common to an ADD."""
    bits = Bits(graph)
    for index, node in enumerate(graph.nodes):
        if node.op in (Op.OR, Op.XOR) and bits.are_disjoint(node):
            graph.nodes[index] = node._replace(op=Op.ADD)


class Bits:
    """`of` is a mask of the bits, among the lowest `width`, that may be 1."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[tuple[int, int], int] = {}

    def are_disjoint(self, node: Node) -> bool:
        one, other = (self.of(arg, node.width) for arg in node.args)
        return node.width > 0 and one & other == 0

    def of(self, index: int, width: int, depth: int = _DEPTH) -> int:
        index, full = self._graph.resolve(index), (1 << width) - 1
        known = self._known.get((index, width))
        if known is not None:
            return known
        if depth == 0:
            return full
        node = self._graph.nodes[index]
        found = self._of(node, width, depth - 1)
        if node.op in _MODULAR and node.width < width:
            found |= -1 << node.width
        self._known[index, width] = found & full
        return found & full

    def _of(self, node: Node, width: int, depth: int) -> int:
        if node.op is Op.NUMBER:
            return node.number
        if node.op is Op.SPECIAL:
            return _SPECIAL.get(node.name, -1)
        if node.op in (Op.PARAMETER, Op.LOADED):
            return -1 if node.signed or not node.width else (1 << node.width) - 1
        if node.op is Op.CONVERT:
            found = self.of(node.args[0], node.width, depth)
            return found | -1 << node.width if node.signed and found >> (node.width - 1) else found
        if node.op in (Op.SELECT, Op.PHI):
            found = 0
            for arg in node.args[1 if node.op is Op.SELECT else 0 :]:
                found |= self.of(arg, width, depth)
            return found
        if node.op in (Op.SHL, Op.SHR, Op.EXTRACT):
            return self._moved(node, depth)
        if len(node.args) != 2:
            return -1
        return self._of_two(node, *(self.of(arg, node.width, depth) for arg in node.args))

    def _moved(self, node: Node, depth: int) -> int:
        count = self._graph.number_of(node.args[1])
        if count is None or not 0 <= count < node.width:
            return -1
        value = self.of(node.args[0], node.width, depth)
        if node.op is Op.SHL:
            return value << count
        if node.signed:
            return -1
        size = self._graph.number_of(node.args[2]) if node.op is Op.EXTRACT else node.width
        return -1 if size is None or size < 0 else value >> count & (1 << size) - 1

    def _of_two(self, node: Node, a: int, b: int) -> int:
        if node.op is Op.AND:
            return a & b
        if node.op in (Op.OR, Op.XOR) or (node.op is Op.ADD and a & b == 0):
            return a | b
        if node.op in (Op.ADD, Op.SUB):
            return -_lowest(a | b)
        if node.op in (Op.MUL, Op.MUL_WIDE):
            return -(_lowest(a) * _lowest(b))
        return -1


def _lowest(mask: int) -> int:
    """The lowest bit of a mask; of none, one beyond all widths."""
    return mask & -mask if mask else 1 << 64
