"""A way to run all requests, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from controlplane.plan.problem import Floats, Ints, Problem

SINGLE, ROUTER, CHAIN, PATTERN = "one GPU", "by request", "by layer", "same in each layer"
KERNEL, MIXED = "by launch", "mixed"
NAMES = (SINGLE, ROUTER, CHAIN, PATTERN, KERNEL, MIXED)  # from coarse to fine
MOST_TURNS = 64  # requests after which GPUs of all kinds have had their turns

Mixed = tuple[tuple[float, Ints], ...]  # placements of the problem's nodes, by weight


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """given: the GPUs as its placements count them. period_ns: with the requests in flight; limit_ns: with so many that
    only the GPUs and links limit. memory, rows: of one GPU of each kind, rows as in controlplane/plan/uses.py. worth:
    what the objective makes small. simulated: period_ns is from discrete events.
    """

    name: str
    given: Problem
    mixture: Mixed
    period_ns: float
    limit_ns: float
    latency_ns: float
    rows: Floats
    memory: Floats
    sent: Floats
    worth: float
    simulated: bool = True

    @property
    def load(self) -> Floats:
        """Busy time of one GPU of each kind."""
        return self.rows[: len(self.given.kinds)]

    @property
    def rank(self) -> int:
        """How fine it is."""
        return next(number for number, each in enumerate(NAMES) if self.name.startswith(each))


def turns(candidate: Candidate) -> list[tuple[float, list[int]]]:
    """(weight, GPU of each node): one for each turn of the GPUs."""
    groups = [kind.numbers for kind in candidate.given.kinds]
    found = []
    for weight, kind in candidate.mixture:
        count = min(lcm(*(len(groups[each]) for each in np.unique(kind).tolist())), MOST_TURNS)
        for turn in range(count):
            of_kind = np.array([numbers[turn % len(numbers)] for numbers in groups])
            found.append((weight / count, of_kind[kind].tolist()))
    return found
