"""Points-to: the pointers that an address may begin with."""

from __future__ import annotations

from contextlib import suppress

from ptxtools.access.depth import deep
from ptxtools.access.template import Node, Op, Template

_ADDED = {Op.ADD, Op.SUB, Op.AND, Op.OR}
_CHOSEN = {Op.SELECT, Op.PHI, Op.ELEMENT, Op.LOOP, Op.HAVOC, Op.MIN, Op.MAX}
_ASKING = {Op.SELECT, Op.ELEMENT}  # the first operand says which of the others it is
_MOST = 32
_STEPS = 20_000
_ALL_STEPS = 200_000
_NOTHING: frozenset[Node] = frozenset()


def bases(template: Template, address: int) -> set[frozenset[Node]]:
    """The alternatives of an address: for each, the parameters, symbols and loaded values whose sum it is.

    If there are too many alternatives, one set of everything; after too many steps, or at too great a depth, also the
    empty set.
    """
    return Bases(template).of(address)


class Bases:
    """`bases` of one template that changes no more: what is found for one address helps with the next.

    `left`: steps for all addresses together.
    """

    def __init__(self, template: Template) -> None:
        self.walk = _Walk(template)
        self.left = _ALL_STEPS

    def of(self, address: int) -> set[frozenset[Node]]:
        self.walk.steps = most = min(_STEPS, self.left)
        found = {_NOTHING}
        with deep(), suppress(RecursionError):
            found = self.walk.alternatives(address)
        self.walk.active.clear()
        self.walk.cut.clear()
        self.left -= most - max(self.walk.steps, 0)
        return found


class _Walk:
    """`cut`: nodes that lead round a loop to where the walk already is; what depends on them is not kept.

    `steps`: how many are left.
    """

    def __init__(self, template: Template) -> None:
        self.nodes = template.nodes
        self.known: dict[int, set[frozenset[Node]]] = {}
        self.active: set[int] = set()
        self.cut: set[int] = set()
        self.steps = 0

    def alternatives(self, index: int) -> set[frozenset[Node]]:
        if index in self.known:
            return self.known[index]
        if index in self.active:
            self.cut.add(index)
            return set()  # around a loop: adds no alternative to those that enter it
        self.steps -= 1
        if self.steps < 0:
            return {_NOTHING}
        self.active.add(index)
        found = self.of(self.nodes[index])
        self.active.discard(index)
        self.cut.discard(index)
        if len(found) > _MOST:
            found = {frozenset(node for alternative in found for node in alternative)}
        if not self.cut:
            self.known[index] = found
        return found

    def of(self, node: Node) -> set[frozenset[Node]]:
        if node.op in _CHOSEN:
            args = (
                node.args[1:]
                if node.op in (Op.SELECT, Op.ELEMENT)
                else node.args[:1]
                if node.op is Op.LOOP
                else node.args
            )
            return {alternative for arg in args for alternative in self.alternatives(arg)}
        if node.op in _ADDED:
            sides = [self.alternatives(arg) for arg in node.args]
            return {one | other for one in sides[0] for other in sides[1]}
        if node.op in (Op.PARAMETER, Op.SYMBOL, Op.LOADED):
            return {frozenset({node})}
        return {_NOTHING}
