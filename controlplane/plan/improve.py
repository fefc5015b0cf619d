"""Small steps that make one placement's period shorter: one node elsewhere, or two at a time."""

from __future__ import annotations

import numpy as np

from controlplane.plan.net import Net
from controlplane.plan.problem import Floats, Ints
from controlplane.plan.splice import worth
from controlplane.plan.uses import Scales, Uses, fits, uses

MOST_NUMBERS = 600_000  # of one table of what each step changes
STEPS = 80
WORK = 150_000  # nodes, times steps
PAIRED = 48  # of the most promising steps, each pair of them
POWER = 64.0  # a sum of so high powers is nearly the largest, but falls when any of the large ones does


def can_improve(net: Net, scale: Scales) -> bool:
    return max(net.nodes, len(net.values.producer)) * scale.kinds**2 * scale.rows <= MOST_NUMBERS


def improve(net: Net, scale: Scales, kind: Ints, depth: float | None = None, steps: int = STEPS) -> tuple[Ints, Uses]:
    """A placement that is as good at least, and fits in memory if the given one does."""
    use = uses(net, scale, kind)
    if not can_improve(net, scale):
        return kind, use
    tables = _Tables(net, scale)
    best, least = (kind, use), float(worth(use.rows, depth))
    for _ in range(min(steps, WORK // net.nodes)):
        rows, memory = tables.changes(kind)
        chosen = _one(net, scale, use, rows, memory, depth) or _two(net, scale, kind, use, rows, depth)
        if chosen is None:
            break
        kind = kind.copy()
        for node, to in chosen:
            kind[node] = to
        use = uses(net, scale, kind)
        value = float(worth(use.rows, depth))
        if value < least:
            best, least = (kind, use), value
    return best


def single_steps(net: Net, scale: Scales, kind: Ints) -> tuple[Floats, Floats]:
    """[node, kind, row] and [node, kind, kind of memory]: what a node's going there adds to what is used."""
    return _Tables(net, scale).changes(kind)


def _smooth(rows: Floats, depth: float | None) -> Floats:
    value = rows[..., :-1] if depth is None else np.concatenate([rows[..., :-1], rows[..., -1:] / depth], axis=-1)
    value = np.maximum(value, 0.0)  # sums and differences of what is nothing may be less
    top = value.max(axis=-1)
    ratio = value / np.maximum(top, 1e-12)[..., None]
    return np.asarray(top * (ratio**POWER).sum(axis=-1) ** (1 / POWER))


def _one(
    net: Net, scale: Scales, use: Uses, rows: Floats, memory: Floats, depth: float | None
) -> list[tuple[int, int]] | None:
    value = _smooth(use.rows + rows, depth)
    value[~net.allowed | (use.memory + memory > scale.room).any(axis=2)] = np.inf
    best = int(np.argmin(value))
    if value.flat[best] < float(_smooth(use.rows, depth)) * (1 - 1e-7):
        return [(best // scale.kinds, best % scale.kinds)]
    return None


def _two(
    net: Net, scale: Scales, kind: Ints, use: Uses, rows: Floats, depth: float | None
) -> list[tuple[int, int]] | None:
    """Pairs are judged as if they had nothing to do with each other; the best of them, as they are."""
    value = _smooth(use.rows + rows, depth)
    value[~net.allowed | (np.arange(scale.kinds) == kind[:, None])] = np.inf
    finite = np.flatnonzero(np.isfinite(value))
    some = finite[np.argsort(value.flat[finite], kind="stable")[: 4 * PAIRED]]
    change = rows.reshape(-1, scale.rows)[some]
    gain = change[:, int(np.argmax(use.rows[:-1]))]
    kept = np.unique(np.concatenate([np.arange(min(PAIRED, len(some))), np.argsort(gain, kind="stable")[:PAIRED]]))
    some, change = some[kept], change[kept]
    pairs = _smooth(use.rows + change[:, None] + change[None, :], depth)
    before = float(worth(use.rows, depth))
    for best in np.argsort(pairs, axis=None, kind="stable")[:12].tolist():
        first, second = some[best // len(some)], some[best % len(some)]
        if first // scale.kinds == second // scale.kinds:
            continue
        steps = [(int(each) // scale.kinds, int(each) % scale.kinds) for each in (first, second)]
        new = kind.copy()
        for node, to in steps:
            new[node] = to
        found = uses(net, scale, new)
        if fits(scale, found.memory) and float(worth(found.rows, depth)) < before * (1 - 1e-6):
            return steps
    return None


class _Tables:
    """What does not depend on the placement."""

    def __init__(self, net: Net, scale: Scales) -> None:
        self.net, self.scale = net, scale
        values = net.values
        self.cost = values.bytes[:, None, None, None] * scale.ns_per_byte.transpose(1, 2, 0) + values.messages[
            :, None, None, None
        ] * scale.ns_per_message.transpose(1, 2, 0)
        self.owner, self.user = values.consumers.owners(), net.residents.users.owners()

    def changes(self, kind: Ints) -> tuple[Floats, Floats]:
        """[node, kind, row] and [node, kind, kind of memory]: what a node's going there adds."""
        net, scale, kinds = self.net, self.scale, self.scale.kinds
        every = np.arange(net.nodes)
        rows = np.zeros((net.nodes, kinds, scale.rows))
        for to in range(kinds):
            rows[:, to, to] += net.ns[:, to] / scale.counts[to]
        rows[..., -1] += net.ns
        rows -= rows[every, kind][:, None, :]
        self.traffic(kind, rows)
        memory = np.zeros((net.nodes, kinds, kinds))
        for to in range(kinds):
            memory[:, to, to] += net.state_bytes * scale.states[to]
        self.residents(kind, memory)
        memory -= memory[every, kind][:, None, :]
        return rows, memory

    def traffic(self, kind: Ints, rows: Floats) -> None:
        net, kinds = self.net, self.scale.kinds
        values, member = net.values, net.values.consumers.members
        count = np.zeros((len(values.producer), kinds), dtype=np.int64)
        np.add.at(count, (self.owner, kind[member]), 1)
        home, now = kind[values.producer], kind[member]
        source = home[self.owner]
        alone = (count[self.owner, now] == 1) & (now != source)
        taken = np.where(alone[:, None], -self.cost[self.owner, source, now], 0.0)
        for to in range(kinds):
            added = (count[self.owner, to] == 0) & (to != source)
            change = taken + np.where(added[:, None], self.cost[self.owner, source, to], 0.0)
            change[now == to] = 0.0
            np.add.at(rows[:, to], member, change)
        used = (count > 0).astype(np.float64)
        total = np.einsum("vghr,vh->vgr", self.cost, used)  # the cost from g to itself is 0
        np.add.at(rows, values.producer, total - total[np.arange(len(home)), home][:, None, :])

    def residents(self, kind: Ints, memory: Floats) -> None:
        """Memory that a node needs for itself alone, there."""
        users, kinds = self.net.residents.users, self.scale.kinds
        if not len(users.members):
            return
        count = np.zeros((len(users), kinds), dtype=np.int64)
        np.add.at(count, (self.user, kind[users.members]), 1)
        now = kind[users.members]
        for to in range(kinds):
            others = count[self.user, to] - (now == to)
            need = np.where(others == 0, self.net.residents.bytes[self.user], 0.0)
            np.add.at(memory[:, to, to], users.members, need)
