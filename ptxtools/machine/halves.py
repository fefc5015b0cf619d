"""Words that are selected by a comparison of the pairs to which they belong: they are halves of the selected pair.

So the minimum of two 64-bit values is recognised even if only one of its words is used.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.numbering import Numbering
from ptxtools.access.template import Node, Op
from ptxtools.machine.maker import Maker


def find_halves(graph: Graph) -> None:
    """Replaces such choices; operands are rewritten by `simplify`."""
    numbers = Numbering(graph)
    found = {}
    for index in range(len(graph.nodes)):
        node = graph.nodes[index]
        if node.op is Op.SELECT and node.width in (0, 32):
            half = _half(graph, numbers, node)
            if half is not None:
                found[index] = half
    for index, half in found.items():
        graph.substitute(index, half)


def _half(graph: Graph, numbers: Numbering, node: Node) -> int | None:
    predicate, is_true = graph.plain(node.args[0])
    test, words = graph.nodes[predicate], node.args[1:] if is_true else node.args[:0:-1]
    if test.op is not Op.COMPARE or test.width != 64 or test.name in ("eq", "ne"):
        return None
    make = Maker(graph, test.block, test.condition)
    sides = [graph.resolve(arg) for arg in test.args]
    chosen = [numbers.of(word) for word in words]
    for part, half in ((0, make.low), (1, make.high)):
        parts = [_word(graph, side, part) for side in sides]
        if None in parts:
            return None
        halves = [numbers.of(each) for each in parts if each is not None]
        if halves[0] != halves[1] and chosen in (halves, halves[::-1]):
            one, other = sides if chosen == halves else sides[::-1]
            return half(make.select(predicate, one, other, 64))
    return None


def _word(graph: Graph, pair: int, part: int) -> int | None:
    """The lower or upper word of a pair of words."""
    node = graph.nodes[pair]
    return graph.resolve(node.args[part]) if node.op is Op.PACK and node.width == 32 and len(node.args) == 2 else None
