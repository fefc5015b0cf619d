"""The best placement on two kinds of GPUs when every use has a price: a minimal cut of a network.

Nodes on the source's side run on the first kind. Whatever costs something only if nodes are apart, or if one of several
is on a side, is an arc or two: a value sent to the other side, memory needed there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from controlplane.plan.net import Net
from controlplane.plan.problem import Floats, Ints
from controlplane.plan.uses import Scales

FINE = float(1 << 42)  # the sum of all prices, in units of the network's whole numbers


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """rows: of each row of controlplane/plan/uses.py. memory: of a byte on one GPU of each kind."""

    rows: Floats
    memory: Floats


def node_prices(net: Net, scale: Scales, prices: Prices) -> Floats:
    """[node, kind], infinite where it may not run."""
    of_time = prices.rows[: scale.kinds] / scale.counts + prices.rows[-1]
    costs = net.ns * of_time + np.outer(net.state_bytes, prices.memory * scale.states)
    return np.where(net.allowed, costs, np.inf)


def value_prices(net: Net, scale: Scales, prices: Prices, sender: int, receiver: int) -> Floats:
    per_byte = prices.rows @ scale.ns_per_byte[:, sender, receiver]
    per_message = prices.rows @ scale.ns_per_message[:, sender, receiver]
    return np.asarray(net.values.bytes * per_byte + net.values.messages * per_message)


class Cutter:
    """A network of one problem, whose prices change."""

    def __init__(self, net: Net, scale: Scales) -> None:
        from ortools.graph.python import max_flow

        self.net, self.scale = net, scale
        nodes, values, residents = net.nodes, net.values, net.residents
        self.source, self.sink = nodes, nodes + 1
        sizes = np.diff(values.consumers.start)
        single, several = np.flatnonzero(sizes == 1), np.flatnonzero(sizes > 1)
        self.single, self.several = single, several
        reader = values.consumers.members[values.consumers.start[single]]
        writer = values.producer[single]
        out = nodes + 2 + np.arange(len(several))  # a node that is on the far side if a reader is
        back = out + len(several)
        owner = values.consumers.owners()
        kept = sizes[owner] > 1
        place = np.cumsum(sizes > 1) - 1
        member, group = values.consumers.members[kept], place[owner[kept]]
        first = nodes + 2 + 2 * len(several) + np.arange(len(residents.bytes))
        second = first + len(residents.bytes)
        user, of = residents.users.members, residents.users.owners()
        every = np.arange(nodes)
        # In this order: prices, then what cannot be cut.
        tails = [every, np.full(nodes, self.source), writer, reader, values.producer[several], back]
        heads = [np.full(nodes, self.sink), every, reader, writer, out, values.producer[several]]
        tails += [first, np.full(len(second), self.source)]
        heads += [np.full(len(first), self.sink), second]
        self.priced = sum(len(each) for each in tails)
        tails += [out[group], member, user, second[of]]
        heads += [member, back[group], first[of], user]
        tail, head = (np.concatenate(each).astype(np.int32) for each in (tails, heads))
        self.arcs = len(tail)
        self.flow: Any = max_flow.SimpleMaxFlow()
        self.numbers = self.flow.add_arcs_with_capacity(tail, head, np.zeros(self.arcs, dtype=np.int64))

    def cheapest(self, prices: Prices) -> tuple[Ints, float]:
        """A placement, and what every placement costs at least."""
        net, scale = self.net, self.scale
        costs = node_prices(net, scale, prices)
        base = np.minimum(costs[:, 0], costs[:, 1])
        there, back = value_prices(net, scale, prices, 0, 1), value_prices(net, scale, prices, 1, 0)
        weights = net.residents.bytes
        parts = (
            costs[:, 0] - base,
            costs[:, 1] - base,
            there[self.single],
            back[self.single],
            there[self.several],
            back[self.several],
            weights * prices.memory[0],
            weights * prices.memory[1],
        )
        price = np.concatenate(parts)
        finite = np.isfinite(price)
        total = float(price[finite].sum())
        fine = FINE / total if total > 0 else 1.0
        capacity = np.full(self.arcs, int(FINE) + 1, dtype=np.int64)
        capacity[: self.priced][finite] = np.floor(price[finite] * fine).astype(np.int64)
        self.flow.set_arcs_capacity(self.numbers, capacity)
        status = self.flow.solve(self.source, self.sink)
        if status != self.flow.OPTIMAL:
            raise AssertionError(f"a maximal flow ended with {status}")
        kind = np.ones(net.nodes, dtype=np.int64)
        side = np.asarray(self.flow.get_source_side_min_cut(), dtype=np.int64)
        kind[side[side < net.nodes]] = 0
        return kind, float(base.sum()) + self.flow.optimal_flow() / fine
