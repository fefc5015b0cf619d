"""The parts of a program, as their independence shows them: requests that have nothing to do with each other, branches
of one that have not, and steps that repeat. No marker is asked for.

Constants (versions.py) join nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from controlplane.graph.nodes import What
from controlplane.graph.simulate import Counts, everything
from controlplane.graph.versions import Dependencies

LEAST_GROUP = 0.02  # of the longest one's time: what is shorter is no request of its own
LEAST_BRANCH = 0.05  # of a step's time
ALIKE = 0.9  # of a step's operations are the same as those of the next one
MOST_STEPS_APART = 50_000
WINDOW = 64


@dataclass(frozen=True, slots=True)
class Group:
    """Operations that depend on each other, and on no other group's."""

    nodes: tuple[int, ...]
    ns: float


@dataclass(frozen=True, slots=True)
class Fan:
    """Parts that follow each other in the order of the calls and need nothing of each other: where each begins, and
    where the last one ends.
    """

    bounds: tuple[int, ...]

    @property
    def parts(self) -> tuple[range, ...]:
        return tuple(range(first, end) for first, end in pairwise(self.bounds))


@dataclass(frozen=True, slots=True)
class Steps:
    """Nearly the same operations each time: where each of them begins, and where the last one ends."""

    starts: tuple[int, ...]
    end: int

    @property
    def count(self) -> int:
        return len(self.starts)

    def of(self, number: int) -> int:
        """Which step an operation is in; -1 for none."""
        return bisect_right(self.starts, number) - 1 if number < self.end else -1


@dataclass(frozen=True, slots=True)
class Parts:
    """The groups that matter, in the order in which they begin; and all operations of those too short for that."""

    groups: tuple[Group, ...]
    short: tuple[int, ...]


def parts(found: Dependencies, counts: Counts = everything) -> Parts:
    """The program's groups."""
    nodes = found.program.nodes
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(number for number, node in enumerate(nodes) if node.what is not What.FORGET)
    for number, edges in enumerate(found.raw):
        for writer, why in edges:
            if counts(number, why) and not found.is_constant(writer, number):
                graph.add_edge(writer, number)
    connected = [sorted(part) for part in nx.connected_components(graph)]
    made = [Group(tuple(part), sum(nodes[number].ns for number in part)) for part in connected]
    made.sort(key=lambda group: group.nodes)
    least = LEAST_GROUP * max((group.ns for group in made), default=0.0)
    kept = [each for each in made if each.ns >= least and any(nodes[n].what is What.LAUNCH for n in each.nodes)]
    inside = {number for group in kept for number in group.nodes}
    return Parts(tuple(kept), tuple(number for group in made for number in group.nodes if number not in inside))


