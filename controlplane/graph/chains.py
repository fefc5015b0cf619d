"""Why not more of a program runs at the same time: the launches whose bytes chain it, and the program's own critical
path.

A link is a dependency that better knowledge could remove: a read of a whole allocation, a write that is not known to
overwrite, a launch that may touch anything. For each kernel and reason, the program is simulated as if all else were
known and only this were not ("alone"), and as if only this were known ("without").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from controlplane.graph.nodes import UNSURE, Program, Why
from controlplane.graph.paths import Path, by_bytes, only_sure
from controlplane.graph.rule import Rule
from controlplane.graph.simulate import Counts, Schedule, simulate
from controlplane.graph.versions import Dependencies, dependencies

# Of the kernels and reasons that chain most, as many are simulated and looked at; fewer in long programs.
SIMULATED, LOOKED_AT, EFFORT = 6, 24, 100_000
LOOKED_AT_UNKNOWN = 3  # each takes another pass over the program

Class = tuple[str, Why]


@dataclass(frozen=True, slots=True)
class Link:
    """What chains, by kernel and reason. example: two operations, of which the second needs the first one's bytes.

    alone, without: times of one GPU (see above); None where that was not simulated. path_ns: the longest chain if all
    else were known.
    """

    name: str
    why: Why
    cause: str
    launches: int
    needed_bytes: int
    example: tuple[int, int]
    path_ns: float
    alone: float | None = None
    without: float | None = None


@dataclass(frozen=True, slots=True)
class Own:
    """A kernel on the longest chain that remains when everything is known."""

    name: str
    launches: int
    ns: float


@dataclass(slots=True)
class Chains:
    """known: the program as if its launches touched only what they are known to. best: times of one GPU if all were
    known; links and own: worst first.
    """

    known: Dependencies
    best: float
    best_schedule: Schedule
    path: Path
    links: list[Link]
    own: list[Own]


def ratio(one: Schedule, several: Schedule) -> float:
    return one.span_ns / several.span_ns if several.span_ns else 1.0


def chains(found: Dependencies, gpus: int, rule: Rule, mark: int) -> Chains:
    known = found
    if any(node.unknown for node in found.program.nodes):
        known = dependencies(_known(found.program, lambda _: True))

    one = simulate(found, 1, rule, mark=mark)

    def gain(of: Dependencies, counts: Counts) -> float:
        return ratio(one, simulate(of, gpus, rule, counts, mark))

    best, path = simulate(known, gpus, rule, only_sure, mark), by_bytes(known, only_sure)
    size = max(len(found.program.nodes), 1)
    gathered = _gathered(found)
    links = [*_unknown(found, gathered, path.ns), *_unsure(known, gathered, max(min(EFFORT // size, LOOKED_AT), 4))]
    links.sort(key=lambda link: (-link.path_ns, -link.needed_bytes))
    for place, link in enumerate(links[: max(min(EFFORT // (2 * size), SIMULATED), 2)]):
        if link.path_ns <= 1.001 * path.ns and not link.needed_bytes:
            continue
        if link.why is Why.ANYTHING:
            alone = gain(dependencies(_known(found.program, _others(link.name))), only_sure)
            without = gain(dependencies(_known(found.program, _only(link.name))), _all)
        else:
            alone = gain(known, _with(known, link))
            without = gain(found, _but(found, link))
        links[place] = replace(link, alone=alone, without=without)
    links.sort(key=lambda link: (link.alone is None, link.alone or 0.0, -link.path_ns, -link.needed_bytes))
    return Chains(known, ratio(one, best), best, path, links, _own(known, path))


def _known(program: Program, is_known: Callable[[str], bool]) -> Program:
    """As if these launches touched nothing but what they are known to."""
    nodes = [replace(node, unknown="") if node.unknown and is_known(node.name) else node for node in program.nodes]
    return replace(program, nodes=nodes)


def _others(name: str) -> Callable[[str], bool]:
    return lambda other: other != name


def _only(name: str) -> Callable[[str], bool]:
    return lambda other: other == name


def _all(number: int, why: Why) -> bool:  # noqa: ARG001
    return True


def _with(found: Dependencies, link: Link) -> Counts:
    """What is sure, and this."""
    nodes = found.program.nodes
    return lambda number, why: why not in UNSURE or (why is link.why and nodes[number].name == link.name)


def _but(found: Dependencies, link: Link) -> Counts:
    """All but this."""
    nodes = found.program.nodes
    return lambda number, why: why is not link.why or nodes[number].name != link.name


@dataclass(slots=True)
class _Gathered:
    launches: set[int]
    needed_bytes: int
    example: tuple[int, int]


def _gathered(found: Dependencies) -> dict[Class, _Gathered]:
    """By kernel and reason; the example is the longest way back."""
    nodes = found.program.nodes
    result: dict[Class, _Gathered] = {}
    for number, edges in enumerate(found.raw):
        for (writer, why), size in edges.items():
            if why not in UNSURE or (why is not Why.ANYTHING and found.is_constant(writer, number)):
                continue
            of = number if why is not Why.ANYTHING or nodes[number].unknown else writer
            each = result.setdefault((nodes[of].name, why), _Gathered(set(), 0, (writer, number)))
            each.launches.add(of)
            each.needed_bytes += size
            if number - writer > each.example[1] - each.example[0]:
                each.example = (writer, number)
    return result


def _unsure(known: Dependencies, gathered: dict[Class, _Gathered], most: int) -> list[Link]:
    chosen = [key for key in gathered if key[1] is not Why.ANYTHING]
    chosen.sort(key=lambda key: -gathered[key].needed_bytes)
    links = []
    for name, why in chosen[:most]:
        some = gathered[name, why]
        link = Link(name, why, CAUSES[why], len(some.launches), some.needed_bytes, some.example, 0.0)
        links.append(replace(link, path_ns=by_bytes(known, _with(known, link)).ns))
    return links


def _unknown(found: Dependencies, gathered: dict[Class, _Gathered], shortest_ns: float) -> list[Link]:
    chosen = [key for key in gathered if key[1] is Why.ANYTHING]
    chosen.sort(key=lambda key: -len(gathered[key].launches))
    links = []
    for place, (name, why) in enumerate(chosen):
        some = gathered[name, why]
        cause = found.program.nodes[min(some.launches)].unknown
        path_ns = shortest_ns
        if place < LOOKED_AT_UNKNOWN:
            path_ns = by_bytes(dependencies(_known(found.program, _others(name))), _sure_or_unknown).ns
        links.append(Link(name, why, cause, len(some.launches), some.needed_bytes, some.example, path_ns))
    return links


def _sure_or_unknown(number: int, why: Why) -> bool:
    return only_sure(number, why) or why is Why.ANYTHING


def _own(found: Dependencies, path: Path) -> list[Own]:
    times: dict[str, list[float]] = {}
    for number in path.nodes:
        times.setdefault(found.program.nodes[number].name, []).append(found.program.nodes[number].ns)
    own = [Own(name, len(each), sum(each)) for name, each in times.items()]
    return sorted(own, key=lambda each: -each.ns)


CAUSES = {
    Why.WHOLE: "reads something in a whole allocation",
    Why.OLD: "writes, not known to overwrite",
}
