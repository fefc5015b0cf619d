"""What prices prove: a bound on the period of all mixtures of placements, whatever the prices are.

Prices of time, links and memory are those of a linear program (controlplane/plan/relax.py). Further prices say what it
is worth to a reader that a value is on its GPU: the writer is paid for it. At any such prices, what every node costs at
least, summed up, is no more than what any placement costs. Prices that were found for one layer are divided among all
layers, and then made better, step by step: at a node whose value is wanted where it is not, the price goes up.
"""

from __future__ import annotations

import numpy as np

from controlplane.plan.net import Net
from controlplane.plan.problem import Floats, Ints, summed
from controlplane.plan.relax import Relaxed
from controlplane.plan.uses import Scales

WORK = 2e7  # prices that are looked at while they are made better
MOST_ROUNDS = 300
PATIENCE = 12  # rounds without a better bound, before steps become smaller
CLOSE = 3e-4


def certify(net: Net, scale: Scales, joined: Net, found: Relaxed, period: float = np.inf) -> float:
    """A bound, from the prices of what `net` was joined to. period: of a mixture that is known."""
    rows = np.maximum(found.prices.rows, 0.0)
    total = float(rows[:-1].sum())
    if total <= 0:
        return 0.0
    prices = _Prices(net, scale, joined, found, rows)
    edges = len(prices.reader) * net.kinds
    rounds = int(min(MOST_ROUNDS, WORK / max(edges, 1))) if np.isfinite(period) else 0
    return prices.best(rounds, period * total) / total


class _Prices:
    """base: [node, kind], what a node costs there but for values; paid: [value, from, to], what sending it does."""

    def __init__(self, net: Net, scale: Scales, joined: Net, found: Relaxed, rows: Floats) -> None:
        self.net, kinds = net, scale.kinds
        memory = found.prices.memory
        base = np.where(net.allowed, net.ns, 0.0) * (rows[:kinds] / scale.counts + rows[-1])
        base = base + np.outer(net.state_bytes, memory * scale.states) + _of_memory(net, joined, found, memory)
        self.base: Floats = np.where(net.allowed, base, np.inf)
        self.room = float(memory @ scale.capacity)
        values = net.values
        self.owner, self.reader, self.writer = values.consumers.owners(), values.consumers.members, values.producer
        per_byte = np.einsum("r,rgh->gh", rows, scale.ns_per_byte)
        per_message = np.einsum("r,rgh->gh", rows, scale.ns_per_message)
        self.paid = values.bytes[:, None, None] * per_byte + values.messages[:, None, None] * per_message
        self.first = _lifted(
            self.owner,
            self.reader,
            joined.values_of,
            joined.of,
            (joined.values.consumers.owners(), joined.values.consumers.members),
            found.of_readers,
            _share(values.bytes + values.messages * 1e-3, joined.values_of, len(joined.values.bytes)),
            joined.nodes,
        )

    def best(self, rounds: int, target: float) -> float:
        """Steps as Polyak's: as long as they would have to be if the target were reached."""
        price, stretch, waited = self.first, 1.0, 0
        least, slope = self.at(price)
        best, best_price = least, price
        for _ in range(rounds):
            size = float((slope**2).sum())
            if size <= 0 or best >= target * (1 - CLOSE):
                break
            price = np.maximum(price + slope * (stretch * (target - least) / size), 0.0)
            least, slope = self.at(price)
            waited += 1
            if least > best:
                waited = 0 if least > best + 1e-5 * abs(best) else waited
                best, best_price = least, price
            if waited > PATIENCE:
                stretch, waited, price = stretch / 2, 0, best_price
                least, slope = self.at(price)
        return best

    def at(self, price: Floats) -> tuple[float, Floats]:
        """The bound, and how it changes with each price."""
        kinds, nodes = self.net.kinds, self.net.nodes
        cost = self.base.copy()
        total = np.stack([summed(self.owner, price[:, to], len(self.writer)) for to in range(kinds)], axis=1)
        more = np.maximum(total[:, None, :] - self.paid, 0.0)
        more[:, np.arange(kinds), np.arange(kinds)] = 0.0
        out = total + more.sum(axis=2)
        for kind in range(kinds):
            cost[:, kind] += summed(self.reader, price[:, kind], nodes) - summed(self.writer, out[:, kind], nodes)
        chosen = np.argmin(cost, axis=1)
        every = np.arange(nodes)
        source = chosen[self.writer]
        given = more[np.arange(len(source)), source] > 0
        given[np.arange(len(source)), source] = True
        slope = -given[self.owner].astype(np.float64)
        slope[np.arange(len(slope)), chosen[self.reader]] += 1.0
        return float(cost[every, chosen].sum()) - self.room, slope


def _of_memory(net: Net, joined: Net, found: Relaxed, memory: Floats) -> Floats:
    """What memory costs, put on its users: in all no more than its price."""
    users = net.residents.users
    owner, kinds = users.owners(), net.kinds
    cost = np.zeros((net.nodes, kinds))
    if not len(users.members):
        return cost
    price = _lifted(
        owner,
        users.members,
        joined.residents_of,
        joined.of,
        (joined.residents.users.owners(), joined.residents.users.members),
        found.of_users,
        _share(net.residents.bytes, joined.residents_of, len(joined.residents.bytes)),
        joined.nodes,
    )
    total = np.zeros((len(net.residents.bytes), kinds))
    np.add.at(total, owner, price)
    most = np.outer(net.residents.bytes, memory)
    scale = np.where(total > most, most / np.maximum(total, 1e-300), 1.0)
    np.add.at(cost, users.members, price * scale[owner])
    return cost


def _share(bytes_: Floats, of: Ints, joined: int) -> Floats:
    """Which part of the joined one each is."""
    kept = of >= 0
    total = np.bincount(of[kept], bytes_[kept], joined)
    share = np.zeros(len(bytes_))
    share[kept] = bytes_[kept] / np.maximum(total[of[kept]], 1e-300)
    return share


def _lifted(
    owner: Ints,
    member: Ints,
    sets_of: Ints,
    nodes_of: Ints,
    pairs: tuple[Ints, Ints],
    price: Floats,
    share: Floats,
    nodes: int,
) -> Floats:
    """[member of a set, kind]: prices of the joined members, divided among those that were joined."""
    key = pairs[0] * nodes + pairs[1]
    order = np.argsort(key, kind="stable")
    wanted = sets_of[owner] * nodes + nodes_of[member]
    place = np.searchsorted(key[order], wanted) if len(key) else np.zeros(len(wanted), dtype=np.int64)
    inside = place < len(key)
    found = np.zeros(len(wanted), dtype=np.bool_)
    found[inside] = key[order][place[inside]] == wanted[inside]
    found &= sets_of[owner] >= 0
    result = np.zeros((len(wanted), price.shape[1]))
    if not found.any():
        return result
    _, group, size = np.unique(np.stack([owner, nodes_of[member]]), axis=1, return_inverse=True, return_counts=True)
    part = share[owner] / size[group.ravel()]
    result[found] = price[order[place[found]]] * part[found, None]
    return result
