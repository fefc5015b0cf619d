"""Rematerialised values: a compiler that has no register to keep a value in computes it again. A phi of such copies is
one value.

A node may be used where the facts of its condition hold. So a phi is replaced by one of its operands if all of them are
equal and that one either dominates the phi, or is computed, under no more facts than hold at the phi, from what a
launch has from the beginning and from values that dominate the phi.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxtools.access.graph import Graph
from ptxtools.access.numbering import Numbering
from ptxtools.access.template import Op

_PHIS = {Op.PHI, Op.LOOP}
_FROM_THE_BEGINNING = {Op.NUMBER, Op.PARAMETER, Op.SPECIAL, Op.SYMBOL}
_COMPUTED = {
    *(Op.ADD, Op.SUB, Op.NEG, Op.NOT, Op.MUL, Op.MUL_WIDE, Op.SHL, Op.SHR, Op.AND, Op.OR, Op.XOR),
    *(Op.CONVERT, Op.EXTRACT, Op.MIN, Op.MAX, Op.DIV, Op.REM, Op.COMPARE),
}
_DEPTH = 8

Dominates = Callable[[int, int], bool]


def settle(graph: Graph, dominates: Dominates) -> None:
    """Replaces phis of one value; operands are rewritten by `simplify`.

    `dominates`: whether every path to the second block goes through the first.
    """
    numbering = Numbering(graph)
    for index in range(len(graph.nodes)):
        node = graph.nodes[index]
        if node.op not in _PHIS or not node.args or graph.resolve(index) != index:
            continue
        args = [arg for arg in map(graph.resolve, node.args) if arg != index]
        if len({numbering.of(arg) for arg in args}) == 1:
            held = _ancestors(graph, node.condition)
            for arg in args:
                if _is_before(graph, arg, node.block, dominates) or _is_closed(graph, arg, held, node.block, dominates):
                    graph.substitute(index, arg)
                    break


def _is_before(graph: Graph, index: int, block: int, dominates: Dominates, depth: int = _DEPTH) -> bool:
    """Whether a value is there whenever the block begins. Nodes for words of others name no block."""
    node = graph.nodes[graph.resolve(index)]
    if node.block:
        return node.block != block and dominates(node.block, block)
    return depth > 0 and all(_is_before(graph, arg, block, dominates, depth - 1) for arg in node.args)


def _ancestors(graph: Graph, condition: int) -> set[int]:
    """The conditions whose facts hold in one."""
    found = {0, condition}
    while condition > 0:
        condition = graph.template.conditions[condition].parent
        found.add(condition)
    return found


def _is_closed(graph: Graph, index: int, held: set[int], block: int, dominates: Dominates) -> bool:
    """Whether a value is made, in conditions whose facts hold, of what there is whenever the block begins."""
    pending, seen = [index], set()
    while pending:
        each = graph.resolve(pending.pop())
        node = graph.nodes[each]
        if each in seen or node.op in _FROM_THE_BEGINNING:
            continue
        seen.add(each)
        if node.op in _COMPUTED and node.condition in held:
            pending += node.args
        elif not _is_before(graph, each, block, dominates):
            return False
    return True
