"""Factors out the pointer with which all operands of a select begin: (p + a or p + b) becomes p + (a or b).

Unrolled loops leave many such selects. An evaluation that finds no bounds for one then still knows the allocation.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op

_NONE, _MANY = -1, -2
_CHOICES = {Op.PHI, Op.SELECT, Op.HAVOC}


def rebase(graph: Graph) -> None:
    """Rewrites selects and phis that are no induction variables."""
    finder = _Finder(graph)
    found = {}
    for index, node in enumerate(graph.nodes):
        if node.op in _CHOICES and node.args:
            base = finder.base(index)
            if base >= 0 and base != index:
                found[index] = base
    for index, base in found.items():
        node = graph.nodes[index]
        graph.nodes[index] = Node(
            Op.ADD, (base, _rest(graph, node, base)), 64, block=node.block, condition=node.condition
        )


def _rest(graph: Graph, node: Node, base: int) -> int:
    if node.op is Op.HAVOC:
        return graph.fresh(node._replace(args=(), width=64))
    first = 1 if node.op is Op.SELECT else 0
    rest = [
        graph.add(Node(Op.SUB, (arg, base), 64, block=node.block, condition=node.condition))
        for arg in node.args[first:]
    ]
    return graph.fresh(node._replace(args=(*node.args[:first], *rest), width=64))


class _Finder:
    """`base`: the only parameter or symbol that is added up in a value; _NONE without any, _MANY if not clear."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[int, int] = {}
        self.active: set[int] = set()

    def base(self, index: int) -> int:
        if index in self.known:
            return self.known[index]
        if index in self.active:
            return _MANY
        self.active.add(index)
        found = self.of(self.graph.nodes[index], index)
        self.active.discard(index)
        self.known[index] = found
        return found

    def of(self, node: Node, index: int) -> int:
        if (node.op is Op.PARAMETER and node.width == 64) or node.op is Op.SYMBOL:
            return index
        if node.op is Op.LOADED:
            return _MANY
        if node.op is Op.LOOP:
            return self.base(node.args[0])
        if node.op is Op.HAVOC:
            return self.common([arg for arg in node.args if not self.leads_to(arg, index)])
        if node.op in _CHOICES:
            return self.common(list(node.args[1 if node.op is Op.SELECT else 0 :]))
        if node.op in (Op.ADD, Op.SUB) and node.width == 64:
            one, other = (self.base(arg) for arg in node.args)
            if other == _NONE:
                return one
            return other if one == _NONE and node.op is Op.ADD else _MANY
        return _NONE

    def common(self, args: list[int]) -> int:
        found = {self.base(arg) for arg in args}
        return found.pop() if len(found) == 1 else _MANY

    def leads_to(self, value: int, goal: int, depth: int = 16) -> bool:
        """Whether a value is the goal with something added to it: it begins with the same pointer."""
        if value == goal:
            return True
        node = self.graph.nodes[value]
        if depth == 0 or node.op not in (Op.ADD, Op.SUB) or node.width != 64:
            return False
        one, other = node.args
        if self.leads_to(one, goal, depth - 1):
            return self.base(other) == _NONE
        return node.op is Op.ADD and self.leads_to(other, goal, depth - 1) and self.base(one) == _NONE
