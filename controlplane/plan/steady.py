"""The period with so many requests in flight: each begins when another one ends; discrete events. The first ones begin
one after another, spread over the time of one.

A request runs by one of the placements of a mixture, on one GPU of each kind. What it does on a GPU between two
transfers is one *stretch*. Stretches that are ready share their GPU, as launches of several streams take turns; ports
take transfers in the order in which they become ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from controlplane.plan.problem import Ints, Problem

EVENTS = 60_000  # that are simulated, about
LEAST_TURNS = 4  # requests that end, for each that is in flight
LARGE, LARGE_TURNS = 4000, 2.5  # stretches of a request; requests, if it has so many
MOST_REQUESTS = 400


@dataclass(frozen=True, slots=True)
class _Stretch:
    """kind: of GPU. waits: how many transfers and stretches come before it. after: the next one on its GPU, or -1.
    sends: (stretch that needs it, time of the ports, until it is seen after that).
    """

    kind: int
    ns: float
    waits: int
    after: int
    sends: tuple[tuple[int, float, float], ...]


def stretches(given: Problem, kind: Ints) -> list[_Stretch]:
    """Of one placement, in the order of the program."""
    nodes, values = given.nodes, given.values
    owner, reader = values.consumers.owners(), values.consumers.members
    writer = values.producer[owner]
    crossing = (kind[writer] != kind[reader]) & (writer < reader)
    first = np.unique(np.stack([owner, kind[reader]])[:, crossing], axis=1, return_index=True)[1]
    owner, reader, writer = owner[crossing][first], reader[crossing][first], writer[crossing][first]
    begins = np.zeros(nodes, dtype=np.bool_)
    begins[reader] = True
    order = np.argsort(kind, kind="stable")
    is_last = np.zeros(nodes, dtype=np.bool_)
    is_last[writer] = True
    begins[order[1:]] |= is_last[order[:-1]] | (kind[order[1:]] != kind[order[:-1]])
    begins[order[0]] = True
    of = np.empty(nodes, dtype=np.int64)
    of[order] = np.cumsum(begins[order]) - 1
    heads = np.flatnonzero(begins)
    rank = np.argsort(np.argsort(heads, kind="stable"), kind="stable")
    number = np.empty(len(heads), dtype=np.int64)
    number[of[heads]] = rank
    of = number[of]
    ns = np.bincount(of, given.ns[np.arange(nodes), kind], len(heads))
    where = kind[heads]
    after = np.full(len(heads), -1, dtype=np.int64)
    by_kind = np.argsort(where, kind="stable")
    same = where[by_kind[1:]] == where[by_kind[:-1]]
    after[by_kind[:-1][same]] = by_kind[1:][same]
    sends = _sends(given, kind, owner, writer, reader, of)
    waits = np.zeros(len(heads), dtype=np.int64)
    waits[after[after >= 0]] += 1
    for each in sends:
        for target, _, _ in each:
            waits[target] += 1
    links = given.links.stream_ns
    for source, reads, value in zip(writer.tolist(), reader.tolist(), owner.tolist(), strict=True):
        cost = links[kind[source], kind[reads]] * values.messages[value]
        ns[of[source]] += cost
        ns[of[reads]] += cost
    rows = zip(where.tolist(), ns.tolist(), waits.tolist(), after.tolist(), sends, strict=True)
    return [_Stretch(*row[:4], tuple(row[4])) for row in rows]


def _sends(
    given: Problem, kind: Ints, owner: Ints, writer: Ints, reader: Ints, of: Ints
) -> list[list[tuple[int, float, float]]]:
    """By stretch. What one stretch sends to another is one transfer."""
    links, values = given.links, given.values
    found: list[list[tuple[int, float, float]]] = [[] for _ in range(int(of.max()) + 1)]
    pairs: dict[tuple[int, int], tuple[float, float]] = {}
    for value, source, reads in zip(owner.tolist(), writer.tolist(), reader.tolist(), strict=True):
        at = kind[source], kind[reads]
        busy = values.messages[value] * links.message_ns[at] + values.bytes[value] * links.ns_per_byte[at]
        key = int(of[source]), int(of[reads])
        pairs[key] = pairs.get(key, (0.0, 0.0))[0] + float(busy), float(links.latency_ns[at])
    for (source, target), (busy, latency) in pairs.items():
        found[source].append((target, busy, latency))
    return found


class _Gpu:
    """Stretches that are ready take turns, launch by launch: of `n` each gets the n-th part of the time.

    served: what each of them has got since the beginning, had it been there; a stretch ends when that is its `ns` more
    than when it began. serial: of the event that ends the next one; older ones mean nothing.
    """

    __slots__ = ("at", "busy", "into", "out", "owed", "running", "serial", "served")

    def __init__(self) -> None:
        self.served = self.at = self.busy = self.out = self.into = self.owed = 0.0
        self.serial = 0
        self.running: list[tuple[float, int, int]] = []  # (served at its end, request, stretch)

    def advance(self, now: float) -> None:
        if self.running:
            self.served += (now - self.at) / len(self.running)
            self.busy += now - self.at
        self.at = now


class _Run:
    def __init__(self, given: Problem, plans: Sequence[tuple[float, list[_Stretch]]], requests: int) -> None:
        self.plans, self.requests = plans, requests
        counts = [kind.count for kind in given.kinds]
        self.first = np.concatenate([[0], np.cumsum(counts)]).tolist()
        self.gpus = [_Gpu() for _ in range(self.first[-1])]
        self.issued = [0.0] * len(plans)
        self.loads = [_loads(plan, len(counts)) for _, plan in plans]
        self.plan_of: list[list[_Stretch]] = []
        self.gpu_of: list[list[_Gpu]] = []
        self.waits: list[list[int]] = []
        self.left: list[int] = []
        self.events: list[tuple[float, int, int, int]] = []  # time, request, stretch, serial; 0: it is ready
        self.ends: list[float] = []
        self.worked: list[float] = []  # by all GPUs, at each end

    def begin(self, now: float) -> None:
        """The next request, by the placement that has had the fewest for its weight."""
        turns = [(given + 1) / weight for given, (weight, _) in zip(self.issued, self.plans, strict=True)]
        chosen = min(range(len(turns)), key=turns.__getitem__)
        self.issued[chosen] += 1
        number, plan = len(self.plan_of), self.plans[chosen][1]
        self.plan_of.append(plan)
        gpus = [
            min(self.gpus[first:end], key=lambda gpu: gpu.owed)
            for first, end in zip(self.first[:-1], self.first[1:], strict=True)
        ]
        self.gpu_of.append(gpus)
        for gpu, load in zip(gpus, self.loads[chosen], strict=True):
            gpu.owed += load
        self.waits.append([stretch.waits for stretch in plan])
        self.left.append(len(plan))
        for place, stretch in enumerate(plan):
            if not stretch.waits:
                heappush(self.events, (now, number, place, 0))

    def run(self, total: int) -> None:
        apart = max(sum(load) for load in self.loads) / self.requests
        for turn in range(min(self.requests, total)):
            self.begin(turn * apart)
        while self.events:
            now, request, place, serial = heappop(self.events)
            stretch = self.plan_of[request][place]
            gpu = self.gpu_of[request][stretch.kind]
            if not serial:
                gpu.advance(now)
                heappush(gpu.running, (gpu.served + stretch.ns, request, place))
            elif serial != gpu.serial:
                continue
            else:
                gpu.advance(now)
                heappop(gpu.running)
                self.done(now, request, stretch, gpu, total)
            gpu.serial += 1
            if gpu.running:
                served, request, place = gpu.running[0]
                left = max(served - gpu.served, 0.0) * len(gpu.running)
                heappush(self.events, (now + left, request, place, gpu.serial))

    def done(self, now: float, request: int, stretch: _Stretch, gpu: _Gpu, total: int) -> None:
        gpu.owed -= stretch.ns
        gpus, plan = self.gpu_of[request], self.plan_of[request]
        for target, busy, latency in stretch.sends:
            to = gpus[plan[target].kind]
            end = max(now, gpu.out, to.into) + busy
            gpu.out = to.into = end
            self.arrived(end + latency, request, target)
        if stretch.after >= 0:
            self.arrived(now, request, stretch.after)
        self.left[request] -= 1
        if not self.left[request]:
            self.ends.append(now)
            for each in self.gpus:
                each.advance(now)
            self.worked.append(sum(each.busy for each in self.gpus))
            self.waits[request] = []
            if len(self.plan_of) < total:
                self.begin(now)

    def arrived(self, at: float, request: int, place: int) -> None:
        waits = self.waits[request]
        waits[place] -= 1
        if not waits[place]:
            heappush(self.events, (at, request, place, 0))


def _loads(plan: Sequence[_Stretch], kinds: int) -> list[float]:
    loads = [0.0] * kinds
    for stretch in plan:
        loads[stretch.kind] += stretch.ns
    return loads


def period(given: Problem, mixture: Sequence[tuple[float, Ints]], requests: int) -> float:
    """Of requests whose placements are those of a mixture, by weight."""
    plans = [(weight, stretches(given, kind)) for weight, kind in mixture]
    size = sum(weight * len(plan) for weight, plan in plans) / sum(weight for weight, _ in plans)
    turns = LEAST_TURNS if size < LARGE else LARGE_TURNS
    total = int(min(max(EVENTS / (2 * size), turns * requests), MOST_REQUESTS + turns * requests))
    run = _Run(given, plans, requests)
    run.run(total)
    if total <= requests + 1:
        return run.ends[-1] / total
    # While all are in flight: by the work that was done, which says more than how many ends fell into the time.
    begin, end = (total - requests) // 3, total - requests
    work = sum(weight * sum(load) for (weight, _), load in zip(plans, run.loads, strict=True))
    work /= sum(weight for weight, _ in plans)
    done = (run.worked[end] - run.worked[begin]) / work if work > 0 else end - begin
    return (run.ends[end] - run.ends[begin]) / done if done > 0 else run.ends[-1] / total
