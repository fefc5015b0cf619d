"""Must-execute conditions of a function's blocks: under which a block is certain to run, whatever memory holds.

A path condition (`Flow.conditions`) holds whenever its block runs; the block may run less often. Here it is the
converse: in every launch that ends without an error, a block runs in each iteration of the loops around it
in which its condition holds. Blocks without such a condition have none. At a join that not all earlier paths reach, any
incoming edge will do: the condition is that of one of them. If memory decides about one edge, the others are not
affected, as for a flag that is only tested if it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import reduce

from ptxtools.access.depth import deep
from ptxtools.access.flow import Flow
from ptxtools.access.template import Access, AccessKind, Node, Op, PathCondition, Template
from ptxtools.flow.blocks import Block, Edge

_NONE = -1
_MOST = 32  # predicates of a condition that is one of several


class MustExecute:
    """`exits`: blocks after which the function may end; `failing`: blocks whose launch fails."""

    def __init__(self, flow: Flow, template: Template, exits: AbstractSet[int], failing: AbstractSet[int]) -> None:
        self._flow, self._template, self._exits, self._failing = flow, template, exits, failing
        self._known: dict[int, int] = {0: flow.conditions[0]}
        self._made: dict[tuple[int, int, bool], int] = {}
        self._predicates: dict[Node, int] = {}
        self._sizes: dict[int, int] = {}  # of predicates that were made here: of how many others
        self._around: dict[int, frozenset[int]] = {}

    def condition(self, block: int) -> int:
        """The condition under which a block runs; of a loop's header, under which the loop does. -1: not known."""
        path: list[tuple[int, int]] = []
        while block != _NONE and block not in self._known:
            step = self._step(block)
            if step is None:
                self._known[block] = self._by_any(block)
                break
            path.append((block, step[1]))
            block = step[0]
        found = self._known.get(block, _NONE)
        for number, edge in reversed(path):
            if found != _NONE and edge != _NONE:
                found = self._under(found, edge)
            self._known[number] = found
        return found

    def again(self, header: int) -> int:
        """The condition under which a loop goes on after an iteration. -1: not known."""
        loop = self._flow.loops[header]
        edge = loop.back[0] if len(loop.back) == 1 else self._stays(header)
        if edge is None or self._loops(edge.source) != self._loops(header):
            return _NONE
        found = self.condition(edge.source)
        if found == _NONE or not edge.guard:
            return found if len(self._flow.blocks[edge.source].successors) == 1 else _NONE
        return self._under(found, self._flow.edge_condition(edge)) if self._flow.knows(edge) else _NONE

    def access(self, access: Access) -> int:
        """The condition under which an access is made; its own guard is part of it."""
        block = access.block - self._flow.base
        found, guards, at = self.condition(block), [], access.condition
        while at != self._flow.conditions[block]:
            if at == 0:
                return _NONE
            guards.append(at)
            at = self._template.conditions[at].parent
        for guard in reversed(guards):
            found = _NONE if found == _NONE else self._under(found, guard)
        return found

    def _step(self, block: int) -> tuple[int, int] | None:
        """The block that decides whether this one runs, and the edge's condition that does so besides; -1: none. None:
        any of several edges decides.
        """
        edges = self._into(block)
        above = self._outside(self._flow.dominators.parent[block], block)
        if self._passes(above, block):
            return above, _NONE
        if len(edges) != 1:
            return None
        condition = self._taken(edges[0])
        if condition == _NONE or not self._loops(edges[0].source) <= self._loops(block):
            return _NONE, _NONE
        return edges[0].source, condition

    def _into(self, block: int) -> Sequence[Edge]:
        """The edges to it; of a loop's header, those from outside."""
        flow = self._flow
        return flow.loops[block].entries if block in flow.loops else flow.blocks[block].predecessors

    def _by_any(self, block: int) -> int:
        """The condition under which one of the edges into a block is taken; that of the shortest path first."""
        above = self._flow.dominators.parent[block]
        edges = sorted(self._into(block), key=lambda edge: (edge.source != above, edge.source))
        found = dict.fromkeys(self._by(edge, block) for edge in edges)
        return self._any([each for each in found if each != _NONE])

    def _by(self, edge: Edge, block: int) -> int:
        """The condition under which an edge to a block is taken. -1: not known."""
        source = edge.source
        own = self._taken(edge) if edge.guard else _NONE
        is_only = not edge.guard and len(self._flow.blocks[source].successors) == 1 and source not in self._exits
        if not self._loops(source) <= self._loops(block) or (own == _NONE and not is_only):
            return _NONE
        found = self.condition(source)
        return found if found == _NONE or is_only else self._under(found, own)

    def _any(self, conditions: Sequence[int]) -> int:
        """The condition that one of these holds, or if that says too much the first of them."""
        if len(conditions) < 2:
            return conditions[0] if conditions else _NONE
        chains = [self._chain(each) for each in conditions]
        common = 0
        while all(len(chain) > common and chain[common] == chains[0][common] for chain in chains):
            common += 1
        parent = chains[0][common - 1]
        sides = [[each for each in chain[common:] if self._asks(each)] for chain in chains]
        if not all(sides):
            return parent
        if sum(self._size(self._template.conditions[each].predicate) for side in sides for each in side) > _MOST:
            return conditions[0]
        predicates = [self._joined(Op.BOTH, map(self._holds, side)) for side in sides]
        return self._new(parent, PathCondition(parent, self._joined(Op.EITHER, predicates)))

    def _asks(self, condition: int) -> bool:
        own = self._template.conditions[condition]
        return own.predicate >= 0 and not own.certain

    def _chain(self, condition: int) -> list[int]:
        """It and those that it is below, the outermost first."""
        chain = [condition]
        while chain[-1]:
            chain.append(self._template.conditions[chain[-1]].parent)
        return chain[::-1]

    def _holds(self, condition: int) -> int:
        """The predicate that a condition's own one has its value."""
        own = self._template.conditions[condition]
        return own.predicate if own.truth else self._predicate(Node(Op.OPPOSITE, (own.predicate,), 1))

    def _joined(self, op: Op, predicates: Iterable[int]) -> int:
        return reduce(lambda one, other: self._predicate(Node(op, (one, other), 1)), predicates)

    def _predicate(self, node: Node) -> int:
        if node not in self._predicates:
            made = self._predicates[node] = len(self._template.nodes)
            self._template.nodes.append(node)
            self._sizes[made] = sum(map(self._size, node.args))
        return self._predicates[node]

    def _size(self, predicate: int) -> int:
        return self._sizes.get(predicate, 1)

    def _taken(self, edge: Edge) -> int:
        """The condition in which a guarded edge is taken, if it or the other one of its block has one; -1."""
        if not edge.guard or self._flow.knows(edge):
            return self._flow.edge_condition(edge) if edge.guard else _NONE
        others = [each for each in self._flow.blocks[edge.source].successors if each != edge]
        if len(others) != 1 or others[0].guard != edge.guard or not self._flow.knows(others[0]):
            return _NONE
        conditions = self._template.conditions
        other = conditions[self._flow.edge_condition(others[0])]
        return self._new(other.parent, other._replace(truth=not other.truth, certain=False))

    def _under(self, parent: int, condition: int) -> int:
        """A condition's own condition below another parent."""
        conditions = self._template.conditions
        own = conditions[condition]
        if own.parent == parent:
            return condition
        return self._new(parent, own)

    def _new(self, parent: int, own: PathCondition) -> int:
        key = (parent, own.predicate, own.truth)
        if key not in self._made:
            self._made[key] = len(self._template.conditions)
            self._template.conditions.append(own._replace(parent=parent))
        return self._made[key]

    def _loops(self, block: int) -> frozenset[int]:
        """Headers of the loops around a block."""
        if block not in self._around:
            loops = self._flow.loops
            self._around[block] = frozenset(header for header, loop in loops.items() if block in loop.blocks)
        return self._around[block]

    def _outside(self, above: int, block: int) -> int:
        """A dominator outside of the loops that have ended before the block: the header of the outermost of them."""
        ended = self._loops(above) - self._loops(block)
        return min(ended, default=above)

    def _passes(self, above: int, block: int) -> bool:
        """Whether all paths from a block go through another one, in the same iteration of all loops around that."""
        blocks, ends = self._flow.blocks, self._loops(block) - {block}
        visited, pending = set[int](), [above]
        while pending:
            at = pending.pop()
            if at in visited or at in self._failing:
                continue
            visited.add(at)
            if at in self._exits or not blocks[at].successors:
                return False
            targets = [edge.target for edge in blocks[at].successors if edge.target != block]
            if not ends.isdisjoint(targets):
                return False
            pending += targets
        return True

    def _stays(self, header: int) -> Edge | None:
        """The edge by which the only block that may leave a loop stays in it."""
        inside, blocks = self._flow.loops[header].blocks, self._flow.blocks
        leaving = [number for number in inside if self._leaves(blocks[number], number, inside)]
        if len(leaving) != 1 or leaving[0] in self._exits:
            return None
        staying = [edge for edge in blocks[leaving[0]].successors if edge.target in inside]
        return staying[0] if len(staying) == 1 else None

    def _leaves(self, block: Block, number: int, inside: AbstractSet[int]) -> bool:
        if number in self._exits:
            return True
        return any(edge.target not in inside and edge.target not in self._failing for edge in block.successors)


def mark_must(
    template: Template, flow: Flow, exits: AbstractSet[int], failing: AbstractSet[int], stores: AbstractSet[int]
) -> None:
    """Says of stores, by the numbers of their accesses, and of loops, when they execute for certain."""
    if flow.irreducible or template.unknown:
        return
    must = MustExecute(flow, template, exits, failing)
    around: set[int] = set()
    with deep():
        for number in sorted(stores):
            access = template.accesses[number]
            if access.kind is not AccessKind.WRITE or access.length >= 0:
                continue
            found = must.access(access)
            if found != _NONE:
                template.accesses[number] = replace(access, must=found)
                around |= template.block_loops[access.block]
        for header, number in flow.loop_numbers.items():
            if number in around:
                place = template.loops[number]
                template.loops[number] = replace(place, must=must.condition(header), again=must.again(header))
