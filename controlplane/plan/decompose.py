"""Dantzig-Wolfe decomposition: the shortest period that any mixture of placements has, and a bound that none is below.

In turns: the best mixture of what is known gives prices; the placement that is cheapest at these prices becomes known.
What the cheapest one costs bounds every mixture's period from below; at the end both meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from controlplane.plan.cut import Prices
from controlplane.plan.master import Mixture, best_mixture
from controlplane.plan.net import Net
from controlplane.plan.problem import Floats, Ints
from controlplane.plan.uses import Scales, Uses, fits, uses

Cheapest = Callable[[Prices], tuple[Ints, float]]
ENOUGH = 1e-5  # of the period: what mixture and bound may differ by
TINY = 1e-7


@dataclass(slots=True)
class Known:
    """Placements with what they use; each of them once."""

    net: Net
    scale: Scales
    kinds: list[Ints] = field(default_factory=list)
    uses: list[Uses] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)

    def add(self, kind: Ints) -> bool:
        key = kind.astype(np.int8).tobytes()
        if key in self.seen:
            return False
        self.seen.add(key)
        self.kinds.append(kind)
        self.uses.append(uses(self.net, self.scale, kind))
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Decomposed:
    """bound: at most the period of every mixture; mixture: of `known`, None if there is none that fits in memory."""

    known: Known
    bound: float
    mixture: Mixture | None

    def used(self) -> list[tuple[float, Ints]]:
        if self.mixture is None:
            return []
        pairs = zip(self.mixture.weights, self.known.kinds, strict=True)
        return [(float(weight), kind) for weight, kind in pairs if weight > TINY]


def decompose(
    net: Net,
    scale: Scales,
    cheapest: Cheapest,
    *,
    depth: float | None = None,
    start: Sequence[Ints] = (),
    prices: Prices | None = None,
    turns: int = 60,
    enough: float = ENOUGH,
) -> Decomposed:
    """cheapest: the cheapest placement at some prices, and a bound on what any costs. prices: to begin with."""
    known = Known(net, scale)
    for kind in (*start, *single(net)):
        known.add(kind)
    bound = -np.inf
    if prices is not None:
        kind, least = cheapest(prices)
        bound = least - _paid(scale, prices)
        known.add(kind)
    if not known.kinds:
        known.add(np.argmin(np.where(net.allowed, net.ns, np.inf), axis=1))
    if not _fit(known, cheapest, turns):
        return Decomposed(known, np.inf, None)
    mixture = best_mixture(known.uses, scale, depth)
    for _ in range(turns):
        if mixture.value - bound <= enough * mixture.value:
            break
        kind, least = cheapest(mixture.prices)
        bound = max(bound, least - _paid(scale, mixture.prices))
        if not known.add(kind):
            break
        mixture = best_mixture(known.uses, scale, depth)
    return Decomposed(known, min(bound, mixture.value), mixture)


def single(net: Net) -> list[Ints]:
    """All on one kind, as far as its nodes may run there."""
    best = np.argmin(np.where(net.allowed, net.ns, np.inf), axis=1)
    some = np.flatnonzero(net.allowed.any(axis=0)).tolist()
    return [np.where(net.allowed[:, kind], kind, best).astype(np.int64) for kind in some]


def _paid(scale: Scales, prices: Prices) -> float:
    return float(prices.memory @ scale.capacity)


def _fit(known: Known, cheapest: Cheapest, turns: int) -> bool:
    """Whether a mixture fits in memory, having looked for one; memory of a mixture is counted as the mean."""
    scale = known.scale
    for _ in range(turns):
        if any(fits(scale, use.memory) for use in known.uses):
            return True
        found = best_mixture(known.uses, scale, None, fitting=True)
        if found.value <= TINY:
            return True
        kind, _ = cheapest(Prices(np.zeros(scale.rows), found.prices.memory))
        if not known.add(kind):
            return False
    return False


def limits(scale: Scales, prices: Prices) -> Floats:
    """The share that each row has in what limits: prices of rows, which add up to 1 but for the last."""
    return prices.rows[: scale.rows - 1]
