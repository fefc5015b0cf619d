"""Candidates judged by the simulation of a profiled program, where that is what its machine does.

An emulated machine books work ahead as it is issued (controlplane/simulate/curve.py); a real GPU takes what is ready,
which controlplane/plan/steady.py follows.
"""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.plan.candidate import Candidate, turns
from controlplane.plan.planner import Judge
from controlplane.profile.model import Profile
from controlplane.simulate.load import Load
from controlplane.simulate.place import Fixed
from controlplane.simulate.result import simulate
from controlplane.simulate.work import Way, Work, work_of

OPERATIONS = 40_000  # that are simulated for a candidate; programs with more in flight are not
LEAST_TURNS, USUAL_TURNS, LEAST = 4, 8, 48


def simulated(operations: int, requests: int) -> int:
    """How many requests of so many operations, with so many in flight; 0: it takes too long."""
    most = OPERATIONS // operations
    return 0 if most < max(LEAST_TURNS * requests, 12) else min(max(USUAL_TURNS * requests, LEAST), most)


def judge_of(profile: Profile, requests: int) -> Judge | None:
    """None: nothing judges better than the planner itself."""
    count = simulated(len(profile.iteration.operations), requests)
    if not profile.machine.emulated or not count:
        return None
    work = work_of(profile)

    def period_ns(candidate: Candidate) -> float:
        patterns = turns(candidate)
        found = simulate(profile, work, Fixed(candidate.name, patterns), Load(count, (), requests))[0].period_ns
        # Requests of one thread have one stream, in which launches on a GPU run one after another.
        share = profile.iteration.threads >= requests
        return max(found, *_loads(work, patterns)) if share else max(found, candidate.limit_ns)

    return period_ns


def _loads(work: Work, patterns: Sequence[tuple[float, Sequence[int]]]) -> list[float]:
    """By GPU, of one request: the time for which it would be full."""
    whole = sum(weight for weight, _ in patterns)
    loads = [0.0] * len(work.tasks[0].ns)
    for weight, gpus in patterns:
        for task, gpu in zip(work.tasks, gpus, strict=True):
            if task.way is Way.COMPUTE:
                loads[gpu] += weight / whole * task.ns[gpu] * task.share[gpu]
    return loads
