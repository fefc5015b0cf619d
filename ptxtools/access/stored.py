"""What a kernel stores where other launches may load pointers from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ptxtools.access.graph import Graph
from ptxtools.access.template import Op
from ptxtools.flow.blocks import Block
from ptxtools.flow.dominators import Dominators

_ADDED = {Op.ADD, Op.SUB}
_CHOSEN = {Op.SELECT, Op.PHI, Op.LOOP, Op.MIN, Op.MAX}
_PRODUCTS = {Op.MUL, Op.MUL_WIDE}
_VALUES = {Op.LOADED, Op.PARAMETER, Op.OPAQUE, Op.CONVERT}
_WORD = 32


@dataclass(slots=True)
class Sources:
    """What pointers among some values begin with: 8 bytes of the parameter block at these offsets, and what loads in
    these lines gave. `others`: some values may also be made of something else.
    """

    parameters: set[int] = field(default_factory=set)
    loads: set[int] = field(default_factory=set)
    others: bool = False


def sources(graph: Graph, values: Iterable[int]) -> Sources:
    """Of values of 64 bits. Products and values of 32 bits are no pointers."""
    found, visited, pending = Sources(), set[int](), list(values)
    while pending:
        at = graph.resolve(pending.pop())
        if at in visited:
            continue
        visited.add(at)
        node = graph.nodes[at]
        if node.op is Op.PARAMETER and node.width > _WORD:
            found.parameters.add(node.number)
        elif node.op is Op.LOADED and node.width > _WORD:
            found.loads.add(node.number)
        elif node.op in _ADDED:
            pending += node.args
        elif node.op in _CHOSEN:
            pending += node.args[1:] if node.op is Op.SELECT else node.args
        elif node.op is Op.CONVERT and node.width > _WORD:
            pending += node.args
        elif not (_is_narrow(graph, at) or _is_number(graph, at)):
            found.others = True
    return found


def pointers(graph: Graph, values: Iterable[int]) -> tuple[int, ...] | None:
    """Offsets in the parameter block of all pointers that some values may begin with; None when there may be more."""
    found = sources(graph, values)
    return None if found.others or found.loads else tuple(sorted(found.parameters))


def _is_narrow(graph: Graph, at: int) -> bool:
    """Whether a value is a product, or has no more bits than an index."""
    node = graph.nodes[at]
    if node.op is Op.SHL:
        count = graph.number_of(node.args[1])
        return count is not None and 0 < count < _WORD
    return node.op in _PRODUCTS or (node.op in _VALUES and 0 < node.width <= _WORD)


def _is_number(graph: Graph, at: int) -> bool:
    """Whether a value is made of numbers of the launch: parameters of 32 bits, indices of threads."""
    visited, pending = set[int](), [at]
    while pending:
        at = graph.resolve(pending.pop())
        node = graph.nodes[at]
        if node.op in (Op.LOADED, Op.OPAQUE, Op.SYMBOL, Op.UNKNOWN, Op.HAVOC):
            return False
        if node.op is Op.PARAMETER and node.width > _WORD:
            return False
        if at not in visited:
            visited.add(at)
            pending += node.args
    return True


class MustRun:
    """Which blocks of a function run in every launch whose conditions, their conditions, hold there.

    `exits`: blocks after which the function may end; `failing`: blocks whose launch fails.
    """

    def __init__(self, blocks: list[Block], dominators: Dominators, exits: set[int], failing: set[int]) -> None:
        self._blocks, self._dominators, self._exits = blocks, dominators, exits
        self.failing = set(failing)
        self._known = {0: True}
        for number in reversed(range(len(blocks))):
            successors = blocks[number].successors
            if successors and number not in exits and all(edge.target in self.failing for edge in successors):
                self.failing.add(number)

    def runs(self, number: int) -> bool:
        path = []
        while number not in self._known:
            path.append(number)
            edges = self._blocks[number].predecessors
            above = edges[0].source if len(edges) == 1 else self._dominators.parent[number]
            if len(edges) == 1 or self._passes(above, number):
                number = above
            else:
                self._known[number] = False
        self._known.update(dict.fromkeys(path, self._known[number]))
        return self._known[number]

    def _passes(self, above: int, number: int) -> bool:
        """Whether all paths from a block to an exit go through another one, unless the launch fails."""
        visited, pending = set[int](), [above]
        while pending:
            at = pending.pop()
            if at in visited or at == number or at in self.failing:
                continue
            visited.add(at)
            if at in self._exits or not self._blocks[at].successors:
                return False
            pending += [edge.target for edge in self._blocks[at].successors]
        return True
