"""Elements of arrays among a kernel's parameters, which code reads with an index: structs of pointers and sizes.

Which element it is decides the index when a launch is evaluated: a chain of comparisons leads to one of the first
elements, as far as the index can be it. What lies behind those is any value that memory may hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ptxtools.access.graph import Graph
from ptxtools.access.template import BEYOND, Node, Op

_MOST = 16  # as many pointers as a range may begin with
_LARGEST_STEP = 1 << 16


class Steps(NamedTuple):
    """An index that is value * step + added; `value` has so many bits. A step of 1 if it is no product."""

    value: int
    width: int
    step: int
    added: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where nodes are made: a block of the template and a context. `select` makes a choice of two values."""

    graph: Graph
    block: int
    context: int
    select: Callable[[int, int, int, int], int]


def element(at: Place, index: int, begin: int, end: int, bits: int, width: int, line: int) -> int:
    """The value of so many bits that lies `index` bytes, a number of `width` bits, behind an offset in the parameter
    block, in an array that ends at `end` at the latest.
    """
    size, graph = bits // 8, at.graph
    value = graph.fresh(Node(Op.LOADED, width=bits, number=line, block=at.block))
    found = steps(graph, index, width)
    if found.step % size:
        found = Steps(index, width, 1, 0)
    begin += found.added
    if begin < 0 or begin % size:
        return value
    stride = max(found.step, size)
    value = graph.fresh(graph.nodes[value]._replace(name=BEYOND))
    room = (end - begin - size) // stride + 1
    for number in reversed(range(min(max(room, 0), _MOST))):
        limit = graph.number((number + 1) * stride // found.step)
        args = (found.value, limit)
        before = graph.add(Node(Op.COMPARE, args, found.width, False, name="lt", block=at.block, context=at.context))
        there = graph.add(Node(Op.PARAMETER, width=bits, number=begin + number * stride))
        value = at.select(before, there, value, bits)
    return value


def steps(graph: Graph, index: int, width: int) -> Steps:
    """Those of an index of `width` bits."""
    node, added = graph.nodes[graph.resolve(index)], 0
    while node.op is Op.ADD and (number := graph.number_of(node.args[1])) is not None:
        index, added = node.args[0], added + number
        node = graph.nodes[graph.resolve(index)]
    if node.op in (Op.MUL, Op.MUL_WIDE, Op.SHL) and (number := graph.number_of(node.args[1])) is not None:
        step = 1 << min(number, 31) if node.op is Op.SHL else number
        is_whole = node.op is Op.MUL_WIDE or node.width == width
        if 0 < step < _LARGEST_STEP and is_whole:
            return Steps(graph.resolve(node.args[0]), node.width, step, added)
    return Steps(graph.resolve(index), width, 1, added)
