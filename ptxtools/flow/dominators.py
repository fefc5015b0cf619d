"""Dominators, after Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm"."""

from __future__ import annotations

from collections.abc import Sequence

from ptxtools.flow.blocks import Block


class Dominators:
    """`parent[b]` is the immediate dominator of block b; that of the entry is the entry."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.parent = _immediate(blocks)
        self._depth = [0] * len(blocks)
        for block in range(1, len(blocks)):
            self._depth[block] = self._depth[self.parent[block]] + 1

    def dominates(self, a: int, b: int) -> bool:
        """Whether every path to block b leads through a."""
        while self._depth[b] > self._depth[a]:
            b = self.parent[b]
        return a == b


def _immediate(blocks: Sequence[Block]) -> list[int]:
    parent = [-1] * len(blocks)
    if blocks:
        parent[0] = 0
    changed = True
    while changed:
        changed = False
        for number in range(1, len(blocks)):
            known = [edge.source for edge in blocks[number].predecessors if parent[edge.source] >= 0]
            common = known[0]
            for other in known[1:]:
                common = _meet(parent, common, other)
            if parent[number] != common:
                parent[number], changed = common, True
    return parent


def _meet(parent: Sequence[int], a: int, b: int) -> int:
    while a != b:
        while a > b:
            a = parent[a]
        while b > a:
            b = parent[b]
    return a
