"""Placements for one request that is to end soon: whole GPUs, cuts, lists, and small steps from the best of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from controlplane.plan import exact
from controlplane.plan.candidate import CHAIN, KERNEL, SINGLE
from controlplane.plan.cut import Prices
from controlplane.plan.decompose import single
from controlplane.plan.list_schedule import ListSchedule
from controlplane.plan.problem import Ints, Problem
from controlplane.plan.solve import Solver
from controlplane.plan.uses import fits, uses

MOST_WORK = 4_000_000  # nodes that are placed while small steps are tried


def quickest(given: Problem, schedule: ListSchedule, solver: Solver) -> Iterator[tuple[str, Ints]]:
    """Names and placements of the solver's net, from coarse to fine; each fits in memory."""
    net, scale = solver.net, solver.scale
    known: list[Ints] = []
    for kind in single(net):
        if fits(scale, uses(net, scale, kind).memory):
            known.append(kind)
            yield (SINGLE if len(np.unique(kind)) == 1 else KERNEL), kind
    if scale.kinds > 1:
        chain = solver.spliced(solver.one_each(), 1.0, np.inf)
        if chain is not None:
            known.append(chain[0])
            yield CHAIN, chain[0]
        made = _made(given, schedule, solver)
        known += [kind for kind in made if fits(scale, uses(net, scale, kind).memory)]
        if not known:
            found = solver.decomposed(None)
            some = solver.spliced(found.used(), None, np.inf) if found.used() else None
            known += [] if some is None else [some[0]]
        if known:
            kind = min(known, key=lambda each: schedule.latency(each[net.of]))
            yield KERNEL, _stepped(schedule, solver, kind)
    best = min((schedule.latency(kind[net.of]) for kind in known), default=np.inf)
    last = exact.soonest(given, schedule, net, scale, best)
    if last.kind is not None:
        first = np.unique(net.of, return_index=True)[1]
        yield KERNEL, last.kind[first]


def _made(given: Problem, schedule: ListSchedule, solver: Solver) -> Iterator[Ints]:
    """The cheapest if nothing overlaps; and the launches one by one, each where it ends first."""
    scale = solver.scale
    rows = np.zeros(scale.rows)
    rows[-1] = 1.0
    for pressure in (0.0, 0.3, 1.0):
        prices = Prices(rows.copy(), np.full(scale.kinds, pressure) / np.maximum(scale.capacity, 1.0) * given.ns.sum())
        yield solver.cheapest(solver.net).cheapest(prices)[0]
    yield _listed(given, schedule, solver)


def _listed(given: Problem, schedule: ListSchedule, solver: Solver) -> Ints:
    """Each launch on the GPU where it ends first, after those before it in the program."""
    net, kinds = solver.net, schedule.kinds
    place = np.full(net.nodes, -1, dtype=np.int64)
    of: list[int] = net.of.tolist()
    free, ports, end = [0.0] * kinds, [0.0] * (2 * kinds), list[float]()
    search = exact.Placer(schedule, of, place.tolist())
    there: dict[tuple[int, int], float] = {}
    for node in range(given.nodes):
        group = of[node]
        choices = [search.place[group]] if search.place[group] >= 0 else np.flatnonzero(net.allowed[group]).tolist()
        finish, free, ports, there, kind = min(
            ((*search.placed(node, kind, free, ports, end, there), kind) for kind in choices),
            key=lambda each: (each[0], each[4]),
        )
        search.place[group] = kind
        end.append(finish)
    return np.array(search.place, dtype=np.int64)


def _stepped(schedule: ListSchedule, solver: Solver, kind: Ints) -> Ints:
    """One node, or some that follow each other, elsewhere, as long as that helps."""
    net, scale = solver.net, solver.scale
    best = schedule.latency(kind[net.of])
    left = MOST_WORK
    for length in (1, 2, 4, 8, 16, 32, 1):
        changed = True
        while changed and left > 0:
            changed = False
            for first in range(0, net.nodes, max(length // 2, 1)):
                for to in range(scale.kinds):
                    window = slice(first, first + length)
                    if left <= 0 or (kind[window] == to).all():
                        continue
                    new = kind.copy()
                    new[window] = np.where(net.allowed[window, to], to, kind[window])
                    left -= schedule.given.nodes
                    latency = schedule.latency(new[net.of], best)
                    if latency < best * (1 - 1e-9) and fits(scale, uses(net, scale, new).memory):
                        kind, best, changed = new, latency, True
    return kind
