"""32-bit sums that are widened for the address of a guarded access: evaluated under the guard.

Whether a 32-bit sum wraps is derived from the facts of its condition. What guarded instructions compute has the
condition of its block, where the sum may wrap; but the access is only made where the guard holds.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Op

_WIDENING = {Op.CONVERT, Op.MUL_WIDE}
_SUMS = {Op.ADD, Op.SUB, Op.NEG}
_FOLLOWED = {Op.ADD, Op.SUB, Op.NEG, Op.MUL, Op.SHL}


class Widened:
    """`seen` is an address as it is under the conditions of its access, as far as these compare what is added."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[tuple[int, int], int] = {}

    def seen(self, index: int, condition: int) -> int:
        index = self._graph.resolve(index)
        known = self._known.get((index, condition))
        if known is None:
            known = self._known[index, condition] = self._made(index, condition)
        return known

    def _made(self, index: int, condition: int) -> int:
        node = self._graph.nodes[index]
        if node.op in _WIDENING:
            added = {each for arg in node.args for each in self._added(arg)}
            is_closer = added and not added.isdisjoint(self._compared(node.condition, condition))
            return self._graph.add(node._replace(condition=condition)) if is_closer else index
        if node.op not in _FOLLOWED:
            return index
        args = tuple(self.seen(arg, condition) for arg in node.args)
        is_same = args == tuple(map(self._graph.resolve, node.args))
        return index if is_same else self._graph.add(node._replace(args=args))

    def _added(self, index: int) -> list[int]:
        """What a sum is made of, but for numbers."""
        node = self._graph.nodes[self._graph.resolve(index)]
        if node.op not in _SUMS:
            return []
        return [self._graph.resolve(arg) for arg in node.args if self._graph.number_of(arg) is None]

    def _compared(self, outer: int, inner: int) -> set[int]:
        """What the conditions compare that hold in one condition besides those of another; nothing if that is not
        around it.
        """
        found: set[int] = set()
        while inner != outer:
            if not inner:
                return set()
            condition = self._graph.template.conditions[inner]
            self._compare(condition.predicate, found)
            inner = condition.parent
        return found

    def _compare(self, predicate: int, found: set[int]) -> None:
        node = self._graph.nodes[self._graph.resolve(predicate)]
        if node.op is Op.COMPARE:
            found.update(map(self._graph.resolve, node.args))
        elif node.op in (Op.BOTH, Op.EITHER, Op.OPPOSITE):
            for arg in node.args:
                self._compare(arg, found)
