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

_POINTERS = 16  # as many as a range may begin with
_NUMBERS = 64
_BYTES = 320  # as many blocks as multi-tensor kernels of optimisers have in their tables
_LARGEST_STEP = 1 << 16


class Steps(NamedTuple):
    """An index that is value * step + added; `value` has so many bits. A step of 1 if it is no product."""

    value: int
    width: int
    step: int
    added: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where nodes are made: a block of the template and a condition. `select` makes a choice of two values."""

    graph: Graph
    block: int
    condition: int
    select: Callable[[int, int, int, int], int]


def element(at: Place, index: int, begin: int, end: int, like: Node, width: int) -> int:
    """The value that lies `index` bytes, a number of `width` bits, behind an offset in the parameter block, in an array
    that ends at `end` at the latest. `like`: as one loaded from memory.
    """
    size, graph = like.width // 8, at.graph
    value = graph.fresh(like)
    found = steps(graph, index, width)
    if found.step % size:
        found = Steps(index, width, 1, 0)
    begin += found.added
    if begin < 0 or begin % size:
        return value
    stride = max(found.step, size)
    value = graph.fresh(like._replace(name=BEYOND))
    room = (end - begin - size) // stride + 1
    for number in reversed(range(min(max(room, 0), _most(like.width)))):
        limit = graph.number((number + 1) * stride // found.step)
        args = (found.value, limit)
        before = graph.add(
            Node(Op.COMPARE, args, found.width, False, name="lt", block=at.block, condition=at.condition)
        )
        there = graph.add(like._replace(op=Op.PARAMETER, number=begin + number * stride, block=0))
        value = at.select(before, there, value, like.width)
    return value


def _most(bits: int) -> int:
    return _POINTERS if bits == 64 else _BYTES if bits == 8 else _NUMBERS


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
