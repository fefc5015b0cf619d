"""Natural loops: a header that dominates the sources of the edges back to it, and what lies between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxtools.flow.blocks import Block, Edge
from ptxtools.flow.dominators import Dominators

_MOST = 1 << 18  # blocks of all loops, those of inner loops once for each loop around them


class NestedLoopsError(RecursionError):
    """Loops are nested so deeply that there are too many blocks in them."""


@dataclass(frozen=True, slots=True)
class Loop:
    """`back`: edges to the header from inside; `entries`: from outside."""

    header: int
    blocks: frozenset[int]
    back: tuple[Edge, ...]
    entries: tuple[Edge, ...]


def loops(blocks: Sequence[Block], dominators: Dominators) -> tuple[dict[int, Loop], set[int]]:
    """Loops by header, and the blocks that are entered backwards without being such a header: irreducible flow.

    Errors: NestedLoopsError.
    """
    left = _MOST
    found: dict[int, Loop] = {}
    irreducible: set[int] = set()
    for number, block in enumerate(blocks):
        back = [edge for edge in block.predecessors if edge.source >= number]
        if not back:
            continue
        if not all(dominators.dominates(number, edge.source) for edge in back):
            irreducible.add(number)
            continue
        entries = tuple(edge for edge in block.predecessors if edge.source < number)
        members = _members(blocks, number, back)
        left -= len(members)
        if left < 0:
            raise NestedLoopsError("loops are nested too deeply")
        found[number] = Loop(number, members, tuple(back), entries)
    return found, irreducible


def _members(blocks: Sequence[Block], header: int, back: Sequence[Edge]) -> frozenset[int]:
    members = {header}
    pending = [edge.source for edge in back]
    while pending:
        number = pending.pop()
        if number not in members:
            members.add(number)
            pending += [edge.source for edge in blocks[number].predecessors]
    return frozenset(members)
