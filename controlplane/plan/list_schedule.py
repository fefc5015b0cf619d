"""How long one request takes: its nodes one after another on each GPU, in the order of the program.

A value is pulled when the first node on a GPU that lacks it is reached; a port carries one message at a time, in that
order. Transfers overlap with work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controlplane.plan.problem import Ints, Problem


class ListSchedule:
    """A problem as lists, for many placements."""

    def __init__(self, given: Problem) -> None:
        self.given = given
        self.kinds = len(given.kinds)
        values, links = given.values, given.links
        self.ns: list[list[float]] = given.ns.tolist()
        self.ns_per_byte: list[list[float]] = links.ns_per_byte.tolist()
        self.message_ns: list[list[float]] = links.message_ns.tolist()
        self.latency_ns: list[list[float]] = links.latency_ns.tolist()
        self.stream_ns: list[list[float]] = links.stream_ns.tolist()
        self.bytes: list[float] = values.bytes.tolist()
        self.messages: list[float] = values.messages.tolist()
        self.producer: list[int] = values.producer.tolist()
        self.reads: list[list[int]] = [[] for _ in range(given.nodes)]
        for owner, member in zip(values.consumers.owners().tolist(), values.consumers.members.tolist(), strict=True):
            if self.producer[owner] < member:
                self.reads[member].append(owner)

    def latency(self, kind: Sequence[int] | Ints, most: float = float("inf")) -> float:
        """Of a placement; any number above `most` if it is longer than that."""
        kinds = self.kinds
        where: list[int] = kind.tolist() if isinstance(kind, np.ndarray) else list(kind)
        free, out, into = [0.0] * kinds, [0.0] * kinds, [0.0] * kinds
        end = [0.0] * len(where)
        there: dict[tuple[int, int], float] = {}
        producer, longest = self.producer, 0.0
        for node, gpu in enumerate(where):
            ready = free[gpu]
            for value in self.reads[node]:
                writer = producer[value]
                source = where[writer]
                if source == gpu:
                    continue
                key = (value, gpu)
                if key not in there:
                    messages, stream = self.messages[value], self.stream_ns[source][gpu]
                    start = max(end[writer], out[source], into[gpu])
                    busy = start + messages * self.message_ns[source][gpu]
                    busy += self.bytes[value] * self.ns_per_byte[source][gpu]
                    out[source] = into[gpu] = busy
                    there[key] = busy + self.latency_ns[source][gpu]
                    free[source] += messages * stream
                    ready += messages * stream
                if there[key] > ready:
                    ready = there[key]
            ready += self.ns[node][gpu]
            end[node] = free[gpu] = ready
            if ready > longest:
                longest = ready
                if longest > most:
                    return longest
        return longest


def critical_path(schedule: ListSchedule) -> float:
    """No placement is faster: along every chain of values, each node on the GPU that suits the chain best."""
    given = schedule.given
    kinds = range(schedule.kinds)
    allowed = given.allowed.tolist()
    cost = [[0.0] * schedule.kinds for _ in range(given.nodes)]
    work = np.where(given.allowed, given.ns, np.inf).min(axis=1).sum() / given.counts.sum()
    best = float(work)
    for node in range(given.nodes):
        soonest = [0.0] * schedule.kinds
        for value in schedule.reads[node]:
            before = cost[schedule.producer[value]]
            for gpu in kinds:
                there = min(
                    before[source]
                    + (
                        0.0
                        if source == gpu
                        else schedule.messages[value] * schedule.message_ns[source][gpu]
                        + schedule.bytes[value] * schedule.ns_per_byte[source][gpu]
                        + schedule.latency_ns[source][gpu]
                    )
                    for source in kinds
                )
                soonest[gpu] = max(soonest[gpu], there)
        row = [soonest[gpu] + schedule.ns[node][gpu] if allowed[node][gpu] else float("inf") for gpu in kinds]
        cost[node] = row
        best = max(best, min(row))
    return best
