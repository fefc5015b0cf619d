"""Finds minimum and maximum of 64-bit values, which GPUs compute with a comparison and two selects.

As a minimum or maximum, a value keeps its bounds, and a 64-bit number in it is not taken for a base address.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.numbering import Numbering
from ptxtools.access.template import Node, Op


def find_extremes(graph: Graph) -> None:
    """Rewrites choices of one of the two values that the predicate compares to MIN and MAX."""
    numbers = Numbering(graph)
    found = {}
    for index, node in enumerate(graph.nodes):
        if node.op is Op.SELECT:
            extreme = _extreme(graph, numbers, node)
            if extreme is not None:
                found[index] = extreme
    for index, extreme in found.items():
        graph.nodes[index] = extreme


def _extreme(graph: Graph, numbers: Numbering, node: Node) -> Node | None:
    args = [graph.resolve(arg) for arg in node.args]
    predicate, is_true = graph.plain(args[0])
    test = graph.nodes[predicate]
    if test.op is not Op.COMPARE or test.name not in ("lt", "le", "gt", "ge"):
        return None
    width = node.width or 32  # what an instruction's guard chooses is a word
    test = _narrowed(graph, test) if width == 32 else test
    if test.width != width:
        return None
    compared = [numbers.of(arg) for arg in test.args]
    chosen = [numbers.of(arg) for arg in args[1:]]
    if chosen not in (compared, compared[::-1]):
        return None
    is_least = (test.name in ("lt", "le")) is ((chosen == compared) is is_true)
    return node._replace(op=Op.MIN if is_least else Op.MAX, args=(args[1], args[2]), width=width, signed=test.signed)


def _narrowed(graph: Graph, test: Node) -> Node:
    """A comparison of 64 bits whose upper words are 0, as one of the lower words."""
    sides = [graph.nodes[graph.resolve(arg)] for arg in test.args]
    if test.width != 64 or any(each.op is not Op.CONVERT or each.signed or each.width != 32 for each in sides):
        return test
    return test._replace(args=tuple(each.args[0] for each in sides), width=32, signed=False)
