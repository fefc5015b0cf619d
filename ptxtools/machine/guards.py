"""Simplifies addresses under the guards of the instructions that use them: a select by the same guard is decided there.

While registers are traced, guards that came through phis do not compare equal yet; afterwards they do. At a phi, each
incoming edge decides the selects that its own path condition determines.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.numbering import Numbering
from ptxtools.access.template import Op

_PHIS = {Op.PHI, Op.LOOP}
_MOVING = {Op.PHI, Op.LOOP, Op.HAVOC}  # their operands were computed under other conditions


def choose(graph: Graph) -> None:
    """Rewrites what paths bring that is chosen by a condition of theirs; what gives one value then, `simplify` finds.

    A path's value was made before the path ends, and so were its conditions: nothing either is made of is computed
    again in between.
    """
    guards = Guards(graph)
    for index, node in enumerate(graph.nodes):
        if node.op in _PHIS and graph.resolve(index) == index:
            args = tuple(guards.side(arg, condition) for arg, condition in zip(node.args, node.conditions, strict=True))
            if args != tuple(map(graph.resolve, node.args)):
                graph.set_operands(index, args, node.conditions)


class Guards:
    """`chosen` is a node's value where a condition's conditions hold."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._numbers = Numbering(graph)
        self._conditions: dict[int, dict[int, bool]] = {}  # by the predicates' numbers
        self._known: dict[tuple[int, int], int] = {}

    def chosen(self, index: int, condition: int) -> int:
        conditions = self._of(condition)
        return self._rewritten(index, condition, conditions) if conditions else index

    def see_conditions(self) -> None:
        """Simplifies what is compared under the conditions around it, as addresses are, unless selects ask the same."""
        asked = {self._numbers.predicate(node.args[0])[0] for node in self._graph.nodes if node.op is Op.SELECT}
        conditions = self._graph.template.conditions
        for number, (parent, predicate, *_) in enumerate(conditions):
            if predicate >= 0 and self._numbers.predicate(predicate)[0] not in asked:
                conditions[number] = conditions[number]._replace(predicate=self.chosen(predicate, parent))

    def side(self, index: int, condition: int) -> int:
        """A node, or what is left of choices of choices where a condition's conditions hold."""
        index = self._graph.resolve(index)
        while (node := self._graph.nodes[index]).op is Op.SELECT:
            predicate, truth = self._numbers.predicate(node.args[0])
            known = self._of(condition).get(predicate)
            if known is None:
                break
            index = self._graph.resolve(node.args[1 if known is truth else 2])
        return index

    def _rewritten(self, index: int, condition: int, conditions: dict[int, bool]) -> int:
        index = self._graph.resolve(index)
        known = self._known.get((index, condition))
        if known is not None:
            return known
        node = self._graph.nodes[index]
        if node.op is Op.SELECT:
            predicate, truth = self._numbers.predicate(node.args[0])
            if predicate in conditions:
                side = node.args[1 if conditions[predicate] is truth else 2]
                found = self._rewritten(side, condition, conditions)
                self._known[index, condition] = found
                return found
        found = index
        if node.args and node.op not in _MOVING:
            args = tuple(self._rewritten(arg, condition, conditions) for arg in node.args)
            if args != tuple(self._graph.resolve(arg) for arg in node.args):
                found = self._graph.add(node._replace(args=args))
        self._known[index, condition] = found
        return found

    def _of(self, condition: int) -> dict[int, bool]:
        """Predicates whose value a condition says."""
        known = self._conditions.get(condition)
        if known is None:
            known = {}
            at = condition
            while at:
                entry = self._graph.template.conditions[at]
                if entry.predicate >= 0:
                    self._add(known, entry.predicate, entry.truth)
                at = entry.parent
            self._conditions[condition] = known
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
