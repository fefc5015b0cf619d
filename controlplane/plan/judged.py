"""Candidates judged by the simulation of a profiled program, where that is what its machine does.

An emulated machine books work ahead as it is issued (controlplane/simulate/curve.py); a real GPU takes what is ready,
which controlplane/plan/steady.py follows.
"""

from __future__ import annotations

from controlplane.plan.candidate import Candidate, turns
from controlplane.plan.planner import Judge
from controlplane.profile.model import Profile
from controlplane.simulate.load import Load
from controlplane.simulate.place import Fixed
from controlplane.simulate.result import simulate
from controlplane.simulate.work import work_of

OPERATIONS = 40_000  # that are simulated for a candidate; programs with more in flight are not
LEAST_TURNS = 4


def judge_of(profile: Profile, requests: int) -> Judge | None:
    """None: nothing judges better than the planner itself."""
    count = max(LEAST_TURNS * requests, 12)
    if not profile.machine.emulated or len(profile.iteration.operations) * count > OPERATIONS:
        return None
    work = work_of(profile)

    def period_ns(candidate: Candidate) -> float:
        placed = Fixed(candidate.name, turns(candidate))
        return simulate(profile, work, placed, Load(count, (), requests))[0].period_ns

    return period_ns
