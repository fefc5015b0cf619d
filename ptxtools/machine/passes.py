"""The pass pipeline over a kernel's nodes, once all instructions have been read.

Each pass is given a simplified graph, in which the operands have what the passes before it found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptxtools.access.bits import add_disjoint
from ptxtools.access.graph import Graph
from ptxtools.machine import pairs
from ptxtools.machine.choices import narrow
from ptxtools.machine.divisions import find_divisions
from ptxtools.machine.extremes import find_extremes
from ptxtools.machine.guards import Guards, choose
from ptxtools.machine.halves import find_halves
from ptxtools.machine.lower import lower
from ptxtools.machine.rematerialised import settle
from ptxtools.machine.saved import restore
from ptxtools.machine.signs import find_signed
from ptxtools.machine.widened import Widened

Dominates = Callable[[int, int], bool]


def rewrite(graph: Graph, dominates: Dominates) -> None:
    """Predicates and choices first, words then, and pairs of words at last."""
    graph.simplify()
    for find in (restore, narrow, choose):
        find(graph)
        graph.simplify()
    guards = Guards(graph)
    _see_addresses(graph, guards.chosen)
    guards.see_conditions()
    find_divisions(graph)
    find_signed(graph)
    find_halves(graph)
    graph.simplify()
    pairs.replace_pairs(graph, dominates)
    graph.simplify()
    find_extremes(graph)
    lower(graph)
    graph.simplify()
    settle(graph, dominates)
    graph.simplify()
    add_disjoint(graph)


def widen(graph: Graph) -> None:
    """Behind all others: addresses under the conditions of their accesses."""
    _see_addresses(graph, Widened(graph).seen)


def _see_addresses(graph: Graph, seen: Callable[[int, int], int]) -> None:
    """`seen`: an address in the condition of its access."""
    graph.template.accesses = [
        replace(
            access,
            address=seen(access.address, access.condition),
            length=access.length if access.length < 0 else graph.resolve(access.length),
        )
        for access in graph.template.accesses
    ]
