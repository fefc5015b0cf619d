"""Predicates that a register kept and that come back where paths have met: that they are the same shows only then."""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op
from ptxtools.machine.maker import Maker

_WORD = (1 << 32) - 1


def restore(graph: Graph) -> None:
    """Replaces tests of bits that are predicates; operands are rewritten by `simplify`."""
    for index in range(len(graph.nodes)):
        node = graph.nodes[index]
        if node.op is Op.COMPARE and node.name in ("eq", "ne") and graph.number_of(node.args[1]) == 0:
            found = _tested(graph, node)
            if found is not None:
                graph.substitute(index, found)


def _tested(graph: Graph, node: Node) -> int | None:
    """The predicate that a comparison of some bits with 0 is."""
    make = Maker(graph, node.block, node.context)
    value, mask = node.args[0], _WORD
    masked = graph.nodes[graph.resolve(value)]
    if masked.op is Op.AND:
        number = graph.number_of(masked.args[1])
        if number is None:
            return None
        value, mask = masked.args[0], number & _WORD
    found = make.bits(value, mask)
    return found if found is None or node.name == "ne" else make.opposite(found)
