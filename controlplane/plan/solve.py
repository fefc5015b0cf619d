"""Placements with short periods, and a bound: of one grouping of the GPUs into kinds.

Two kinds: decomposition with minimal cuts, exact but for the last splice. More: prices and bound from a linear program
in a process of its own, placements from cuts that expand one kind at a time. Launches of a layer first, then all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controlplane.plan import bound as bounds
from controlplane.plan import exact, layers, relax
from controlplane.plan.cut import Cutter, Prices
from controlplane.plan.decompose import ENOUGH, Decomposed, Known, decompose, single
from controlplane.plan.expand import Expander
from controlplane.plan.improve import improve
from controlplane.plan.master import best_mixture
from controlplane.plan.net import Net, join, tied
from controlplane.plan.problem import Floats, Ints, Problem
from controlplane.plan.splice import crossed, splice, worth
from controlplane.plan.uses import Scales, Uses, present, scales, uses

SECONDS = 10.0
MOST_JOINED = 1500  # nodes of a linear program
FULL_TURNS = 12
LARGE = 20_000  # nodes
MOST_WHOLE, WHOLE_TURNS = 8_000, 28  # nodes of which none are joined, on more than two kinds
MOST_CROSSED = 60_000  # nodes, for each placement that parts may be taken from
CLOSE = 5e-4  # of the bound: nothing is gained by looking further


class Solver:
    """Of one problem."""

    def __init__(self, given: Problem, seconds: float = SECONDS, *, pooled: bool = False) -> None:
        """pooled: memory of equal GPUs counts as if they shared it: for a bound on all groupings of them."""
        self.given, self.seconds = given, seconds
        self.net, scale = tied(given), scales(given)
        if pooled:
            counts = given.counts
            scale = replace(scale, capacity=scale.capacity * counts, states=scale.states * 0 + given.requests)
        self.scale: Scales = scale
        self.joined = join(self.net, layers.keys(alike(self.net)))
        self.cutters: dict[int, Cutter | Expander] = {}

    def cheapest(self, net: Net) -> Cutter | Expander:
        if id(net) not in self.cutters:
            self.cutters[id(net)] = Cutter(net, self.scale) if self.scale.kinds == 2 else Expander(net, self.scale)
        return self.cutters[id(net)]

    def decomposed(self, depth: float | None) -> Decomposed:
        """Of all nodes."""
        return self._two(depth) if self.scale.kinds == 2 else self._several(depth)

    def _two(self, depth: float | None) -> Decomposed:
        is_joined = self.joined.nodes < self.net.nodes
        rough = decompose(
            self.joined,
            self.scale,
            self.cheapest(self.joined).cheapest,
            depth=depth,
            prices=None if is_joined else free_prices(self.net, self.scale),
            enough=ENOUGH if self.joined.nodes < LARGE else CLOSE / 2,
        )
        if not is_joined:
            return rough
        start = [kind[self.joined.of] for _, kind in rough.used()]
        return decompose(
            self.net,
            self.scale,
            self.cheapest(self.net).cheapest,
            depth=depth,
            start=start,
            prices=rough.mixture.prices if rough.mixture is not None else None,
            turns=FULL_TURNS if rough.mixture is not None else 60,
            enough=CLOSE / 2,
        )

    def _several(self, depth: float | None) -> Decomposed:
        """A bound without an exact search for placements comes from the linear program."""
        if MOST_JOINED < self.joined.nodes <= MOST_WHOLE:
            return self._whole(depth)
        net = self.joined if self.joined.nodes <= MOST_JOINED else blocks(self.joined, MOST_JOINED // 4)
        of = self.joined.of if net is self.joined else net.of[self.joined.of]
        found = relax.relax(net, self.scale, None, self.seconds) if depth is None else None
        cheapest = self.cheapest(net).cheapest
        start = [np.argmax(found.share, axis=1)] if found is not None else []
        rough = decompose(
            net, self.scale, cheapest, depth=depth, start=start, prices=None if found is None else found.prices
        )
        free, _ = free_bound(self.net, self.scale)
        known = [kind[of] for kind in rough.known.kinds]
        made = _relabelled(rough, self.net, self.scale, known, np.inf, depth)
        if found is None:
            return replace(made, bound=min(free, made.bound))
        once = joined_once(net, of, self.joined)
        period = made.mixture.value if made.mixture is not None else np.inf
        proven = bounds.certify(self.net, self.scale, once, found, period)
        return replace(made, bound=min(max(free, proven), period))

    def _whole(self, depth: float | None) -> Decomposed:
        """Too many different launches for a linear program: cuts of all of them, and prices that begin at nothing."""
        net, scale = self.joined, self.scale
        free, prices = free_bound(net, scale)
        made = decompose(net, scale, self.cheapest(net).cheapest, depth=depth, prices=prices, turns=WHOLE_TURNS)
        if made.mixture is None:
            return replace(made, bound=free)
        readers, users = (
            np.zeros((len(each.members), scale.kinds)) for each in (net.values.consumers, net.residents.users)
        )
        found = relax.Relaxed(made.mixture.value, np.zeros(0), made.mixture.prices, readers, users)
        proven = bounds.certify(net, scale, join(net, np.arange(net.nodes)), found, made.mixture.value)
        known = [kind[self.joined.of] for kind in made.known.kinds]
        return _relabelled(made, self.net, scale, known, max(free, proven), depth)

    def spliced(
        self,
        parts: Sequence[tuple[float, Ints]],
        depth: float | None,
        bound: float,
        others: Sequence[Ints] = (),
    ) -> tuple[Ints, Uses] | None:
        """One placement for all requests. others: from which parts may be taken, too."""
        made = splice(self.net, self.scale, parts, depth)
        if made is None:
            return None
        if float(worth(made[1].rows, depth)) > bound * (1 + CLOSE):
            if self.net.nodes * len(others) <= MOST_CROSSED:
                made = crossed(self.net, self.scale, made[0], others, depth, bound * (1 + CLOSE))
            return improve(self.net, self.scale, made[0], depth)
        return made

    def short(self, prices: Prices, best: float) -> exact.Exact:
        return exact.shortest_period(self.net, self.scale, prices, best)

    def one_each(self) -> list[tuple[float, Ints]]:
        """All on one kind, weighed by how many requests its GPUs do in a time."""
        parts = []
        for kind in single(self.net):
            use = uses(self.net, self.scale, kind)
            parts.append((1.0 / max(use.period, 1e-9), kind))
        total = sum(weight for weight, _ in parts)
        return [(weight / total, kind) for weight, kind in parts]

    def mixture_memory(self, parts: Sequence[tuple[float, Ints]]) -> Floats:
        """What any of them needs of what all requests share, and states of whole requests, as many as it may have."""
        held = np.zeros((len(self.net.residents.bytes), self.scale.kinds), dtype=np.bool_)
        state: Floats = np.zeros(self.scale.kinds)
        for weight, kind in parts:
            held |= present(self.net.residents.users, kind, self.scale.kinds)
            requests = np.ceil(np.ceil(weight * self.given.requests * (1 - 1e-9)) / self.scale.counts)
            state = state + requests * np.bincount(kind, self.net.state_bytes, self.scale.kinds)
        return np.asarray(held.T @ self.net.residents.bytes + state)


def alike(net: Net) -> Ints:
    """Equal for nodes of one label that may run on the same kinds. Joined, others would have none that may run all."""
    places = net.allowed @ (1 << np.arange(net.kinds, dtype=np.int64))
    return np.asarray(net.label * (1 << net.kinds) + places)


def blocks(net: Net, most: int) -> Net:
    """Neighbours joined until there are no more than so many."""
    return join(net, np.arange(net.nodes) * most // net.nodes)


def joined_once(net: Net, of: Ints, joined: Net) -> Net:
    """A net that was joined from one that was joined itself, as joined once. of: its node for each of the first."""
    if net is joined:
        return net
    values = np.where(joined.values_of >= 0, net.values_of[joined.values_of], -1)
    residents = np.where(joined.residents_of >= 0, net.residents_of[joined.residents_of], -1)
    return replace(net, of=of, values_of=values, residents_of=residents)


def free_bound(net: Net, scale: Scales) -> tuple[float, Prices]:
    """A bound without transfers and memory: prices of the kinds' time alone, made better step by step."""
    weights = np.full(scale.kinds, 1.0 / scale.kinds)
    ns = np.where(net.allowed, net.ns / scale.counts, np.inf)
    best, rows = 0.0, np.zeros(scale.rows)
    for turn in range(200):
        cost = ns * weights
        chosen = np.argmin(cost, axis=1)
        taken = cost[np.arange(net.nodes), chosen]
        if float(taken.sum()) > best:
            best = float(taken.sum())
            rows[: scale.kinds] = weights
        load = np.bincount(chosen, ns[np.arange(net.nodes), chosen], scale.kinds)
        weights = weights * np.exp(0.5 / (1 + turn / 8) * (load / max(load.max(), 1e-12) - 1))
        weights = weights / weights.sum()
    return best, Prices(rows, np.zeros(scale.kinds))


