"""What finds shapes of values in the nodes of machine code."""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.numbering import Numbering
from ptxtools.access.template import Node, Op


class Finder:
    """Looks at the nodes of a graph; equal values have one number."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.numbers = Numbering(graph)

    def node(self, index: int) -> Node:
        return self.graph.nodes[self.graph.resolve(index)]

    def same(self, *pairs: tuple[int, int]) -> bool:
        """Whether the nodes of each pair have one value."""
        return all(one == other or self.numbers.of(one) == self.numbers.of(other) for one, other in pairs)

    def rewrite(self, divisions: dict[int, tuple[Op, tuple[int, int]]], signed: bool) -> None:
        """Makes nodes divisions of words: DIV or REM and their operands, by node."""
        for index, (op, args) in divisions.items():
            node = self.graph.nodes[index]
            self.graph.nodes[index] = node._replace(op=op, args=args, width=32, signed=signed, name="")
