"""Addresses as the instruction sees them that uses them: where its guard holds, a choice by the same guard is made.

While registers are followed, guards that came through phi paths do not look alike yet; afterwards they do. Where
paths meet, each brings what its own conditions leave of a choice.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Op
from ptxtools.machine.numbering import Numbering

_PHIS = {Op.JOIN, Op.LOOP}
_MOVING = {Op.JOIN, Op.LOOP, Op.CHANGED}  # their operands were computed under other conditions


def choose(graph: Graph) -> None:
    """Rewrites what paths bring that is chosen by a condition of theirs; what gives one value then, `simplify` finds.

    A path's value was made before the path ends, and so were its conditions: nothing either is made of is computed
    again in between.
    """
    guards = Guards(graph)
    for index, node in enumerate(graph.nodes):
        if node.op in _PHIS and graph.resolve(index) == index:
            args = tuple(guards.side(arg, context) for arg, context in zip(node.args, node.contexts, strict=True))
            if args != tuple(map(graph.resolve, node.args)):
                graph.set_operands(index, args, node.contexts)


class Guards:
    """`chosen` is a node's value where a context's conditions hold."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._numbers = Numbering(graph)
        self._conditions: dict[int, dict[int, bool]] = {}  # by the predicates' numbers
        self._known: dict[tuple[int, int], int] = {}

    def chosen(self, index: int, context: int) -> int:
        conditions = self._of(context)
        return self._rewritten(index, context, conditions) if conditions else index

    def side(self, index: int, context: int) -> int:
        """A node, or what is left of choices of choices where a context's conditions hold."""
        index = self._graph.resolve(index)
        while (node := self._graph.nodes[index]).op is Op.SELECT:
            predicate, truth = self._numbers.predicate(node.args[0])
            known = self._of(context).get(predicate)
            if known is None:
                break
            index = self._graph.resolve(node.args[1 if known is truth else 2])
        return index

    def _rewritten(self, index: int, context: int, conditions: dict[int, bool]) -> int:
        index = self._graph.resolve(index)
        known = self._known.get((index, context))
        if known is not None:
            return known
        node = self._graph.nodes[index]
        if node.op is Op.SELECT:
            predicate, truth = self._numbers.predicate(node.args[0])
            if predicate in conditions:
                side = node.args[1 if conditions[predicate] is truth else 2]
                found = self._rewritten(side, context, conditions)
                self._known[index, context] = found
                return found
        found = index
        if node.args and node.op not in _MOVING:
            args = tuple(self._rewritten(arg, context, conditions) for arg in node.args)
            if args != tuple(self._graph.resolve(arg) for arg in node.args):
                found = self._graph.add(node._replace(args=args))
        self._known[index, context] = found
        return found

    def _of(self, context: int) -> dict[int, bool]:
        """Predicates whose value a context says."""
        known = self._conditions.get(context)
        if known is None:
            known = {}
            at = context
            while at:
                entry = self._graph.template.contexts[at]
                if entry.predicate >= 0:
                    self._add(known, entry.predicate, entry.truth)
                at = entry.parent
            self._conditions[context] = known
        return known

    def _add(self, found: dict[int, bool], predicate: int, truth: bool) -> None:
        predicate = self._graph.resolve(predicate)
        node = self._graph.nodes[predicate]
        if node.op is Op.OPPOSITE:
            self._add(found, node.args[0], not truth)
            return
        if (node.op is Op.BOTH and truth) or (node.op is Op.EITHER and not truth):
            for arg in node.args:
                self._add(found, arg, truth)
        number, value = self._numbers.predicate(predicate, truth)
        found.setdefault(number, value)