def repeated(found: Dependencies) -> Steps | None:
    """What repeats at least three times; the shortest length at which nearly all is as before."""
    nodes = found.program.nodes
    places = [number for number, node in enumerate(nodes) if node.what is not What.FORGET]
    names: dict[tuple[What, str], int] = {}
    kinds = np.array([names.setdefault((nodes[n].what, nodes[n].name), len(names)) for n in places], np.int32)
    middle = kinds[len(kinds) // 2 :]
    length = _period(middle)
    if not length:
        return None
    first = len(kinds) // 2
    while first >= length and _alike(kinds, first - length, length):
        first -= length
    end = len(kinds) // 2 + length
    while end + length <= len(kinds) and _alike(kinds, end - length, length):
        end += length
    # The part of a step before `first`, down to where the program begins to repeat itself.
    while first > 0 and kinds[first - 1] == kinds[first - 1 + length]:
        first -= 1
    starts = tuple(places[start] for start in range(first, end - length + 1, length))
    return Steps(starts, places[first + len(starts) * length - 1] + 1) if len(starts) >= 3 else None


def _period(kinds: NDArray[np.int32]) -> int:
    most = min(len(kinds) // 2, MOST_STEPS_APART)
    if most < 1:
        return 0
    shares = np.array([np.mean(kinds[:-shift] == kinds[shift:]) for shift in range(1, most + 1)])
    best = float(shares.max())
    return int(np.argmax(shares >= best - 0.005)) + 1 if best >= ALIKE else 0


def _alike(kinds: NDArray[np.int32], first: int, length: int) -> bool:
    return bool(np.mean(kinds[first : first + length] == kinds[first + length : first + 2 * length]) >= ALIKE)


def fans(found: Dependencies, group: Group, steps: Steps | None, counts: Counts = everything) -> list[Fan]:
    """Where a group's operations, in their order, fall into parts that need nothing of each other, so long that they
    matter. What is small may depend all the same: parts that overlap are one fan.
    """
    if len(group.nodes) < 2:
        return []
    search = _Search(found, group, counts)
    inside = {steps.of(number) for number in group.nodes} if steps is not None else set[int]()
    step_ns = group.ns / max(len(inside), 1)
    candidates = [(min(fork[0], step_ns), *fork[1:]) for fork in search.all() if fork[0] >= LEAST_BRANCH * step_ns]
    candidates.sort(reverse=True)
    chosen: list[tuple[float, int, int, int]] = []
    for ns, first, middle, end in candidates:
        near = (abs(search.work[middle] - search.work[other[2]]) < ns / 2 for other in chosen)
        if ns >= candidates[0][0] / 2 and not any(near):
            chosen.append((ns, first, middle, end))
    numbers = [*group.nodes, group.nodes[-1] + 1]
    return [Fan(tuple(numbers[bound] for bound in bounds)) for bounds in _joined(chosen)]


def _joined(forks: Iterable[tuple[float, int, int, int]]) -> list[list[int]]:
    """Forks (what counts, first, middle, end) that overlap, as one."""
    joined: list[list[int]] = []
    for _, first, middle, end in sorted(forks, key=lambda fork: fork[2]):
        if joined and middle < joined[-1][-1]:
            joined[-1][-1:] = [middle, max(end, joined[-1][-1])]
        else:
            joined.append([first, middle, end])
    return joined


class _Search:
    """For each place in a group, the longest two parts before and after it that do not depend on each other.

    next: of each operation before the place, the first one from the place on that needs it.
    """

    def __init__(self, found: Dependencies, group: Group, counts: Counts) -> None:
        place = {number: index for index, number in enumerate(group.nodes)}
        self.targets: list[list[int]] = [[] for _ in place]
        self.sources: list[list[int]] = [[] for _ in place]
        for number, index in place.items():
            for writer, why in found.raw[number]:
                if writer in place and counts(number, why) and not found.is_constant(writer, number):
                    self.targets[place[writer]].append(index)
                    self.sources[index].append(place[writer])
        times = [found.program.nodes[number].ns for number in group.nodes]
        self.work = np.concatenate([[0.0], np.cumsum(times)])
        size = len(times)
        self.next = np.array([min(targets, default=size) for targets in self.targets], np.int64)

    def all(self) -> list[tuple[float, int, int, int]]:
        """(time of the shorter part, first, middle, end)."""
        found = []
        for middle in range(1, len(self.next)):
            if self.next[middle - 1] > middle:
                found.append(self.at(middle))
            for source in set(self.sources[middle]):  # from the next place on it is needed later, if at all
                targets = self.targets[source]
                later = bisect_left(targets, middle + 1)
                self.next[source] = targets[later] if later < len(targets) else len(self.next)
        return found

    def at(self, middle: int) -> tuple[float, int, int, int]:
        work, size = self.work, WINDOW
        while True:
            low = max(middle - size, 0)
            ends = np.minimum.accumulate(self.next[low:middle][::-1])
            firsts = np.arange(middle - 1, low - 1, -1)
            before, after = work[middle] - work[firsts], work[ends] - work[middle]
            if low == 0 or before[-1] >= after[-1]:
                break
            size *= 2
        shorter = np.minimum(before, after)
        best = int(np.argmax(shorter))
        while best + 1 < len(ends) and ends[best + 1] == ends[best]:
            best += 1
        return float(shorter[best]), int(firsts[best]), middle, int(ends[best])


def alike(found: Dependencies, some: Sequence[Sequence[int]]) -> Counter[tuple[str, ...]]:
    """How many parts run the same kernels in the same order."""
    nodes = found.program.nodes
    return Counter(tuple(nodes[number].name for number in part) for part in some)
