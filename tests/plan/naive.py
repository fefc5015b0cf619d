"""What placements use and take, computed one node at a time; and the best of all placements."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np

from controlplane.plan.candidate import Mixed
from controlplane.plan.list_schedule import ListSchedule
from controlplane.plan.net import tied
from controlplane.plan.problem import Ints, Problem, Residents, sets

NOTHING = Residents(np.zeros(0), sets([]))


def rows(given: Problem, kind: Ints) -> tuple[list[float], list[float]]:
    """Busy time of one GPU of each kind and its ports out and in; and memory."""
    kinds = range(len(given.kinds))
    busy, out, into = ([0.0 for _ in kinds] for _ in range(3))
    counts = [each.count for each in given.kinds]
    for node, at in enumerate(kind.tolist()):
        busy[at] += given.ns[node, at] / counts[at]
    links, values = given.links, given.values
    for value in range(len(values.bytes)):
        source = int(kind[values.producer[value]])
        first, end = values.consumers.start[value : value + 2]
        for to in {int(kind[reader]) for reader in values.consumers.members[first:end]} - {source}:
            at = source, to
            ns = values.bytes[value] * links.ns_per_byte[at] + values.messages[value] * links.message_ns[at]
            out[source] += ns / counts[source]
            into[to] += ns / counts[to]
            for side in at:
                busy[side] += values.messages[value] * links.stream_ns[at] / counts[side]
    return [*busy, *out, *into], memory_of(given, kind)


def memory_of(given: Problem, kind: Ints) -> list[float]:
    """Bytes on one GPU of each kind."""
    memory = [0.0 for _ in given.kinds]
    counts = [each.count for each in given.kinds]
    for resident, size in enumerate(given.residents.bytes):
        first, end = given.residents.users.start[resident : resident + 2]
        for at in {int(kind[user]) for user in given.residents.users.members[first:end]}:
            memory[at] += size
    for node, at in enumerate(kind.tolist()):
        memory[at] += given.state_bytes[node] * -(-given.requests // counts[at])
    for at in set(kind.tolist()):
        memory[at] += given.own_bytes * -(-given.requests // counts[at])
    return memory


def mixture_memory(given: Problem, mixture: Mixed) -> list[float]:
    """What requests share is there once; what each has for itself, for as many as have a placement."""
    memory = [0.0 for _ in given.kinds]
    for resident, size in enumerate(given.residents.bytes):
        first, end = given.residents.users.start[resident : resident + 2]
        users = given.residents.users.members[first:end]
        for at in {int(kind[user]) for _, kind in mixture for user in users}:
            memory[at] += size
    for weight, kind in mixture:
        requests = max(math.ceil(weight * given.requests * (1 - 1e-9)), 1)
        states = memory_of(replace(given, residents=NOTHING, own_bytes=0.0, requests=requests), kind)
        memory = [one + more for one, more in zip(memory, states, strict=True)]
    for at in {int(each) for _, kind in mixture for each in kind}:
        memory[at] += given.own_bytes * -(-given.requests // given.kinds[at].count)
    return memory


def best(given: Problem, *, latency: bool) -> float:
    """The shortest period, or latency, of all placements that fit; infinite if none does."""
    net, schedule = tied(given), ListSchedule(given)
    least = float("inf")
    room = [kind.memory_bytes * (1 + 1e-9) for kind in given.kinds]
    for places in product(*(np.flatnonzero(row).tolist() for row in net.allowed)):
        kind = np.array(places)[net.of]
        value = schedule.latency(kind, least) if latency else max(rows(given, kind)[0])
        if value < least and all(need <= there for need, there in zip(memory_of(given, kind), room, strict=True)):
            least = value
    return least
