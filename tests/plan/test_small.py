"""Plans of small random graphs, with pins, ties, scarce memory and slow links, against all placements."""

from dataclasses import replace

import numpy as np
import pytest

from controlplane.plan import planner
from controlplane.plan.candidate import MIXED, Candidate
from controlplane.plan.list_schedule import ListSchedule, critical_path
from controlplane.plan.problem import Objective, Problem
from controlplane.plan.variants import single
from ptxtools.errors import PlanError
from tests.plan import generated, naive

SEEDS = 2000
SAMPLE = range(7, SEEDS, 200)
PART = 80
ENOUGH = 1.01
MOST = 7000  # placements


@pytest.mark.parametrize(
    "seeds",
    [SAMPLE, *(pytest.param(range(first, first + PART), marks=pytest.mark.full) for first in range(0, SEEDS, PART))],
    ids=lambda seeds: f"{seeds.start}-{seeds.stop}-{seeds.step}",
)
def test_no_placement_is_better_by_a_hundredth_and_none_beats_the_bound(seeds: range) -> None:
    for seed in seeds:
        given = generated.small(seed, 2 if seed % 4 else 3)
        throughput(seed, replace(given, requests=max(given.requests, 2)))
        latency(seed, replace(given, objective=Objective.LATENCY))


def throughput(seed: int, given: Problem) -> None:
    least_period = naive.best(given, latency=False)
    try:
        planned = planner.plan(given)
    except PlanError:
        assert least_period == float("inf"), f"seed {seed}: a placement fits"
        return
    assert min(each.limit_ns for each in planned.candidates) <= least_period * ENOUGH, f"seed {seed}"
    assert planned.free_ns <= least_period * (1 + 1e-6), f"seed {seed}: the bound is too high"
    assert planned.bound_ns <= planned.chosen.period_ns, f"seed {seed}"


def latency(seed: int, given: Problem) -> None:
    each = single(given)
    if len(each.kinds) ** each.nodes > MOST:
        return
    least_latency = naive.best(each, latency=True)
    try:
        planned = planner.plan(given)
    except PlanError:
        assert least_latency == float("inf"), f"seed {seed}: a placement fits"
        return
    assert least_latency * (1 - 1e-9) <= planned.chosen.latency_ns <= least_latency * ENOUGH, f"seed {seed}"
    assert planned.bound_ns <= least_latency * (1 + 1e-6), f"seed {seed}: the bound is too high"
    assert critical_path(ListSchedule(each)) <= least_latency * (1 + 1e-9), f"seed {seed}"


@pytest.mark.parametrize(
    "seeds",
    [
        range(3, SEEDS, 100),
        *(pytest.param(range(first, first + PART), marks=pytest.mark.full) for first in range(0, SEEDS, PART)),
    ],
    ids=lambda seeds: f"{seeds.start}-{seeds.stop}-{seeds.step}",
)
def test_odd_problems_have_plans_that_can_be(seeds: range) -> None:
    for seed in seeds:
        given = generated.odd(seed, 2 if seed % 4 else 3)
        of_requests(seed, replace(given, requests=max(given.requests, 2)))
        of_one(seed, replace(given, objective=Objective.LATENCY))


def of_requests(seed: int, given: Problem) -> None:
    least = max(naive.best(given, latency=False), given.host_ns / given.requests)
    try:
        planned = planner.plan(given)
    except PlanError:
        # What requests have for themselves is taken to be on every GPU, unless one serves them all.
        assert given.own_bytes or least == float("inf"), f"seed {seed}: a placement fits"
        return
    for each in planned.candidates:
        can_be(seed, each)
    if not given.own_bytes:
        assert min(each.limit_ns for each in planned.candidates) <= least * ENOUGH, f"seed {seed}"
    assert planned.free_ns <= least * (1 + 1e-6), f"seed {seed}: the bound is too high"
    assert planned.bound_ns <= planned.chosen.period_ns, f"seed {seed}"


def of_one(seed: int, given: Problem) -> None:
    each = single(given)
    if len(each.kinds) ** each.nodes > MOST:
        return
    least = max(naive.best(each, latency=True), given.host_ns)
    try:
        planned = planner.plan(given)
    except PlanError:
        assert given.own_bytes or least == float("inf"), f"seed {seed}: a placement fits"
        return
    for candidate in planned.candidates:
        can_be(seed, candidate)
    assert least * (1 - 1e-9) <= planned.chosen.latency_ns, f"seed {seed}"
    if not given.own_bytes:
        assert planned.chosen.latency_ns <= least / (1 - planner.MARGIN), f"seed {seed}"
    assert planned.bound_ns <= least * (1 + 1e-6), f"seed {seed}: the bound is too high"


def can_be(seed: int, candidate: Candidate) -> None:
    """Pins and ties hold, and what it says of memory is what it takes."""
    given = candidate.given
    for _, kind in candidate.mixture:
        assert given.allowed[np.arange(given.nodes), kind].all(), f"seed {seed}: {candidate.name}: a pin"
        assert all(len(set(kind[given.tie == tie])) == 1 for tie in given.tie), f"seed {seed}: {candidate.name}: a tie"
    needed = naive.memory_of(given, candidate.mixture[0][1])
    if candidate.name == MIXED:
        needed = naive.mixture_memory(given, candidate.mixture)
    elif len(candidate.mixture) > 1:  # each GPU serves whole requests
        needed = np.max([naive.memory_of(given, kind) for _, kind in candidate.mixture], axis=0).tolist()
    assert np.allclose(candidate.memory, needed), f"seed {seed}: {candidate.name}"
    room = [kind.memory_bytes * (1 + 1e-6) for kind in given.kinds]
    assert all(need <= there for need, there in zip(needed, room, strict=True)), f"seed {seed}: {candidate.name}"


def test_the_generated_graphs_have_what_makes_them_hard() -> None:
    some = [generated.small(seed, 2 if seed % 4 else 3) for seed in range(100)]
    assert sum(not given.allowed.all() for given in some) > 10
    assert sum(len(np.unique(given.tie)) < given.nodes for given in some) > 10
    assert sum(any(kind.count > 1 for kind in given.kinds) for given in some) > 20
    assert sum(naive.best(given, latency=False) == float("inf") for given in some) > 2
