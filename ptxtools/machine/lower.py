"""Replaces nodes that exist only while a graph is built."""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op
from ptxtools.machine.maker import HIGH_OF_SHIFT, LOW_OF_SHIFT, SUM, Maker


def lower(graph: Graph) -> None:
    """Rewrites sums with carries, funnel shifts and lower words; the rest becomes any value."""
    for index in range(len(graph.nodes)):
        node = graph.nodes[index]
        if node.op is Op.EXTRACT and node.width == 64 and _is_low(graph, node):
            graph.substitute(index, node.args[0])  # words are looked at modulo 2^32
        elif node.op is Op.COMPARE and node.name in ("lt", "ge"):
            graph.nodes[index] = _of_whole(graph, node)
        elif node.op is Op.UNKNOWN and node.name:
            found = _lowered(graph, node)
            graph.substitute(index, found)


def _of_whole(graph: Graph, node: Node) -> Node:
    """The sign of an upper word as that of the value."""
    word = graph.nodes[graph.resolve(node.args[0])]
    is_sign = node.signed and node.width == 32 and graph.number_of(node.args[1]) == 0
    is_high = word.op is Op.EXTRACT and word.width == 64 and [graph.number_of(arg) for arg in word.args[1:]] == [32, 32]
    return node._replace(args=(word.args[0], node.args[1]), width=64) if is_sign and is_high else node


def _is_low(graph: Graph, node: Node) -> bool:
    return graph.number_of(node.args[1]) == 0 and graph.number_of(node.args[2]) == 32


def _lowered(graph: Graph, node: Node) -> int:
    make = Maker(graph, node.block, node.condition)
    args = [graph.resolve(arg) for arg in node.args]
    if node.name == SUM:
        return _sum(make, args, node.number)
    if node.name in (HIGH_OF_SHIFT, LOW_OF_SHIFT):
        count = make.of(args[2])
        if count is None or not 0 <= count < 32:
            return make.any()
        if node.name == HIGH_OF_SHIFT:
            return make.add(make.shift_left(args[1], count), make.shift_right(args[0], 32 - count, False))
        return make.add(make.shift_right(args[0], count, False), make.shift_left(args[1], 32 - count))
    return make.any(node.width)


def _sum(make: Maker, args: list[int], number: int) -> int:
    count = number >> 8
    total = make.number(0)
    for position, term in enumerate(args[:count]):
        total = make.subtract(total, term) if number >> position & 1 else make.add(total, term)
    for predicate in args[count:]:
        total = make.add(total, make.select(predicate, make.number(1), make.number(0)))
    return total
