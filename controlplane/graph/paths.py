"""The critical path: the longest chain of operations that depend on each other. No number of GPUs is faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controlplane.graph.nodes import What, Why
from controlplane.graph.simulate import Counts, everything
from controlplane.graph.versions import Dependencies

Sources = Callable[[int], "set[int]"]


@dataclass(frozen=True, slots=True)
class Path:
    """Operations in their order, and how long they take together."""

    ns: float
    nodes: tuple[int, ...]


def by_bytes(found: Dependencies, counts: Counts = everything) -> Path:
    """As the bytes order the program, with the host's waiting."""

    def sources(number: int) -> set[int]:
        edges = found.raw[number]
        return {w for w, why in edges if counts(number, why) and not found.is_constant(w, number)}

    return longest(found, sources)


def by_streams(found: Dependencies) -> Path:
    """As streams and events order it."""
    return longest(found, lambda number: set(found.program.nodes[number].after))


def longest(found: Dependencies, sources: Sources) -> Path:
    nodes = found.program.nodes
    ends, before, last = [0.0] * len(nodes), [-1] * len(nodes), -1
    latest: dict[str, int] = {}  # of each stream, who ends last
    upto: list[int] = []
    for number, node in enumerate(nodes):
        for other in (*sources(number), *node.returned, *(upto[each] for each in node.waits)):
            if before[number] < 0 or ends[other] > ends[before[number]]:
                before[number] = other
        ends[number] = node.ns + (ends[before[number]] if before[number] >= 0 else 0.0)
        stream = latest.get(node.stream, number)
        latest[node.stream] = number if ends[number] >= ends[stream] else stream
        upto.append(latest[node.stream])
        if last < 0 or ends[number] > ends[last]:
            last = number
    total, chain = ends[last] if last >= 0 else 0.0, []
    while last >= 0:
        if nodes[last].what is not What.FORGET:
            chain.append(last)
        last = before[last]
    return Path(total, tuple(reversed(chain)))


def only_sure(number: int, why: Why) -> bool:  # noqa: ARG001
    """Counts what a launch is known to read, and nothing that better knowledge of it could take away."""
    return why in (Why.READ, Why.SCRATCH)
