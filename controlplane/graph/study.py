"""All that `tessera graph` says of a program, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

from controlplane.graph import groups
from controlplane.graph.chains import Chains, chains, ratio
from controlplane.graph.groups import Fan, Group, Parts, Steps
from controlplane.graph.nodes import What
from controlplane.graph.paths import Path, by_bytes, by_streams, only_sure
from controlplane.graph.rule import Rule
from controlplane.graph.simulate import Schedule, simulate
from controlplane.graph.versions import Dependencies

MOSTLY = 0.5  # of a group's time


@dataclass(frozen=True, slots=True)
class Unit:
    """Parts of one kind: requests, branches or steps, each as the operations first to last."""

    name: str
    parts: tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class Study:
    """A program, what depends on what in it, and how it would run on `gpus` GPUs, once as it is known and once if all
    were known (in `chains`). mark: the last operation before the part that is measured; -1: all of it is. parts, fans
    and requests are what would be independent if all were known; joined: how many groups there are as it is known.
    branches: the fans that are no requests.
    """

    found: Dependencies
    gpus: int
    rule: Rule
    mark: int
    parts: Parts
    joined: int
    fans: list[Fan]
    branches: list[Fan]
    requests: tuple[tuple[int, ...], ...]
    steps: Steps | None
    one: Schedule
    several: Schedule
    work_ns: float
    streams: Path
    bytes: Path
    chains: Chains

    @property
    def gain(self) -> float:
        """How many times faster than one GPU."""
        return ratio(self.one, self.several)

    def busy(self) -> list[float]:
        """Of the measured time, by GPU."""
        ns = [0.0] * self.gpus
        first = self.several.marked_ns
        for gpu, start, end in zip(self.several.gpu, self.several.start_ns, self.several.end_ns, strict=True):
            ns[gpu] += max(end - max(start, first), 0.0)
        return [each / self.several.span_ns if self.several.span_ns else 0.0 for each in ns]

    def units(self) -> list[Unit]:
        """What of the program is like what, as far as there are several of it."""
        units = [Unit("request", self.requests)] if self.requests else []
        branches = tuple(tuple(part) for fan in self.branches for part in fan.parts)
        units += [Unit("branch", branches)] if branches else []
        if self.steps is not None:
            starts = (*self.steps.starts, self.steps.end)
            units.append(Unit("step", tuple(tuple(range(first, end)) for first, end in pairwise(starts))))
        return units

    def moved(self, part: Sequence[int]) -> int:
        return sum(self.several.moved[number] for number in part)


def study(found: Dependencies, gpus: int, rule: Rule | None = None, mark: int | None = None) -> Study:
    """mark: by default what comes before the part that repeats, if anything does."""
    rule = rule or Rule()
    steps = groups.repeated(found)
    if mark is None:
        mark = steps.starts[0] - 1 if steps is not None else -1
    chained = chains(found, gpus, rule, mark)
    parts = groups.parts(chained.known, only_sure)
    fans = [groups.fans(chained.known, group, steps, only_sure) for group in parts.groups]
    split = [_requests(found, group, some) for group, some in zip(parts.groups, fans, strict=True)]
    requests = [part for some in split for part in some]
    return Study(
        found,
        gpus,
        rule,
        mark,
        parts,
        len(groups.parts(found).groups),
        [fan for some in fans for fan in some],
        [fan for some, into in zip(fans, split, strict=True) if len(into) < 2 for fan in some],
        tuple(requests) if len(requests) > 1 else (),
        steps,
        simulate(found, 1, rule, mark=mark),
        simulate(found, gpus, rule, mark=mark),
        sum(node.ns for node in found.program.nodes),
        by_streams(found),
        by_bytes(found),
        chained,
    )


def _requests(found: Dependencies, group: Group, fans: Sequence[Fan]) -> list[tuple[int, ...]]:
    """A group that needs nothing of the others; or the parts that it is mostly made of, joined by next to nothing."""
    if len(fans) != 1 or len(fans[0].parts) < 3:
        return [group.nodes]
    parts = [tuple(number for number in group.nodes if number in part) for part in fans[0].parts]
    inside = sum(found.program.nodes[number].ns for part in parts for number in part)
    return parts if inside > MOSTLY * group.ns else [group.nodes]


def as_graph(found: Dependencies) -> nx.DiGraph[int]:
    """Nodes have what, name, ns and stream. Edges go from earlier to later ones, with bytes by cause: RAW, WAR, WAW.

    `stream` and `host` are true where the order of streams or the host's waiting gives them; `constant` where the bytes
    of RAW count as such; `unsure` where better knowledge of the later one could take the RAW away.
    """
    graph: nx.DiGraph[int] = nx.DiGraph()
    nodes = found.program.nodes
    for number, node in enumerate(nodes):
        if node.what is not What.FORGET:
            graph.add_node(number, what=node.what.value, name=node.name, ns=node.ns, stream=node.stream)
    for number, node in enumerate(nodes):
        edges: dict[int, dict[str, int | bool]] = {}
        sure = {writer for writer, why in found.raw[number] if only_sure(number, why)}
        for (writer, _), size in found.raw[number].items():
            edge = edges.setdefault(writer, {})
            edge["RAW"] = edge.get("RAW", 0) + size
            edge["constant"] = found.is_constant(writer, number)
            edge["unsure"] = writer not in sure
        for cause, others in (("WAR", found.war[number]), ("WAW", found.waw[number])):
            for other, size in others.items():
                edges.setdefault(other, {})[cause] = size
        for cause, before in (("stream", node.after), ("host", (*node.waits, *node.returned))):
            for other in before:
                edges.setdefault(other, {})[cause] = True
        graph.add_edges_from((other, number, data) for other, data in edges.items())
    return graph
