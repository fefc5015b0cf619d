"""Nested selects by the same predicate: (p ? a : (p ? b : c)) is (p ? a : c), and (p ? a : a) is a.

Guarded instructions leave many of these: a register written under a predicate and, later, under its complement is one
value wherever it is read after both.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.numbering import Numbering
from ptxtools.access.template import Op

_DEPTH = 8  # choices in choices


def narrow(graph: Graph) -> None:
    """Rewrites every choice of a graph that another one has made before; operands are rewritten by `simplify`."""
    narrower = _Narrower(graph)
    found = {}
    for index, node in enumerate(graph.nodes):
        if node.op is Op.SELECT:
            value = narrower.value(index, {}, _DEPTH)
            if value != index:
                found[index] = value
    for index, value in found.items():
        graph.substitute(index, value)


class _Narrower:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.numbers = Numbering(graph)

    def value(self, index: int, known: dict[int, bool], depth: int) -> int:
        """The value where predicates, by their numbers, are known."""
        index = self.graph.resolve(index)
        node = self.graph.nodes[index]
        if node.op is not Op.SELECT or depth == 0:
            return index
        predicate, truth = self.numbers.predicate(node.args[0])
        if predicate in known:
            return self.value(node.args[1 if known[predicate] is truth else 2], known, depth)
        one = self.value(node.args[1], {**known, predicate: truth}, depth - 1)
        other = self.value(node.args[2], {**known, predicate: not truth}, depth - 1)
        if one == other:
            return one
        if (one, other) == tuple(self.graph.resolve(arg) for arg in node.args[1:]):
            return index
        return self.graph.add(node._replace(args=(node.args[0], one, other)))
