"""A function's control flow as the builder of templates needs it: path conditions of blocks and edges, numbered loops.

A template numbers the blocks and loops of all functions that are inlined; those of one activation begin at `base` and
`loop_base`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from ptxtools.access.template import LoopPlace, PathCondition, Template
from ptxtools.flow.blocks import Edge, blocks
from ptxtools.flow.definitions import Definitions
from ptxtools.flow.dominators import Dominators
from ptxtools.flow.loops import loops
from ptxtools.reader.body import Body


class Flow:
    """`conditions[b]`: the conditions that hold whenever block b runs, as far as edges that lead to it alone tell.

    `pending`: conditions whose predicate is not made yet, with the edge that is its reason.
    """

    def __init__(self, body: Body, template: Template, condition: int, outer: frozenset[int]) -> None:
        """`condition`: what holds where the function is called; `outer`: the loops that the call is in."""
        self.base, self.loop_base = len(template.block_loops), len(template.loops)
        self.blocks = blocks(body)
        self.dominators = Dominators(self.blocks)
        self.loops, self.irreducible = loops(self.blocks, self.dominators)
        self.loop_numbers = {header: number for number, header in enumerate(self.loops, self.loop_base)}
        self.definitions = Definitions(body, self.blocks)
        self.conditions = [condition] * len(self.blocks)
        self.pending: dict[int, Edge] = {}
        self._template = template
        self._edges: dict[Edge, int] = {}
        for number in range(1, len(self.blocks)):
            self.conditions[number] = self._block_condition(number)
        self._describe(outer)

    def _block_condition(self, number: int) -> int:
        """A loop that has one edge to come in by is never in a state in which that edge was not taken."""
        edges = self.loops[number].entries if number in self.loops else self.blocks[number].predecessors
        if len(edges) == 1:
            return self.edge_condition(edges[0])
        return self.conditions[self.dominators.parent[number]]

    def edge_condition(self, edge: Edge) -> int:
        """What holds when the edge is taken."""
        parent = self.conditions[edge.source]
        if not edge.guard:
            return parent
        known = self._edges.get(edge)
        if known is None:
            known = self._edges[edge] = len(self._template.conditions)
            self._template.conditions.append(PathCondition(parent, truth=not edge.negated))
            self.pending[known] = edge
        return known

    def knows(self, edge: Edge) -> bool:
        """Whether what is asked at a guarded edge was made a condition."""
        return edge in self._edges

    def mark_certain(self, failing: AbstractSet[int], exits: AbstractSet[int]) -> None:
        """Of the conditions whose opposite leads to blocks whose launch fails."""
        for edge, condition in self._edges.items():
            others = [each.target for each in self.blocks[edge.source].successors if each != edge]
            if others and edge.source not in exits and failing >= set(others):
                self._template.conditions[condition] = self._template.conditions[condition]._replace(certain=True)

    def _describe(self, outer: frozenset[int]) -> None:
        members = [set(outer) for _ in self.blocks]
        for header, loop in self.loops.items():
            for block in loop.blocks:
                members[block].add(self.loop_numbers[header])
        around = list(map(frozenset, members))
        self._template.block_loops += around
        for header, loop in self.loops.items():
            entries = tuple(self.edge_condition(edge) for edge in loop.entries) or (self.conditions[0],)
            backs = tuple(self.edge_condition(edge) for edge in loop.back)
            place = LoopPlace(self.base + header, self.conditions[header], entries, backs, around[header])
            self._template.loops.append(place)

    def complete(self, condition: int, predicate: int) -> None:
        """Fills in a pending condition's predicate."""
        del self.pending[condition]
        self._template.conditions[condition] = self._template.conditions[condition]._replace(predicate=predicate)
