"""The plan: candidates from coarse to fine, each judged by what it does with the real number of requests in flight.

Coarse ones come first, and a finer one takes its place only if it is better by more than MARGIN: what is gained below
that is less than what times are known to. So no winner loses to a coarser candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from controlplane.plan import exact, solver_package, steady
from controlplane.plan.candidate import CHAIN, KERNEL, MIXED, PATTERN, ROUTER, SINGLE, Candidate, Mixed
from controlplane.plan.cut import Prices
from controlplane.plan.decompose import Decomposed
from controlplane.plan.list_schedule import ListSchedule, critical_path
from controlplane.plan.net import tied
from controlplane.plan.problem import Floats, Ints, Kind, Objective, Problem
from controlplane.plan.quickest import quickest
from controlplane.plan.solve import SECONDS, Solver, free_bound
from controlplane.plan.splice import worth
from controlplane.plan.uses import Uses, fits, scales, uses
from controlplane.plan.variants import finer, only, regrouped, single
from ptxtools.errors import PlanError

MARGIN = 0.01
SHARES = (1.0, 0.6)  # of the requests in flight: how many periods one request may take if nothing overlaps
MOST_MACHINES = 16
KNOWN = 12  # placements of a decomposition that parts are taken from
NS_PER_HOUR = 3600e9
LEAST_NS = 1e-9  # of what takes no time at all


@dataclass(slots=True)
class Planned:
    """candidates: from coarse to fine. bound_ns: no placement has a shorter period with the requests in flight (or, for
    latency, is faster); free_ns: with any number of them. limiting: prices of what limits, and of which kinds; None
    where no program was solved. left_out: why a baseline is no candidate.
    """

    given: Problem
    candidates: list[Candidate]
    chosen: Candidate
    bound_ns: float
    free_ns: float
    limiting: tuple[Problem, Prices] | None = None
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """By what share the chosen one may be above the best one."""
        return _above(self._figure(self.chosen.period_ns), self.bound_ns)

    @property
    def dividing_gap(self) -> float:
        """As far as that is due to how work is divided, and not to GPUs that wait for each other."""
        return _above(self._figure(self.chosen.limit_ns), self.free_ns)

    def _figure(self, period_ns: float) -> float:
        return self.chosen.latency_ns if self.is_latency else period_ns

    @property
    def is_latency(self) -> bool:
        return self.given.objective is Objective.LATENCY


def _above(figure: float, bound: float) -> float:
    return max(figure / bound - 1, 0.0) if bound > 0 else 0.0


Judge = Callable[[Candidate], float]


def plan(given: Problem, seconds: float = SECONDS, judge: Judge | None = None) -> Planned:
    """judge: what period a candidate has, if something knows better. Errors: PlanError when nothing fits, ConfigError
    without OR-tools.
    """
    solver_package.require()
    if given.objective is Objective.LATENCY or (given.objective is Objective.THROUGHPUT and given.requests == 1):
        return _Latency(given).planned()
    if given.objective is Objective.THROUGHPUT:
        return _Throughput(given, seconds, _period, judge).planned()
    return _of_machines(given, seconds)


def _period(given: Problem, period_ns: float, load: Floats) -> float:  # noqa: ARG001
    return period_ns


def dollars(given: Problem, period_ns: float, load: Floats) -> float:  # noqa: ARG001
    """Of one request."""
    return sum(kind.dollars_per_hour * kind.count for kind in given.kinds) * period_ns / NS_PER_HOUR


def joules(given: Problem, period_ns: float, load: Floats) -> float:
    """Of one request; load: busy time of one GPU of each kind."""
    total = 0.0
    for kind, busy in zip(given.kinds, load, strict=True):
        total += kind.count * (kind.idle_watts * period_ns + (kind.watts - kind.idle_watts) * float(busy)) / 1e9
    return total


Worth = Callable[[Problem, float, Floats], float]


class _Throughput:
    def __init__(self, given: Problem, seconds: float, worth_of: Worth, judge: Judge | None = None) -> None:
        self.given, self.seconds, self.worth_of, self.judge = given, seconds, worth_of, judge
        self.out: list[Candidate] = []
        self.best = np.inf
        self.left_out: dict[str, str] = {}
        self.limiting: tuple[Problem, Prices] | None = None
        self.seen: set[tuple[tuple[Kind, ...], bytes]] = set()
        self.path = critical_path(ListSchedule(given))

    def planned(self) -> Planned:
        self.one_gpu()
        self.by_request()
        bound = self.by_part()
        if not self.out:
            raise PlanError(self.why_nothing_fits())
        if self.judge is not None:
            self.out = _judged(self.out, self.judge)
        chosen, one = pick(self.out), max(self.path, self.given.host_ns) / self.given.requests
        least_ns = min(max(bound, one), chosen.period_ns)
        return Planned(
            self.given, self.out, chosen, least_ns, min(bound, chosen.limit_ns), self.limiting, self.left_out
        )

    def one_gpu(self) -> None:
        for number, kind in enumerate(self.given.kinds):
            alone = only(self.given, number, 1)
            if alone is None:
                self.left_out.setdefault(SINGLE, f"{kind.name} may not run all launches")
                continue
            solver = Solver(alone)
            use = uses(solver.net, solver.scale, np.zeros(solver.net.nodes, dtype=np.int64))
            if fits(solver.scale, use.memory):
                name = f"{SINGLE} ({kind.name})"
                period = max(use.period, self.given.host_ns / self.given.requests)
                self.add(name, alone, ((1.0, np.zeros(alone.nodes, dtype=np.int64)),), [use], period)
            else:
                need = float(use.memory[0] + alone.held[0])
                why = f"{kind.name} has {kind.memory_bytes / 1e9:.3g} GB, {need / 1e9:.3g} are needed"
                self.left_out.setdefault(SINGLE, why)

    def by_request(self) -> None:
        """Each GPU serves whole requests, as many as it can; with fewer requests than GPUs, the fastest ones do."""
        places: list[tuple[float, int]] = []
        for number, kind in enumerate(self.given.kinds):
            alone = only(self.given, number, kind.count)
            if alone is None:
                continue
            solver = Solver(alone)
            use = uses(solver.net, solver.scale, np.zeros(solver.net.nodes, dtype=np.int64))
            if fits(solver.scale, use.memory):
                places += [(max(float(use.serial), LEAST_NS), number)] * kind.count
        places.sort()
        while True:
            chosen = places[: self.given.requests]
            if len(chosen) < 2:
                why = "fewer than two GPUs can serve whole requests, or requests are too few"
                self.left_out.setdefault(ROUTER, why)
                return
            counts = {number: sum(each == number for _, each in chosen) for _, number in chosen}
            used = regrouped(self.given, sorted(counts.items()))
            scale, net = scales(used), Solver(used).net
            some = [uses(net, scale, np.full(net.nodes, place, dtype=np.int64)) for place in range(len(counts))]
            full = {
                number
                for place, (number, use) in enumerate(zip(sorted(counts), some, strict=True))
                if use.memory[place] > scale.room[place]
            }
            if not full:
                break
            # Where few requests leave GPUs of a kind idle, the others have more of them than all of that kind had.
            places = [each for each in places if each[1] not in full]
        rates = np.array([sum(1 / ns for ns, each in chosen if each == number) for number in sorted(counts)])
        kinds = [np.full(used.nodes, place, dtype=np.int64) for place in range(len(rates))]
        mixture = tuple((float(rate / rates.sum()), kind) for rate, kind in zip(rates, kinds, strict=True))
        period = max(1.0 / float(rates.sum()), self.given.host_ns / self.given.requests)
        self.add(ROUTER, used, mixture, some, period)

    def by_part(self) -> float:
        """Placements that use several GPUs for one request. The result is the bound."""
        if len(self.given.kinds) == 1 and self.given.kinds[0].count == 1:
            return self.out[0].limit_ns if self.out else 0.0
        bound = np.inf
        variants = [self.given] if len(self.given.kinds) > 1 else []
        variants += finer(self.given)
        for variant in variants:
            if len(variant.kinds) < 2:
                continue
            found = _Parts(self, variant)
            value = found.candidates()
            if variant is self.given:
                bound = value
            if found.fitted:
                break
        if (
            not np.isfinite(bound)
            or not variants
            or variants[0] is not self.given
            or bound <= 0
            or found.given is not self.given
        ):
            bound = self.pooled_bound()
        return bound

    def pooled_bound(self) -> float:
        """Of all groupings."""
        solver = Solver(self.given, self.seconds, pooled=True)
        if len(self.given.kinds) == 1:
            return float(solver.net.ns.sum() / self.given.counts.sum())
        return solver.decomposed(None).bound

    def why_nothing_fits(self) -> str:
        room = sum(kind.count * kind.memory_bytes for kind in self.given.kinds)
        given = self.given
        need = given.residents.bytes.sum() + (given.state_bytes.sum() + given.own_bytes) * given.requests
        return (
            f"no plan fits in memory: the program needs {need / 1e9:.3g} GB with {self.given.requests} requests in "
            f"flight, the GPUs have {room / 1e9:.3g} GB together, and pins, ties and whole tensors limit how it can be "
            "divided; try fewer requests in flight (--requests), or more GPUs (--devices)"
        )

    def add(
        self,
        name: str,
        given: Problem,
        mixture: Mixed,
        some: Sequence[Uses],
        period_ns: float | None = None,
        memory: Floats | None = None,
    ) -> None:
        """some: what each placement of the mixture uses. Without a period, it is simulated, unless it cannot win.
        memory: of all of them together; otherwise the most that one uses.
        """
        key = (
            given.kinds,
            b"".join(np.float64(weight).tobytes() + kind.astype(np.int8).tobytes() for weight, kind in mixture),
        )
        if key in self.seen:
            return
        self.seen.add(key)
        weights = np.array([weight for weight, _ in mixture])
        rows = sum((weight * use.rows for weight, use in zip(weights, some, strict=True)), np.zeros_like(some[0].rows))
        if memory is None:
            memory = np.max([use.memory for use in some], axis=0)
        sent = sum((weight * use.sent for weight, use in zip(weights, some, strict=True)), np.zeros_like(some[0].sent))
        limit = float(rows[:-1].max()) if period_ns is None else period_ns
        schedule = ListSchedule(given)
        latency = max(float(sum(w * schedule.latency(kind) for w, kind in mixture)), self.given.host_ns)
        period, simulated = max(limit, latency / given.requests), False
        load = rows[: len(given.kinds)]
        if period_ns is not None:
            period = period_ns
        elif self.worth_of(given, period, load) < self.best:
            period = max(period, steady.period(given, mixture, given.requests))
            simulated = True
        value = self.worth_of(given, period, load)
        self.best = min(self.best, value) if simulated or period_ns is not None else self.best
        self.out.append(
            Candidate(
                name,
                given,
                mixture,
                period,
                limit,
                latency,
                rows,
                memory + held(given, mixture),
                sent,
                value,
                simulated or period_ns is not None,
            )
        )


class _Parts:
    """Candidates of one grouping of the GPUs."""

    def __init__(self, of: _Throughput, given: Problem) -> None:
        self.of, self.given = of, given
        self.solver = Solver(given, of.seconds)
        self.fitted = False

    def candidates(self) -> float:
        solver = self.solver
        self.pure(CHAIN, solver.one_each(), None)
        found = solver.decomposed(None)
        if found.mixture is None:
            return np.inf
        if self.of.limiting is None:
            self.of.limiting = self.given, found.mixture.prices
        self.by_launch(None, found, found.bound)
        serial = sum(
            float(weight * use.serial) for weight, use in zip(found.mixture.weights, found.known.uses, strict=True)
        )
        for share in SHARES:
            depth = max(share * self.given.requests, 1.0)
            if serial > depth * found.mixture.value:
                self.by_launch(depth, solver.decomposed(depth), np.inf)
        return found.bound

    def by_launch(self, depth: float | None, found: Decomposed, bound: float) -> None:
        if found.mixture is None:
            return
        solver, net = self.solver, self.solver.net
        parts = found.used()
        known = [
            (float(worth(use.rows, depth)), number)
            for number, use in enumerate(found.known.uses)
            if fits(solver.scale, use.memory)
        ]
        if known:
            _, number = min(known)
            kind = found.known.kinds[number]
            if len(np.unique(kind)) > 1:
                self.put(PATTERN, ((1.0, kind),), [found.known.uses[number]])
        best = self.pure(KERNEL, parts, depth, bound, found.known.kinds[-KNOWN:])
        if net.nodes <= exact.MOST_NODES and depth is None:
            start = np.inf if best is None else best.period
            better = solver.short(found.mixture.prices, start)
            if better.kind is not None:
                self.put(KERNEL, ((1.0, better.kind),), [uses(net, solver.scale, better.kind)])
        memory = solver.mixture_memory(parts)
        if len(parts) > 1 and fits(solver.scale, memory):
            some = [uses(net, solver.scale, kind) for _, kind in parts]
            self.put(MIXED, tuple(parts), some, memory)

    def pure(
        self,
        name: str,
        parts: Sequence[tuple[float, Ints]],
        depth: float | None,
        bound: float = np.inf,
        others: Sequence[Ints] = (),
    ) -> Uses | None:
        made = self.solver.spliced(parts, depth, bound, others)
        if made is None:
            return None
        self.put(name, ((1.0, made[0]),), [made[1]])
        return made[1]

    def put(self, name: str, mixture: Mixed, some: Sequence[Uses], memory: Floats | None = None) -> None:
        self.fitted = True
        of = self.solver.net.of
        self.of.add(name, self.given, tuple((weight, kind[of]) for weight, kind in mixture), some, memory=memory)


def held(given: Problem, mixture: Mixed) -> Floats:
    """What requests have for themselves on one GPU of each kind that some placement uses."""
    used = np.isin(np.arange(len(given.kinds)), np.concatenate([kind for _, kind in mixture]))
    return np.asarray(given.held * used)


def _judged(candidates: Sequence[Candidate], judge: Judge) -> list[Candidate]:
    """The best of each name, by the judge alone: those too that cannot win by the planner's own figures."""
    best: dict[str, Candidate] = {}
    for each in candidates:
        period = judge(each)
        if each.name not in best or period < best[each.name].worth:
            best[each.name] = replace(each, period_ns=period, worth=period, simulated=True)
    return list(best.values())


