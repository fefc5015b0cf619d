"""Indices that a kernel loads from memory, and tests before it uses them.

What a test says about an index is recorded for the node that is compared, so that node must be one value, with the
signedness of the comparison: a sum or a select with a loaded number in it becomes an unknown value of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxtools.access.graph import Graph
from ptxtools.access.template import Op

_ORDER = {"lt", "le", "gt", "ge"}
_CHOSEN = {Op.ADD, Op.SUB, Op.SELECT, Op.PHI}
_SCALED = {Op.MUL, Op.MUL_WIDE, Op.SHL}
_BITS = 64  # narrower values are widened with their sign
_DEPTH = 8


def find_indices(graph: Graph) -> None:
    """Rewrites numbers of 64 bits that are loaded, or have a loaded number in them, compared, and scaled."""
    compared = _compared(graph)
    for index, signs in compared.items():
        node = graph.nodes[index]
        if node.op is Op.LOADED and node.width == _BITS and len(signs) == 1:
            graph.nodes[index] = node._replace(signed=True in signs)
    scaled = {_same(graph, arg) for node in graph.nodes if node.op in _SCALED for arg in node.args}
    sums = [index for index, node in enumerate(graph.nodes) if node.op in _CHOSEN and index == graph.resolve(index)]
    for index, signs in compared.items():
        same = _same(graph, index)
        is_sum = graph.nodes[index].op in _CHOSEN and index == graph.resolve(index)
        if not is_sum or same not in scaled or len(signs) != 1:
            continue
        leaves, block = set(_loaded(graph, index, _DEPTH)), _innermost(graph, index)
        if leaves and block is not None and leaves.isdisjoint(compared):
            first = graph.nodes[min(leaves)]
            anything = graph.fresh(first._replace(signed=True in signs, block=block))
            for each in [each for each in sums if _same(graph, each) == same]:
                graph.substitute(each, anything)


def _innermost(graph: Graph, index: int) -> int | None:
    """A block in all the loops in which a value may vary; None when there is none among those of its parts."""
    blocks, left, seen = set[int](), [index], set[int]()
    while left:
        at = graph.resolve(left.pop())
        if at not in seen:
            seen.add(at)
            blocks.add(graph.nodes[at].block)
            left += graph.nodes[at].args if graph.nodes[at].op is not Op.LOOP else ()
    loops = graph.template.block_loops
    around = frozenset[int]().union(*(loops[block] for block in blocks))
    return next((block for block in sorted(blocks) if loops[block] == around), None)


def _same(graph: Graph, index: int) -> tuple[object, ...]:
    """Equal for sums of the same values, which machine code makes more than once, and for the same nodes."""
    index = graph.resolve(index)
    node = graph.nodes[index]
    if node.op in (Op.ADD, Op.SUB):
        return node.op, node.width, tuple(graph.resolve(arg) for arg in node.args)
    return (index,)


def _compared(graph: Graph) -> dict[int, set[bool]]:
    """What conditions of places in the code compare by order, as numbers of 64 bits: whether with a sign."""
    found: dict[int, set[bool]] = {}
    left = [condition.predicate for condition in graph.template.conditions if condition.predicate >= 0]
    seen = set[int]()
    while left:
        index = graph.resolve(left.pop())
        node = graph.nodes[index]
        if index in seen:
            continue
        seen.add(index)
        if node.op is Op.COMPARE and node.name in _ORDER and node.width == _BITS:
            for arg in node.args:
                found.setdefault(graph.resolve(arg), set()).add(node.signed)
        elif node.op in (Op.BOTH, Op.EITHER, Op.OPPOSITE):
            left += node.args
    return found


def _loaded(graph: Graph, index: int, depth: int) -> Iterator[int]:
    """Loaded numbers of 64 bits that are in a value as they are, or with something added."""
    node = graph.nodes[graph.resolve(index)]
    if node.op is Op.LOADED and node.width == _BITS:
        yield graph.resolve(index)
    if node.op in _CHOSEN and depth:
        for arg in node.args[1:] if node.op is Op.SELECT else node.args:
            yield from _loaded(graph, arg, depth - 1)
