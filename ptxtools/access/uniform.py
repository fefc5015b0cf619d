"""Block-uniform values: equal in all threads of a block; made of parameters, numbers and the block index."""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Op

_SOURCES = {Op.NUMBER, Op.PARAMETER, Op.SYMBOL}
_OF_BLOCKS = ("ctaid.", "ntid.", "nctaid.")
_COMPUTED = {
    *(Op.ADD, Op.SUB, Op.MUL, Op.MUL_WIDE, Op.MUL_HIGH, Op.SHL, Op.SHR, Op.AND, Op.OR, Op.XOR, Op.NOT, Op.NEG),
    *(Op.ABS, Op.MIN, Op.MAX, Op.DIV, Op.REM, Op.CONVERT, Op.EXTRACT, Op.PACK, Op.SELECT, Op.COMPARE),
    *(Op.BOTH, Op.EITHER, Op.OPPOSITE),
}
_DEPTH = 12


def is_uniform(graph: Graph, index: int, depth: int = _DEPTH) -> bool:
    """Whether a value is one of those; False of large ones, too."""
    node = graph.nodes[graph.resolve(index)]
    if node.op in _SOURCES:
        return True
    if node.op is Op.SPECIAL:
        return node.name.startswith(_OF_BLOCKS)
    return node.op in _COMPUTED and depth > 0 and all(is_uniform(graph, arg, depth - 1) for arg in node.args)
