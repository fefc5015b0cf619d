"""The best mixture of placements that are known so far: a linear program with a row for each thing that can run out.

Its shadow prices say which placement would be worth knowing next (controlplane/plan/decompose.py), and what limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.plan.cut import Prices
from controlplane.plan.problem import Floats
from controlplane.plan.uses import Scales, Uses

TINY = 1e-9
SOLVERS = ("GLOP", "CLP")  # GLOP gives up small programs now and then, as abnormal


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """weights: of the placements. value: their period; or, of a search for any that fits, by what share it does not."""

    weights: Floats
    value: float
    prices: Prices


def best_mixture(known: Sequence[Uses], scale: Scales, depth: float | None, *, fitting: bool = False) -> Mixture:
    """depth: how many periods one request may take if nothing in it overlaps. fitting: as little memory beyond what is
    there as possible, instead of the shortest period.
    """
    for name in SOLVERS:
        found = _solved(name, known, scale, depth, fitting=fitting)
        if found is not None:
            return found
    return Mixture(np.zeros(len(known)), float("inf"), Prices(np.zeros(scale.rows), np.zeros(scale.kinds)))


def _solved(name: str, known: Sequence[Uses], scale: Scales, depth: float | None, *, fitting: bool) -> Mixture | None:
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver(name)
    infinity = solver.infinity()
    unit = max(float(np.median([use.rows.max() for use in known])), TINY)
    size = np.maximum(scale.capacity, 1.0)
    period = solver.NumVar(0.0, infinity, "")
    weights = [solver.NumVar(0.0, infinity, "") for _ in known]
    rows = []
    for row in range(scale.rows):
        constraint = solver.Constraint(-infinity, infinity if fitting else 0.0)
        if row < scale.rows - 1 or depth is not None:
            constraint.SetCoefficient(period, -1.0 if row < scale.rows - 1 else -float(depth or 0.0))
            for weight, use in zip(weights, known, strict=True):
                constraint.SetCoefficient(weight, float(use.rows[row]) / unit)
        rows.append(constraint)
    memory = []
    for kind in range(scale.kinds):
        constraint = solver.Constraint(-infinity, 1.0)
        for weight, use in zip(weights, known, strict=True):
            constraint.SetCoefficient(weight, float(use.memory[kind] / size[kind]))
        if fitting:
            constraint.SetCoefficient(period, -1.0)
        memory.append(constraint)
    one = solver.Constraint(1.0, 1.0)
    for weight in weights:
        one.SetCoefficient(weight, 1.0)
    solver.Objective().SetCoefficient(period, 1.0)
    solver.Objective().SetMinimization()
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    of_rows = np.array([0.0 if fitting else max(-row.dual_value(), 0.0) for row in rows])
    of_memory = np.array([max(-row.dual_value(), 0.0) for row in memory])
    if fitting:
        prices = Prices(of_rows, of_memory / size)
        return Mixture(_solution(weights), period.solution_value(), prices)
    total = of_rows[:-1].sum() + of_rows[-1] * (depth or 0.0)
    prices = Prices(of_rows / max(total, TINY), of_memory * unit / size)
    return Mixture(_solution(weights), period.solution_value() * unit, prices)


def _solution(weights: Sequence[object]) -> Floats:
    found = np.array([max(weight.solution_value(), 0.0) for weight in weights])  # type: ignore[attr-defined]
    return np.asarray(found / max(found.sum(), TINY))
