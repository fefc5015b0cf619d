"""Small problems, to the end: every placement is either looked at or shown to be no better than one that was.

The number of steps is limited, not the time, so that the same problem has the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlplane.plan.cut import Prices, node_prices
from controlplane.plan.list_schedule import ListSchedule
from controlplane.plan.net import Net
from controlplane.plan.problem import Floats, Ints, Problem
from controlplane.plan.uses import Scales

STEPS = 60_000
MOST_NODES = 24
LATENCY_STEPS = 40_000


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """kind: None if nothing better than what was known was found. complete: there is nothing better."""

    kind: Ints | None
    value: float
    complete: bool


class _Memory:
    """Bytes on each kind as nodes are placed and taken back."""

    def __init__(self, net: Net, scale: Scales) -> None:
        self.residents: list[list[int]] = [[] for _ in range(net.nodes)]
        users = net.residents.users
        for owner, member in zip(users.owners().tolist(), users.members.tolist(), strict=True):
            self.residents[member].append(owner)
        self.bytes: list[float] = net.residents.bytes.tolist()
        self.state: list[list[float]] = np.outer(net.state_bytes, scale.states).tolist()
        self.room: list[float] = scale.room.tolist()
        self.count = [[0] * scale.kinds for _ in self.bytes]

    def put(self, node: int, kind: int) -> bool:
        """Whether it fits; it is there in any case."""
        need = self.state[node][kind]
        for each in self.residents[node]:
            if not self.count[each][kind]:
                need += self.bytes[each]
            self.count[each][kind] += 1
        self.room[kind] -= need
        return self.room[kind] >= 0

    def take(self, node: int, kind: int) -> None:
        need = self.state[node][kind]
        for each in self.residents[node]:
            self.count[each][kind] -= 1
            if not self.count[each][kind]:
                need += self.bytes[each]
        self.room[kind] += need


class _Shortest:
    """Depth first; a branch ends where its rows, weighed by prices, cost as much as what is known."""

    def __init__(self, net: Net, scale: Scales, prices: Prices, best: float) -> None:
        self.net, self.scale, self.best = net, scale, best
        self.rows = scale.rows - 1
        self.steps, self.kind = 0, np.zeros(net.nodes, dtype=np.int64)
        self.found: Ints | None = None
        self.memory = _Memory(net, scale)
        weigh = Prices(
            np.concatenate([prices.rows[:-1] / max(prices.rows[:-1].sum(), 1e-12), [0.0]]), prices.memory * 0
        )
        costs = node_prices(net, scale, weigh)
        self.weights = weigh.rows[:-1]
        order = np.argsort(-costs.min(axis=1), kind="stable") if net.nodes > 12 else np.arange(net.nodes)
        self.order: list[int] = order.tolist()
        rest = costs.min(axis=1)[order]
        self.rest: list[float] = np.concatenate([np.cumsum(rest[::-1])[::-1], [0.0]]).tolist()
        self.choices: list[list[int]] = [
            [kind for kind in np.argsort(costs[node], kind="stable").tolist() if net.allowed[node, kind]]
            for node in range(net.nodes)
        ]
        self.own = self._own()
        self.sizes = np.diff(net.values.consumers.start)
        self.touching: list[list[int]] = [[] for _ in range(net.nodes)]
        self.readers: list[list[int]] = [
            net.values.consumers.members[first:end].tolist()
            for first, end in zip(net.values.consumers.start[:-1], net.values.consumers.start[1:], strict=True)
        ]
        for value, (writer, readers) in enumerate(zip(net.values.producer.tolist(), self.readers, strict=True)):
            for node in (writer, *readers):
                self.touching[node].append(value)
        self.writer: list[int] = net.values.producer.tolist()
        per_byte, per_message = scale.ns_per_byte[:-1], scale.ns_per_message[:-1]
        self.traffic = net.values.bytes[:, None, None, None] * per_byte.transpose(1, 2, 0) + net.values.messages[
            :, None, None, None
        ] * per_message.transpose(1, 2, 0)
        self.place = [-1] * net.nodes

    def _own(self) -> Floats:
        rows = np.zeros((self.net.nodes, self.scale.kinds, self.rows))
        for kind in range(self.scale.kinds):
            rows[:, kind, kind] = self.net.ns[:, kind] / self.scale.counts[kind]
        return rows

    def traffic_of(self, value: int) -> Floats | float:
        """Of what is placed so far."""
        source = self.place[self.writer[value]]
        if source < 0:
            return 0.0
        there = {self.place[node] for node in self.readers[value]} - {source, -1}
        total: Floats | float = 0.0
        for kind in sorted(there):
            total = total + self.traffic[value, source, kind]
        return total

    def search(self, depth: int, rows: Floats) -> None:
        if depth == len(self.order):
            value = float(rows.max())
            if value < self.best * (1 - 1e-9):
                self.best, self.found = value, np.array(self.place, dtype=np.int64)
            return
        node = self.order[depth]
        for kind in self.choices[node]:
            self.steps += 1
            if self.steps > STEPS:
                return
            before: Floats | float = 0.0
            for value in self.touching[node]:
                before = before + self.traffic_of(value)
            self.place[node] = kind
            after = rows + self.own[node, kind] - before
            for value in self.touching[node]:
                after = after + self.traffic_of(value)
            limit = self.best * (1 - 1e-9)
            if (
                self.memory.put(node, kind)
                and after.max() < limit
                and self.weights @ after + self.rest[depth + 1] < limit
            ):
                self.search(depth + 1, after)
            self.memory.take(node, kind)
            self.place[node] = -1


def shortest_period(net: Net, scale: Scales, prices: Prices, best: float) -> Exact:
    """A placement whose period is shorter than `best`, the shortest if the search is complete."""
    if net.nodes > MOST_NODES:
        return Exact(None, best, False)
    run = _Shortest(net, scale, prices, best)
    run.search(0, np.zeros(run.rows))
    return Exact(run.found, run.best, run.steps <= STEPS)


class Placer:
    """Nodes in the order of the program, one after another. place: by joined node, -1 where it is open."""

    def __init__(self, schedule: ListSchedule, of: list[int], place: list[int]) -> None:
        self.schedule, self.of, self.place = schedule, of, place

    def placed(
        self,
        node: int,
        gpu: int,
        free: list[float],
        ports: list[float],
        end: list[float],
        there: dict[tuple[int, int], float],
    ) -> tuple[float, list[float], list[float], dict[tuple[int, int], float]]:
        """As ListSchedule.latency does it: ports outwards, then inwards."""
        schedule, kinds = self.schedule, self.schedule.kinds
        free, ports = free[:], ports[:]
        ready = free[gpu]
        copied = False
        for value in schedule.reads[node]:
            writer = schedule.producer[value]
            source = self.place[self.of[writer]]
            if source == gpu:
                continue
            key = (value, gpu)
            if key not in there:
                if not copied:
                    there, copied = dict(there), True
                messages, stream = schedule.messages[value], schedule.stream_ns[source][gpu]
                busy = max(end[writer], ports[source], ports[kinds + gpu]) + messages * schedule.message_ns[source][gpu]
                busy += schedule.bytes[value] * schedule.ns_per_byte[source][gpu]
                ports[source] = ports[kinds + gpu] = busy
                there[key] = busy + schedule.latency_ns[source][gpu]
                free[source] += messages * stream
                ready += messages * stream
            ready = max(ready, there[key])
        ready += schedule.ns[node][gpu]
        free[gpu] = ready
        return ready, free, ports, there


class _Soonest(Placer):
    """Depth first in the order of the program."""

    def __init__(self, given: Problem, schedule: ListSchedule, net: Net, scale: Scales, best: float) -> None:
        super().__init__(schedule, net.of.tolist(), [-1] * net.nodes)
        self.given, self.best = given, best
        self.steps = 0
        self.found: list[int] | None = None
        self.memory = _Memory(net, scale)
        self.allowed: list[list[bool]] = net.allowed.tolist()
        least = np.where(given.allowed, given.ns, np.inf).min(axis=1)
        tail = np.zeros(given.nodes)
        writer = given.values.producer[given.values.consumers.owners()]
        for reader, source in sorted(
            zip(given.values.consumers.members.tolist(), writer.tolist(), strict=True), reverse=True
        ):
            if source < reader:
                tail[source] = max(tail[source], tail[reader] + least[reader])
        self.tail: list[float] = tail.tolist()
        self.rest: list[float] = np.concatenate([np.cumsum(least[::-1])[::-1], [0.0]]).tolist()
        self.last = given.nodes

    def search(
        self, node: int, free: list[float], ports: list[float], end: list[float], there: dict[tuple[int, int], float]
    ) -> None:
        longest = max(end) if end else 0.0
        if node == self.last:
            if longest < self.best * (1 - 1e-9):
                self.best, self.found = longest, [self.place[each] for each in self.of]
            return
        group = self.of[node]
        known = self.place[group]
        some = []
        for kind in range(self.schedule.kinds) if known < 0 else (known,):
            if known < 0 and not self.allowed[group][kind]:
                continue
            some.append((*self.placed(node, kind, free, ports, end, there), kind))
        some.sort(key=lambda each: (each[0], each[4]))
        limit = self.best * (1 - 1e-9)
        for finish, next_free, next_ports, next_there, kind in some:
            self.steps += 1
            if self.steps > LATENCY_STEPS:
                return
            # A GPU that sends after its last node is busy for longer than the request takes.
            last = max(longest, finish)
            work = (sum(min(each, last) for each in next_free) + self.rest[node + 1]) / self.schedule.kinds
            if max(longest, finish + self.tail[node], work) >= limit:
                continue
            fits = known >= 0 or self.memory.put(group, kind)
            if known < 0:
                self.place[group] = kind
            if fits:
                self.search(node + 1, next_free, next_ports, [*end, finish], next_there)
            if known < 0:
                self.place[group] = -1
                self.memory.take(group, kind)


def soonest(given: Problem, schedule: ListSchedule, net: Net, scale: Scales, best: float) -> Exact:
    """A placement (of the problem's nodes) with less latency than `best`, the least if the search is complete."""
    if given.nodes > MOST_NODES:
        return Exact(None, best, False)
    run = _Soonest(given, schedule, net, scale, best)
    run.search(0, [0.0] * schedule.kinds, [0.0] * 2 * schedule.kinds, [], {})
    found = None if run.found is None else np.array(run.found, dtype=np.int64)
    return Exact(found, run.best, run.steps <= LATENCY_STEPS)