def pick(candidates: Sequence[Candidate]) -> Candidate:
    """The best of the coarse ones, unless a finer one is better by more than the margin."""
    chosen = None
    for candidate in sorted(candidates, key=lambda each: (each.rank, each.worth)):
        if not candidate.simulated:
            continue
        margin = 0.0 if chosen is None or chosen.rank == candidate.rank else MARGIN
        if chosen is None or candidate.worth < chosen.worth * (1 - margin):
            chosen = candidate
    if chosen is None:
        raise AssertionError("no candidate was judged")
    return chosen


class _Latency:
    """One request as fast as possible: every GPU counts for itself."""

    def __init__(self, given: Problem) -> None:
        self.given = single(given)

    def planned(self) -> Planned:
        given, solver = self.given, Solver(self.given)
        schedule = ListSchedule(given)
        out: list[Candidate] = []
        left_out: dict[str, str] = {}
        for name, kind in quickest(given, schedule, solver):
            use = uses(solver.net, solver.scale, kind)
            placed = kind[solver.net.of]
            alone = len(np.unique(placed)) == 1
            shown = f"{SINGLE} ({given.kinds[int(placed[0])].name})" if alone else name
            if any(shown == each.name for each in out) and alone:
                continue
            latency = max(schedule.latency(placed), given.host_ns)
            mixture: Mixed = ((1.0, placed),)
            out.append(
                Candidate(
                    shown,
                    given,
                    mixture,
                    latency,
                    use.period,
                    latency,
                    use.rows,
                    use.memory + held(given, mixture),
                    use.sent,
                    latency,
                )
            )
        if not out:
            raise PlanError(_Throughput(given, SECONDS, _period).why_nothing_fits())
        chosen = pick(out)
        bound = min(max(critical_path(schedule), given.host_ns), chosen.latency_ns)
        return Planned(given, out, chosen, bound, bound, None, left_out)


