"""Values that a compiler computes again where it had no room to keep them: where paths meet they are one value.

A node is seen where the facts of its context hold. So paths that meet have the value of one of them when all of them
have the same value, made of what a launch has from the beginning, under no more than the facts of where they meet.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Op
from ptxtools.machine.numbering import Numbering

_MEETINGS = {Op.JOIN, Op.LOOP}
_FROM_THE_BEGINNING = {Op.NUMBER, Op.PARAMETER, Op.SPECIAL, Op.SYMBOL}
_COMPUTED = {
    *(Op.ADD, Op.SUB, Op.NEG, Op.NOT, Op.MUL, Op.MUL_WIDE, Op.SHL, Op.SHR, Op.AND, Op.OR, Op.XOR),
    *(Op.CONVERT, Op.EXTRACT, Op.MIN, Op.MAX, Op.DIV, Op.REM),
}


def settle(graph: Graph) -> None:
    """Replaces meetings of one value; operands are rewritten by `simplify`."""
    numbering = Numbering(graph)
    for index in range(len(graph.nodes)):
        node = graph.nodes[index]
        if node.op not in _MEETINGS or not node.args or graph.resolve(index) != index:
            continue
        if len({numbering.of(arg) for arg in node.args}) == 1:
            held = _ancestors(graph, node.context)
            found = next((arg for arg in node.args if _is_closed(graph, graph.resolve(arg), held)), None)
            if found is not None:
                graph.substitute(index, graph.resolve(found))


def _ancestors(graph: Graph, context: int) -> set[int]:
    """The contexts whose facts hold in one."""
    found = {0, context}
    while context > 0:
        context = graph.template.contexts[context].parent
        found.add(context)
    return found


def _is_closed(graph: Graph, index: int, held: set[int]) -> bool:
    """Whether a value is made of what a launch has from the beginning, in contexts whose facts hold."""
    pending, seen = [index], set()
    while pending:
        each = graph.resolve(pending.pop())
        node = graph.nodes[each]
        if each in seen or node.op in _FROM_THE_BEGINNING:
            continue
        seen.add(each)
        if node.op not in _COMPUTED or node.context not in held:
            return False
        pending += node.args
    return True
