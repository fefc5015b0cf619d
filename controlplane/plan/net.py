"""A problem with nodes joined: those that have to be together, or those that are alike in every layer.

Joining keeps sums: times, bytes, messages. What passes within a joined node is no transfer any more, and values with
the same writer and readers become one. Nodes keep the order of their first members.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlplane.plan.problem import Flags, Floats, Ints, Problem, Residents, Sets, Values, summed


@dataclass(frozen=True, slots=True, eq=False)
class Net:
    """of: for each node of what was joined, the joined one; values_of, residents_of: the same for those, -1 where
    nothing is left. The other fields are as in Problem.
    """

    of: Ints
    ns: Floats
    label: Ints
    allowed: Flags
    state_bytes: Floats
    values: Values
    residents: Residents
    values_of: Ints
    residents_of: Ints

    @property
    def nodes(self) -> int:
        return len(self.ns)

    @property
    def kinds(self) -> int:
        return int(self.ns.shape[1])


def tied(given: Problem) -> Net:
    """Nodes that have to be on one GPU as one node."""
    plain = Net(
        np.arange(given.nodes),
        given.ns,
        given.label,
        given.allowed,
        given.state_bytes,
        given.values,
        given.residents,
        np.arange(len(given.values.bytes)),
        np.arange(len(given.residents.bytes)),
    )
    return join(plain, given.tie)


def join(net: Net, key: Ints) -> Net:
    """Nodes of one key become one."""
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    of = place[inverse].astype(np.int64)
    nodes = len(first)
    values, values_of = _values(net.values, of, nodes)
    residents, residents_of = _residents(net.residents, of, nodes)
    if nodes == net.nodes:
        return Net(of, net.ns, net.label, net.allowed, net.state_bytes, values, residents, values_of, residents_of)
    ns = np.stack([summed(of, column, nodes) for column in np.where(net.allowed, net.ns, 0.0).T], axis=1)
    never = np.stack([summed(of, column, nodes) for column in (~net.allowed).T.astype(np.float64)], axis=1)
    label = np.zeros(nodes, dtype=np.int64)
    label[of[::-1]] = net.label[::-1]
    state = summed(of, net.state_bytes, nodes)
    return Net(of, ns, label, never == 0, state, values, residents, values_of, residents_of)


def _members(given: Sets, of: Ints, nodes: int) -> tuple[Ints, Ints]:
    """(set, joined member) without repetition, in order."""
    pairs = np.unique(given.owners() * nodes + of[given.members])
    return pairs // nodes, pairs % nodes


def _values(given: Values, of: Ints, nodes: int) -> tuple[Values, Ints]:
    producer = of[given.producer]
    owner, reader = _members(given.consumers, of, nodes)
    outside = reader != producer[owner]
    owner, reader = owner[outside], reader[outside]
    return _alike(producer, given.bytes, given.messages, owner, reader, nodes)


def _residents(given: Residents, of: Ints, nodes: int) -> tuple[Residents, Ints]:
    owner, user = _members(given.users, of, nodes)
    nobody = np.full(len(given.bytes), -1, dtype=np.int64)
    merged, place = _alike(nobody, given.bytes, np.zeros(len(nobody)), owner, user, nodes)
    return Residents(merged.bytes, merged.consumers), place


def _alike(
    producer: Ints, bytes_: Floats, messages: Floats, owner: Ints, member: Ints, nodes: int
) -> tuple[Values, Ints]:
    """Values whose members lie together, those with equal writer and members as one, those without members left out;
    and what became of each.
    """
    count = len(producer)
    sizes = np.bincount(owner, minlength=count)
    kept = np.flatnonzero(sizes)
    key = _key(producer, owner, member, count, nodes)[kept]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    chosen = kept[first]
    order = np.argsort(chosen, kind="stable")
    chosen, place = chosen[order], np.argsort(order, kind="stable")[inverse]
    length = sizes[chosen]
    start = np.concatenate([[0], np.cumsum(length)])
    at = np.repeat(starts[chosen] - start[:-1], length) + np.arange(start[-1])
    became = np.full(count, -1, dtype=np.int64)
    became[kept] = place
    values = Values(
        producer[chosen],
        summed(place, bytes_[kept], len(chosen)),
        summed(place, messages[kept], len(chosen)),
        Sets(start.astype(np.int64), member[at]),
    )
    return values, became


def _key(producer: Ints, owner: Ints, member: Ints, count: int, nodes: int) -> Ints:
    """Equal for values with the same writer and members: a sum of numbers drawn for each node, always the same."""
    drawn = np.random.default_rng(20).integers(0, 2**63, size=(2, nodes + 1), dtype=np.uint64)
    key = drawn[0][producer] * np.uint64(0x9E3779B97F4A7C15)
    starts = np.searchsorted(owner, np.arange(count + 1))
    total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(drawn[1][member], dtype=np.uint64)])
    return np.asarray((key + total[starts[1:]] - total[starts[:-1]]).view(np.int64))