def _of_machines(given: Problem, seconds: float) -> Planned:
    """Cost and energy: the best of all machines that are a part of this one."""
    value: Worth = dollars if given.objective is Objective.COST else joules
    if given.objective is Objective.COST and not any(kind.dollars_per_hour for kind in given.kinds):
        raise PlanError("no GPU has a price; expected dollars per hour for each")
    if given.objective is Objective.ENERGY and not any(kind.watts for kind in given.kinds):
        raise PlanError("no GPU has a power; expected watts for each")
    machines, allowed = [], tied(given).allowed
    for counts in product(*(range(kind.count + 1) for kind in given.kinds)):
        part = [(number, count) for number, count in enumerate(counts) if count]
        if not allowed[:, [number for number, _ in part]].any(axis=1).all():
            continue
        some = regrouped(given, part)
        solver = Solver(some)
        least_ns, _ = free_bound(solver.net, solver.scale)
        machines.append((value(some, least_ns, np.zeros(len(part))), sum(counts), counts, some))
    machines.sort(key=lambda each: each[:3])
    out: list[Planned] = []
    best = np.inf
    for turn, (least_value, _, _, some) in enumerate(machines):
        if least_value >= best * (1 - 1e-9) or (out and turn >= MOST_MACHINES * 4):
            break
        try:
            found = _Throughput(some, seconds, value).planned()
        except PlanError:
            continue
        best = min(best, found.chosen.worth)
        out.append(found)
        if len(out) >= MOST_MACHINES:
            break
    if not out:
        raise PlanError(_Throughput(given, seconds, value).why_nothing_fits())
    winner = min(out, key=lambda each: each.chosen.worth)
    candidates = [candidate for each in out for candidate in each.candidates]
    return replace(winner, given=given, candidates=candidates, left_out={})
