"""The process that solves linear programs: a model on its standard input, the answer on its standard output."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np

from controlplane.plan.problem import Floats
from controlplane.plan.relax import Model


def main() -> int:
    given = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(pickle.dumps(solve(given)))
    return 0


def solve(given: Model) -> tuple[float, Floats, Floats, Floats, Floats, Floats] | None:
    """Period, shares, and the prices of rows, memory, readers and users; None: there is no solution."""
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("SCIP" if given.integer else "GLOP")
    solver.SetTimeLimit(int(given.seconds * 1000))
    made = _Rows(solver, given)
    status = solver.Solve()
    if status not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE) or (
        status != pywraplp.Solver.OPTIMAL and not given.integer
    ):
        return None
    return made.answer()


class _Rows:
    def __init__(self, solver: Any, given: Model) -> None:
        self.solver, self.given = solver, given
        self.infinity = solver.infinity()
        nodes, kinds = given.ns.shape
        self.period = solver.NumVar(0.0, self.infinity, "")
        kind_of = solver.IntVar if given.integer else solver.NumVar
        self.share = [
            [kind_of(0.0, 1.0 if given.allowed[node, kind] else 0.0, "") for kind in range(kinds)]
            for node in range(nodes)
        ]
        count = 3 * kinds + 1
        self.rows = [
            solver.Constraint(-self.infinity, 0.0) for _ in range(count if given.depth is not None else count - 1)
        ]
        for number, row in enumerate(self.rows):
            row.SetCoefficient(self.period, -1.0 if number < count - 1 else -float(given.depth or 0.0))
        self.memory = [solver.Constraint(-self.infinity, float(room)) for room in given.room]
        for node in range(nodes):
            self.node(node)
        self.readers, self.users = self.values(), self.residents()
        solver.Objective().SetCoefficient(self.period, 1.0)
        solver.Objective().SetMinimization()

    def node(self, node: int) -> None:
        given, share = self.given, self.share[node]
        one = self.solver.Constraint(1.0, 1.0)
        for kind, variable in enumerate(share):
            one.SetCoefficient(variable, 1.0)
            if not given.allowed[node, kind]:
                continue
            ns = float(given.ns[node, kind])
            self.rows[kind].SetCoefficient(variable, ns / float(given.counts[kind]))
            if given.depth is not None:
                self.rows[-1].SetCoefficient(variable, ns)
            if given.state[node, kind]:
                self.memory[kind].SetCoefficient(variable, float(given.state[node, kind]))

    def values(self) -> list[list[Any]]:
        given, infinity = self.given, self.infinity
        kinds = len(given.counts)
        sent: list[list[list[Any]]] = []
        for value, writer in enumerate(given.writer.tolist()):
            to_kind: list[list[Any]] = [[] for _ in range(kinds)]
            for source in range(kinds):
                for to in range(kinds):
                    if source == to or not given.allowed[writer, source]:
                        continue
                    variable = self.solver.NumVar(0.0, infinity, "")
                    to_kind[to].append(variable)
                    for row, constraint in enumerate(self.rows):
                        cost = float(given.value_cost[value, source, to, row])
                        if cost:
                            constraint.SetCoefficient(variable, cost)
                    most = self.solver.Constraint(-infinity, 0.0)
                    most.SetCoefficient(variable, 1.0)
                    most.SetCoefficient(self.share[writer][source], -1.0)
            sent.append(to_kind)
        rows = []
        for owner, reader in zip(given.owner.tolist(), given.reader.tolist(), strict=True):
            writer, constraints = int(given.writer[owner]), []
            for kind in range(kinds):
                there = self.solver.Constraint(-infinity, 0.0)
                there.SetCoefficient(self.share[reader][kind], 1.0)
                there.SetCoefficient(self.share[writer][kind], -1.0)
                for variable in sent[owner][kind]:
                    there.SetCoefficient(variable, -1.0)
                constraints.append(there)
            rows.append(constraints)
        return rows

    def residents(self) -> list[list[Any]]:
        given, kinds = self.given, len(self.given.counts)
        held = [[self.solver.NumVar(0.0, self.infinity, "") for _ in range(kinds)] for _ in given.bytes]
        for resident, variables in enumerate(held):
            for kind, variable in enumerate(variables):
                self.memory[kind].SetCoefficient(variable, float(given.bytes[resident, kind]))
        rows = []
        for owner, user in zip(given.resident.tolist(), given.user.tolist(), strict=True):
            constraints = []
            for kind in range(kinds):
                there = self.solver.Constraint(-self.infinity, 0.0)
                there.SetCoefficient(self.share[user][kind], 1.0)
                there.SetCoefficient(held[owner][kind], -1.0)
                constraints.append(there)
            rows.append(constraints)
        return rows

    def answer(self) -> tuple[float, Floats, Floats, Floats, Floats, Floats]:
        share = np.array([[variable.solution_value() for variable in each] for each in self.share])
        period = float(self.period.solution_value())
        kinds = len(self.given.counts)
        if self.given.integer:
            nothing = np.zeros((0, kinds))
            return period, share, np.zeros(3 * kinds + 1), np.zeros(kinds), nothing, nothing
        rows = np.zeros(3 * kinds + 1)
        rows[: len(self.rows)] = [_price(row) for row in self.rows]
        memory = np.array([_price(row) for row in self.memory])
        readers, users = (
            np.array([[_price(row) for row in each] for each in some]).reshape(-1, kinds)
            for some in (self.readers, self.users)
        )
        return period, share, rows, memory, readers, users


def _price(row: Any) -> float:
    return max(-float(row.dual_value()), 0.0)


if __name__ == "__main__":
    sys.exit(main())
