"""A plan for another situation than that of the profile: other speeds, fewer GPUs, other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from controlplane.plan import planfile, planner
from controlplane.plan.adapt import Replan, Row, Situation
from controlplane.plan.judged import judge_of
from controlplane.plan.planfile import Plan
from controlplane.plan.profiled import Wanted, problem_of
from controlplane.policy.read import scheduled
from controlplane.profile.model import Machine, Profile, Source, Time
from ptxtools.errors import PlanError

SECONDS = 1.0  # that the linear program may take


def replanner(profile: Profile, plan: Plan) -> Replan:
    """profile: that the plan was made of."""
    places = class_places(profile)

    def replan(situation: Situation) -> Plan | None:
        there = in_situation(profile, places, situation)
        gpus = [gpu for gpu in range(len(plan.gpus)) if gpu not in situation.lost]
        policy = scheduled(plan.home, [gpu for gpu in gpus if gpu != plan.home])
        wanted = Wanted(plan.objective, situation.requests, policy)
        try:
            found = planner.plan(problem_of(there, wanted).problem, SECONDS, judge_of(there, situation.requests))
        except PlanError:
            return None
        return replace(planfile.make(there, found), code=plan.code)

    return replan


def class_places(profile: Profile) -> list[int]:
    """The profile's classes in the order of a plan's: as they come in the iteration."""
    return list(dict.fromkeys(operation.of for operation in profile.iteration.operations))


def times(profile: Profile) -> tuple[tuple[Row, ...], tuple[int, ...]]:
    """By class of a plan: nanoseconds on each GPU, and how many launches of it are in the iteration."""
    rows, counts, used = [], [], [operation.of for operation in profile.iteration.operations]
    for place in class_places(profile):
        of = profile.classes[place]
        by_type = [0.0 if time is None else time.ns for time in of.times]
        rows.append(tuple(by_type[gpu_type] for gpu_type in profile.machine.gpus))
        counts.append(used.count(place))
    return tuple(rows), tuple(counts)


def in_situation(profile: Profile, places: Sequence[int], situation: Situation) -> Profile:
    """GPUs that were of one type and are not as fast now are of two."""
    machine = profile.machine
    kinds: dict[tuple[int, float], int] = {}
    gpus = tuple(
        kinds.setdefault((of, round(speed, 2)), len(kinds))
        for of, speed in zip(machine.gpus, situation.speeds, strict=True)
    )
    first = {of: gpus.index(of) for of in set(gpus)}
    shapes = {places[number]: each for number, each in situation.shapes.items()}
    classes = []
    for number, of in enumerate(profile.classes):
        shape, row = shapes.get(number, ((of.grid, of.block, of.shared_bytes), ()))
        known = [ns for ns in row if ns > 0]
        made: list[Time | None] = []
        for (gpu_type, speed), column in kinds.items():
            time = of.times[gpu_type]
            if known:
                ns = row[first[column]] or _scaled(of.times, machine, row, gpu_type)
                made.append(Time(ns, 1, 0.0, Source.MEASURED))
            else:
                made.append(None if time is None else replace(time, ns=time.ns * speed))
        grid, block, shared_bytes = shape
        classes.append(replace(of, grid=grid, block=block, shared_bytes=shared_bytes, times=tuple(made)))
    types = tuple(machine.types[of] for of, _ in kinds)
    there: Machine = replace(machine, types=types, gpus=gpus)
    return replace(profile, machine=there, classes=tuple(classes))


def _scaled(before: Sequence[Time | None], machine: Machine, row: Row, gpu_type: int) -> float:
    """On a type of GPU where the new shape has not run, as the old one compared there with one where it has."""
    gpu = next(number for number, ns in enumerate(row) if ns > 0)
    known, here = before[machine.gpus[gpu]], before[gpu_type]
    return row[gpu] * (here.ns / known.ns if known is not None and here is not None and known.ns else 1.0)
