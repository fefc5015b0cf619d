"""Plans of small random graphs, with pins, ties, scarce memory and slow links, against all placements."""

from dataclasses import replace

import numpy as np
import pytest

from controlplane.plan import planner
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


def test_the_generated_graphs_have_what_makes_them_hard() -> None:
    some = [generated.small(seed, 2 if seed % 4 else 3) for seed in range(100)]
    assert sum(not given.allowed.all() for given in some) > 10
    assert sum(len(np.unique(given.tie)) < given.nodes for given in some) > 10
    assert sum(any(kind.count > 1 for kind in given.kinds) for given in some) > 20
    assert sum(naive.best(given, latency=False) == float("inf") for given in some) > 2
