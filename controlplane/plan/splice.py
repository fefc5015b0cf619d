"""One placement made of several: the first nodes as in one, those after as in another, cut where it is best.

A mixture's period needs requests of several placements in turn. One placement for all requests comes close to it, since
programs are long: each point of the program where the placements could change is judged exactly, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np

from controlplane.plan.net import Net
from controlplane.plan.problem import Floats, Ints, Sets
from controlplane.plan.uses import Scales, Uses, fits, uses

MOST_ORDERS = 24
MOST_JUDGED = 800_000  # cuts that are judged, by orders of the parts and kinds of GPUs
ROUNDS = 4
OVERFULL = 1e200  # more than any period: what fits is always better


@dataclass(frozen=True, slots=True, eq=False)
class _States:
    """Sets of nodes, each with one state more than members: after none of them, the first, ..., all (in the order of
    the program). at: the place of the program from which a state holds; owner: its set; member: of each but the first.
    """

    owner: Ints
    at: Ints
    first: Ints  # of each set, its first state
    place: Ints  # of each member (as given), the state before it


def _states(owner: Ints, member: Ints, count: int) -> tuple[_States, Ints]:
    order = np.lexsort((member, owner))
    sizes = np.bincount(owner, minlength=count)
    begins = np.concatenate([[0], np.cumsum(sizes)])
    first = begins[:-1] + np.arange(count)
    total = len(owner) + count
    at = np.zeros(total, dtype=np.int64)
    state = np.arange(len(owner)) + owner[order]
    at[state + 1] = member[order] + 1
    place = np.empty(len(owner), dtype=np.int64)
    place[order] = state
    return _States(np.repeat(np.arange(count), sizes + 1), at, first, place), order


class Splicer:
    """Of one net: what all splices of two placements use."""

    def __init__(self, net: Net, scale: Scales) -> None:
        self.net, self.scale = net, scale
        values, residents = net.values, net.residents
        count = len(values.producer)
        readers = values.consumers
        owner = np.concatenate([readers.owners(), np.arange(count)])
        member = np.concatenate([readers.members, values.producer])
        self.values, _ = _states(owner, member, count)
        self.reads = self.values.place[: len(readers.members)]
        self.writes = self.values.place[len(readers.members) :]
        self.users, _ = _states(residents.users.owners(), residents.users.members, len(residents.bytes))

    def rows(self, first: Ints, second: Ints) -> tuple[Floats, Floats]:
        """[cut, row] and memory [cut, kind] of placements that are `first` up to the cut and `second` from there."""
        net, scale = self.net, self.scale
        kinds, nodes = scale.kinds, net.nodes
        rows = np.zeros((nodes + 1, scale.rows))
        memory = np.zeros((nodes + 1, kinds))
        every = np.arange(nodes)
        for kind in range(kinds):
            gain = net.ns[:, kind] * ((first == kind).astype(np.float64) - (second == kind))
            load = np.where(second == kind, net.ns[:, kind], 0.0).sum()
            rows[:, kind] = (load + _after(gain)) / scale.counts[kind]
            kept = net.state_bytes * ((first == kind).astype(np.float64) - (second == kind)) * scale.states[kind]
            memory[:, kind] = (net.state_bytes * (second == kind)).sum() * scale.states[kind] + _after(kept)
        taken = net.ns[every, first] - net.ns[every, second]
        rows[:, -1] = net.ns[every, second].sum() + _after(taken)
        self._traffic(first, second, rows)
        for kind in range(kinds):
            needed = _needed(self.users, self.users.place, self.net.residents.users, first == kind, second == kind)
            memory[:, kind] += _over(self.users, needed * net.residents.bytes[self.users.owner], nodes)
        return rows, memory

    def _traffic(self, first: Ints, second: Ints, rows: Floats) -> None:
        net, scale, states = self.net, self.scale, self.values
        producer = net.values.producer
        passed = np.arange(len(states.at)) > self.writes[states.owner]
        writer = np.where(passed, first[producer][states.owner], second[producer][states.owner])
        bytes_, messages = net.values.bytes[states.owner], net.values.messages[states.owner]
        for to in range(scale.kinds):
            needed = _needed(states, self.reads, net.values.consumers, first == to, second == to)
            sent = np.flatnonzero(needed & (writer != to))
            for source in np.unique(writer[sent]).tolist():
                here = sent[writer[sent] == source]
                both = _changes(states, here, (bytes_, messages), net.nodes)
                costs = scale.ns_per_byte[:, source, to], scale.ns_per_message[:, source, to]
                for amount, cost in zip(both, costs, strict=True):
                    for row in np.flatnonzero(cost).tolist():
                        rows[:, row] += cost[row] * amount


def _after(gain: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(gain)])


def _needed(states: _States, place: Ints, given: Sets, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """By state: whether a member before the cut has `first`, or one after it `second`."""
    before = np.zeros(len(states.at) + 1, dtype=np.int64)
    after = np.zeros(len(states.at) + 1, dtype=np.int64)
    before[place + 1] = first[given.members]
    after[place] = second[given.members]
    before, after = np.cumsum(before[:-1]), np.cumsum(after[:-1])
    begins = states.first[states.owner]
    ends = np.concatenate([states.first[1:], [len(states.at)]])[states.owner] - 1 if len(states.first) else begins
    some = before - before[begins] > 0
    start = np.where(begins > 0, after[begins - 1], 0)
    earlier = np.where(np.arange(len(states.at)) > begins, after[np.arange(len(states.at)) - 1], start)
    return np.asarray(some | (after[ends] - earlier > 0))


def _over(states: _States, amount: Floats, nodes: int) -> Floats:
    """The sum over all sets, by cut: each set has the amount of the state that holds there."""
    step = amount.copy()
    step[1:] -= amount[:-1]
    step[states.first] = amount[states.first]
    at = states.at
    return np.cumsum(np.bincount(at, step, nodes + 1))


def _changes(states: _States, here: Ints, amounts: Sequence[Floats], nodes: int) -> list[Floats]:
    """As _over, of amounts that are there only in some states: only what changes from state to state is added."""
    there = np.zeros(len(states.at) + 1, dtype=np.bool_)
    there[here] = True
    last = np.zeros(len(states.at) + 1, dtype=np.bool_)
    last[states.first] = True  # a state of another set comes before it
    last[-1] = True
    begin = here[~there[here - 1] | last[here] | (here == 0)]
    end = here[(~there[here + 1]) & ~last[here + 1]] + 1
    return [
        np.cumsum(
            np.bincount(states.at[begin], amount[begin], nodes + 1)
            - np.bincount(states.at[end], amount[end - 1], nodes + 1)
        )
        for amount in amounts
    ]


def splice(
    net: Net, scale: Scales, parts: Sequence[tuple[float, Ints]], depth: float | None = None
) -> tuple[Ints, Uses] | None:
    """The best placement found that is made of the parts of a mixture; None if none fits in memory."""
    splicer = Splicer(net, scale)
    best: tuple[float, Ints] | None = None
    work = np.cumsum(net.ns.min(axis=1))
    most = MOST_JUDGED // (net.nodes * max(len(parts) - 1, 1) * scale.kinds**2)
    orders = list(islice(permutations(range(len(parts))), min(max(most, 2), MOST_ORDERS)))
    for order in orders:
        made = _blocks(splicer, [parts[each] for each in order], work, depth)
        if made is not None and (best is None or made[0] < best[0]):
            best = made
    if best is None:
        return None
    return best[1], uses(net, scale, best[1])


def crossed(
    net: Net, scale: Scales, kind: Ints, others: Sequence[Ints], depth: float | None, enough: float
) -> tuple[Ints, Uses]:
    """Better, if it can be, by taking the beginning or the end of one of the others, until that is good enough."""
    splicer = Splicer(net, scale)
    best = float(worth(uses(net, scale, kind).rows, depth))
    for _ in range(ROUNDS):
        before = best
        for other in others:
            for first, second in ((kind, other), (other, kind)):
                rows, memory = splicer.rows(first, second)
                value = _judged(scale, rows, memory, depth)
                cut = int(np.argmin(value))
                if value[cut] < best * (1 - 1e-9):
                    best, kind = float(value[cut]), np.concatenate([first[:cut], second[cut:]])
            if best <= enough:
                return kind, uses(net, scale, kind)
        if best >= before * (1 - 1e-6):
            break
    return kind, uses(net, scale, kind)


def worth(rows: Floats, depth: float | None) -> Floats:
    """The period of each [.., row]: with so many periods for one request."""
    period = rows[..., :-1].max(axis=-1)
    return np.asarray(period if depth is None else np.maximum(period, rows[..., -1] / depth))


def _blocks(
    splicer: Splicer, parts: Sequence[tuple[float, Ints]], work: Floats, depth: float | None
) -> tuple[float, Ints] | None:
    """The parts one after another, each as long as its weight says, and then every boundary where it is best."""
    scale, nodes = splicer.scale, splicer.net.nodes
    weights = np.array([weight for weight, _ in parts])
    cuts = np.searchsorted(work, np.cumsum(weights)[:-1] / weights.sum() * work[-1]).tolist()
    cuts = [0, *cuts, nodes]
    kind = _assemble(parts, cuts)
    best = np.inf
    for _ in range(ROUNDS):
        before = best
        for boundary in range(1, len(parts)):
            low, high = cuts[boundary - 1], cuts[boundary + 1]
            first, second = kind.copy(), kind.copy()
            first[low:high], second[low:high] = parts[boundary - 1][1][low:high], parts[boundary][1][low:high]
            rows, memory = splicer.rows(first, second)
            value = _judged(scale, rows, memory, depth)
            cut = low + int(np.argmin(value[low : high + 1]))
            if value[cut] < best:
                best, cuts[boundary] = float(value[cut]), cut
                kind = _assemble(parts, cuts)
        if len(parts) < 3 or best >= before * (1 - 1e-6):
            break
    use = uses(splicer.net, scale, kind)
    return (float(worth(use.rows, depth)), kind) if fits(scale, use.memory) else None


def _judged(scale: Scales, rows: Floats, memory: Floats, depth: float | None) -> Floats:
    """Of each [cut, row]: its period; where it does not fit, more than any, by how much memory is not there."""
    share = memory / np.maximum(scale.capacity, 1.0) - 1.0
    beyond = np.where(memory > scale.room, np.maximum(share, 1e-9), 0.0).sum(axis=1)
    return np.where(beyond > 0, OVERFULL * (1 + beyond), worth(rows, depth))


def _assemble(parts: Sequence[tuple[float, Ints]], cuts: Sequence[int]) -> Ints:
    return np.concatenate([part[1][low:high] for part, low, high in zip(parts, cuts[:-1], cuts[1:], strict=True)])
