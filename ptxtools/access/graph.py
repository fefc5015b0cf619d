"""The growing node list of a template: equal nodes are made once, numbers are folded, redundant phis vanish."""

from __future__ import annotations

from collections.abc import Sequence

from ptxtools.access.phis import replace_same
from ptxtools.access.template import Node, Op, PathCondition, Template

_PURE = {
    Op.NUMBER,
    Op.PARAMETER,
    Op.SPECIAL,
    Op.SYMBOL,
}


class Graph:
    """Nodes and conditions are named by their index."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self.nodes = template.nodes
        self._same: dict[Node, int] = {}
        self._alias: dict[int, int] = {}
        self._conditions: dict[PathCondition, int] = {}

    def add(self, node: Node) -> int:
        """The index of this node."""
        if node.op in _PURE and (node.block or node.condition):
            node = node._replace(block=0, condition=0)
        known = self._same.get(node)
        if known is None:
            known = self._same[node] = self.fresh(node)
        return known

    def fresh(self, node: Node) -> int:
        """A node of its own, even when an equal one is there."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def number(self, value: int) -> int:
        return self.add(Node(Op.NUMBER, number=value))

    def condition(self, parent: int, predicate: int, truth: bool) -> int:
        """The condition in which the predicate holds besides `parent`'s conditions."""
        condition = PathCondition(parent, predicate, truth)
        known = self._conditions.get(condition)
        if known is None:
            known = self._conditions[condition] = len(self.template.conditions)
            self.template.conditions.append(condition)
        return known

    def resolve(self, index: int) -> int:
        """The node that an index stands for now."""
        alias = self._alias
        while index in alias:
            index = alias[index]
        return index

    def number_of(self, index: int) -> int | None:
        node = self.nodes[self.resolve(index)]
        return node.number if node.op is Op.NUMBER else None

    def plain(self, predicate: int, truth: bool = True) -> tuple[int, bool]:
        """A predicate that is no opposite, and its value when this one has the value `truth`."""
        predicate = self.resolve(predicate)
        while (node := self.nodes[predicate]).op is Op.OPPOSITE:
            predicate, truth = self.resolve(node.args[0]), not truth
        return predicate, truth

    def set_operands(self, index: int, operands: Sequence[int], conditions: tuple[int, ...]) -> None:
        """Completes a phi that had to exist before its operands."""
        self.nodes[index] = self.nodes[index]._replace(args=tuple(operands), conditions=conditions)

    def substitute(self, index: int, by: int) -> None:
        """Lets another node stand for this one from now on; operands are rewritten by `simplify`."""
        by = self.resolve(by)
        if by != index:
            self._alias[index] = by

    def simplify(self) -> None:
        """Replaces phis that only give one value by that value, and rewrites all operands."""
        count = -1
        while count != len(self._alias):
            phis = [n for n, node in enumerate(self.nodes) if node.op in (Op.PHI, Op.LOOP) and n not in self._alias]
            replace_same(phis, self._operands, self.substitute)
            self._merge(phis)
            count = len(self._alias)
            for index, node in enumerate(self.nodes):
                if not self._alias.keys().isdisjoint(node.args):
                    self._rewrite(index, node)
        conditions = self.template.conditions
        for index, condition in enumerate(conditions):
            if condition.predicate in self._alias:
                conditions[index] = condition._replace(predicate=self.resolve(condition.predicate))

    def _merge(self, joins: Sequence[int]) -> None:
        """Joins of the same values at the same place are one: copies of a register that a loop changes."""
        first: dict[Node, int] = {}
        for index in joins:
            if self.nodes[index].args and index not in self._alias:
                node = self.nodes[index]._replace(args=tuple(self._operands(index)))
                self.substitute(index, first.setdefault(node, index))

    def _rewrite(self, index: int, node: Node) -> None:
        """Gives a node the operands that there are now; if that makes it equal to another one, they are one."""
        is_single = self._same.get(node) == index
        node = self.nodes[index] = node._replace(args=tuple(self.resolve(arg) for arg in node.args))
        if is_single and index not in self._alias:
            self.substitute(index, self._same.setdefault(node, index))

    def _operands(self, index: int) -> list[int]:
        return [self.resolve(arg) for arg in self.nodes[index].args]
