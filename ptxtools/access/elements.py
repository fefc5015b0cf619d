"""Elements of arrays among a kernel's parameters, which code reads with an index: structs of pointers and sizes.

The index selects the element when a launch is evaluated: a chain of comparisons leads to one of the first
elements, as far as the index can reach. Beyond those the value may be anything. In the flat bytes, a chain is a single
node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ptxtools.access.graph import Graph
from ptxtools.access.template import BEYOND, Node, Op, Template

_POINTERS = 128  # as many tensors as lists of pointers have in kernels for many tensors
_NUMBERS = 320  # as many blocks as these kernels have in their tables
_BYTES = 320
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
    """The value that lies `index` bytes, a number of `width` bits, after an offset in the parameter block, in an array
    that ends at `end` at the latest. `like`: as one loaded from memory.
    """
    size, graph = like.width // 8, at.graph
    value = graph.fresh(like)
    found = steps(graph, index, width)
    if found.step % size:
        found = Steps(index, width, 1, 0)
    begin += found.added
    if begin % size:
        return value
    stride = max(found.step, size)
    if begin < 0:
        found, begin = _behind(at, found, begin, stride)
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


def _behind(at: Place, index: Steps, begin: int, stride: int) -> tuple[Steps, int]:
    """The index from the first element of the block on, and that one's offset; any smaller one is beyond the end."""
    skipped = -(begin // stride)
    less = at.graph.number(-skipped * stride // index.step)
    node = Node(Op.ADD, (index.value, less), index.width, block=at.block, condition=at.condition)
    return index._replace(value=at.graph.add(node)), begin + skipped * stride


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


def with_elements(template: Template) -> Template:
    """The template with single nodes in the place of such chains."""
    found = {number: node for number in range(len(template.nodes)) if (node := _table(template.nodes, number))}
    nodes = [found.get(number, node) for number, node in enumerate(template.nodes)]
    return replace(template, nodes=nodes) if found else template


def _table(nodes: Sequence[Node], number: int) -> Node | None:
    """The chain that begins with a node, when it has two elements."""
    first, found = nodes[number], list[int]()
    asked = _asked(nodes, first)
    if asked is None:
        return None
    index, unit, width = asked
    while _asked(nodes, nodes[number]) == (index, (len(found) + 1) * unit, width):
        found.append(nodes[number].args[1])
        number = nodes[number].args[2]
    if len(found) < 2:
        return None
    return first._replace(op=Op.ELEMENT, args=(index, *found, number), width=width, number=unit)


def _asked(nodes: Sequence[Node], node: Node) -> tuple[int, int, int] | None:
    """The index, the end and the bits of both when a choice asks whether the index is below that end."""
    if node.op is not Op.SELECT:
        return None
    test = nodes[node.args[0]]
    if test.op is not Op.COMPARE or test.name != "lt" or test.signed:
        return None
    end = nodes[test.args[1]]
    return (test.args[0], end.number, test.width) if end.op is Op.NUMBER and end.number > 0 else None