def free_prices(net: Net, scale: Scales) -> Prices:
    """Of two kinds' time, as if transfers and memory were free: where both have as much to do, if that is possible."""
    ns = np.where(net.allowed, net.ns / scale.counts, np.inf)
    low, high = 0.0, 1.0
    for _ in range(20):
        weight = (low + high) / 2
        there = ns[:, 0] * weight <= ns[:, 1] * (1 - weight)
        low, high = (weight, high) if ns[there, 0].sum() > ns[~there, 1].sum() else (low, weight)
    rows = np.zeros(scale.rows)
    rows[:2] = (low + high) / 2, 1 - (low + high) / 2
    return Prices(rows, np.zeros(scale.kinds))


def _relabelled(
    rough: Decomposed, net: Net, scale: Scales, kinds: list[Ints], bound: float, depth: float | None
) -> Decomposed:
    """The best mixture of some of the same placements, of all nodes instead of those of one layer."""
    known = Known(net, scale)
    if rough.mixture is None:
        return rough
    for weight, kind in sorted(zip(rough.mixture.weights, kinds, strict=True), key=lambda each: -each[0])[:16]:
        if weight > 0 or len(known.kinds) < 8:
            known.add(kind)
    mixture = best_mixture(known.uses, scale, depth)
    return Decomposed(known, min(bound, mixture.value), mixture)
