"""Placements of a profiled program that are compared: each GPU alone, a router, the rule, a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.profile.model import Profile
from controlplane.simulate import place
from controlplane.simulate.engine import Ran
from controlplane.simulate.load import Load
from controlplane.simulate.place import Placement
from controlplane.simulate.result import Result, enough, simulate
from controlplane.simulate.work import Work, work_of


@dataclass(frozen=True, slots=True)
class Compared:
    """results: the first is the program's own GPU alone, to which others are compared."""

    profile: Profile
    work: Work
    load: Load
    results: tuple[Result, ...]
    runs: tuple[Ran, ...]

    def gain(self, of: Result) -> float:
        """How many times as many requests as the home GPU alone."""
        return self.results[0].period_ns / of.period_ns if of.period_ns else 0.0


def carries(profile: Profile) -> bool:
    """Iterations need something of those before: only several clients' can be at several GPUs."""
    return bool(profile.iteration.carried)


def placements(profile: Profile, work: Work) -> list[Placement]:
    """Alone on each type of GPU, home's first; whole requests to all; launch by launch."""
    machine = profile.machine
    tasks = len(work.tasks)
    found: list[Placement] = [place.alone(tasks, machine.home, f"GPU {machine.home} alone")]
    seen = {machine.home_type}
    for gpu, of in enumerate(machine.gpus):
        if of not in seen:
            seen.add(of)
            found.append(place.alone(tasks, gpu, f"GPU {gpu} alone"))
    if len(machine.gpus) > 1:
        speeds = [1.0 / (sum(task.ns[gpu] for task in work.tasks) or 1.0) for gpu in range(len(machine.gpus))]
        found.append(place.router(tasks, speeds))
        found.append(place.ByRule(machine))
    return found


def compare(
    profile: Profile, load: Load, more: Sequence[Placement] = (), *, keep: bool = False, work: Work | None = None
) -> Compared:
    """load: with 0 requests, as many as it takes. more: other placements, such as a plan's."""
    work = work or work_of(profile)
    if not load.requests:
        load = replace(load, requests=enough(work, load.servers))
    ran = [simulate(profile, work, each, load, keep=keep) for each in (*placements(profile, work), *more)]
    return Compared(profile, work, load, tuple(result for result, _ in ran), tuple(run for _, run in ran))
