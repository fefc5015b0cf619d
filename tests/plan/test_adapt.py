"""When a run follows another plan: a controller and a simulated run, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

from controlplane.plan import planfile, planner, situation
from controlplane.plan.adapt import Controller, Limits, Seen, Shape, Situation, Swap
from controlplane.plan.planfile import Plan
from controlplane.plan.profiled import Wanted, problem_of
from controlplane.profile.model import Profile
from controlplane.simulate.load import Load
from controlplane.simulate.place import Fixed
from controlplane.simulate.result import simulate
from controlplane.simulate.work import work_of
from tests.plan import profiles
from tests.sample import sampled

STEP_NS = 50e6  # between looks
SECOND = 1e9
PROFILE = profiles.layered(("h200", "l40s"), 4)
ROWS, COUNTS = situation.times(PROFILE)
WIDE: Shape = ((128, 1, 1), (256, 1, 1), 0)


def first_plan(requests: int) -> Plan:
    planned = planner.plan(problem_of(PROFILE, Wanted(requests=requests)).problem)
    return planfile.make(PROFILE, planned)


@dataclass
class Run:
    """What a program does whose plan the controller chooses. true: what is, at a time. misled: plans made for more than
    so many requests are really slower by that much.
    """

    plan: Plan
    true: Callable[[float], Situation]
    noise: float = 0.0
    misled: Callable[[Plan], float] = lambda plan: 1.0  # noqa: ARG005
    swaps: list[Swap] = field(default_factory=list)
    periods: dict[object, float] = field(default_factory=dict)
    known: dict[object, Plan | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made = situation.replanner(PROFILE, self.plan)

        def replan(of: Situation) -> Plan | None:
            key = (of.requests, of.speeds, of.lost, tuple(of.shapes))
            if key not in self.known:
                self.known[key] = made(of)
            return self.known[key]

        self.replan = replan
        self.controller = Controller(self.plan, ROWS, COUNTS, replan)
        self.requests = self.in_flight = self.placed = self.strange = 0.0
        self.chance = random.Random(1)

    def period(self, plan: Plan, of: Situation) -> float:
        """By simulation, as it really is. A GPU that is lost leaves its work to home."""
        key = (plan.groups, plan.placements, of.requests, of.speeds, of.lost, tuple(of.shapes))
        if key not in self.periods:
            there = situation.in_situation(PROFILE, situation.class_places(PROFILE), of)
            patterns = planfile.patterns(replace(plan, code=planfile.code_of(there)), there, Path("plan"))
            left = [(weight, [0 if gpu in of.lost else gpu for gpu in gpus]) for weight, gpus in patterns]
            load = Load(4 * of.requests + 8, (), of.requests)
            self.periods[key] = simulate(there, work_of(there), Fixed("plan", left), load)[0].period_ns
        return self.periods[key] * self.misled(plan)

    def until(self, end_ns: float, now_ns: float = 0.0) -> None:
        while now_ns < end_ns:
            now_ns += STEP_NS
            true = self.true(now_ns)
            began = STEP_NS / self.period(self.controller.plan, true) * (1 + self.noise * self.chance.uniform(-1, 1))
            self.requests += began
            self.in_flight += began * true.requests * (1 + self.noise * self.chance.uniform(-1, 1))
            self.placed += 8 * began
            classes = self.controller.plan.classes
            shapes = {number: each for number, each in true.shapes.items() if classes[number].grid != each[0][0]}
            self.strange += 8 * began if shapes else 0
            ns = tuple(tuple(ns * speed for ns, speed in zip(row, true.speeds, strict=True)) for row in ROWS)
            requests, in_flight = int(self.requests), int(self.in_flight)
            placed, strange = int(self.placed), int(self.strange)
            seen = Seen(now_ns, requests, in_flight, placed, strange, ns, true.lost, shapes)
            swap = self.controller.step(seen)
            if swap is not None:
                self.swaps.append(swap)

    def is_best(self, now_ns: float) -> bool:
        """What is followed is hardly slower than a plan that is made for what is true then."""
        true = self.true(now_ns)
        wanted = self.replan(true)
        assert wanted is not None
        return self.period(self.controller.plan, true) < 1.03 * self.period(wanted, true)


USUAL = Situation(4, (1.0, 1.0))
CHANGES = {
    "load step": (1, replace(USUAL, requests=1), replace(USUAL, requests=8)),
    "less load": (8, replace(USUAL, requests=8), replace(USUAL, requests=1)),
    "a GPU slowed by half": (4, USUAL, replace(USUAL, speeds=(1.0, 2.0))),
    "home slowed by half": (4, USUAL, replace(USUAL, speeds=(2.0, 1.0))),
    "dead executor": (4, USUAL, replace(USUAL, lost=frozenset({1}))),
    "other shapes": (4, USUAL, replace(USUAL, shapes={0: (WIDE, (100e3, 2700e3))})),
}


@pytest.mark.parametrize("name", sampled(CHANGES, ["a GPU slowed by half"]))
def test_the_better_plan_is_followed_within_two_seconds(name: str) -> None:
    requests, before, after = CHANGES[name]
    run = Run(first_plan(requests), lambda now: before if now <= 5 * SECOND else after)
    run.until(5 * SECOND)
    assert run.swaps == []
    run.until(7 * SECOND, 5 * SECOND)
    assert run.is_best(7 * SECOND), run.swaps
    assert 1 <= len(run.swaps) <= 2
    run.until(600 * SECOND, 7 * SECOND)
    assert len(run.swaps) <= 2, [(each.at_ns / SECOND, each.reason) for each in run.swaps]
    assert run.is_best(600 * SECOND)


@pytest.mark.full
def test_noise_changes_nothing() -> None:
    run = Run(first_plan(4), lambda now: USUAL, noise=0.3)  # noqa: ARG005
    run.until(600 * SECOND)
    assert run.swaps == []


@pytest.mark.full
@pytest.mark.parametrize("every", [0.4, 1.0, 5.0])
def test_a_load_that_goes_up_and_down_is_not_followed_each_time(every: float) -> None:
    some, many = replace(USUAL, requests=1), replace(USUAL, requests=8)
    run = Run(first_plan(1), lambda now: many if now / SECOND % (2 * every) > every else some)
    run.until(600 * SECOND)
    assert len(run.swaps) <= 25, len(run.swaps)
    later = [each for each in run.swaps if each.at_ns > 300 * SECOND and not each.is_back]
    assert len(later) <= 6


def test_a_plan_that_turns_out_worse_is_left_again_and_not_tried_at_once() -> None:
    """Whatever is made for more than one request is really half as fast."""
    start = first_plan(1)
    run = Run(start, lambda now: replace(USUAL, requests=1) if now < SECOND else replace(USUAL, requests=8))
    run.misled = lambda plan: 1.0 if plan.requests == 1 else 4.0
    run.until(60 * SECOND)
    assert [each.is_back for each in run.swaps] == [False, True]
    assert run.controller.plan == start
    assert run.swaps[1].at_ns - run.swaps[0].at_ns < 2 * SECOND
    assert run.controller.effects[0].after_ns > run.controller.effects[0].before_ns


@pytest.mark.full
def test_swaps_are_not_closer_than_the_limits_say() -> None:
    states = [replace(USUAL, requests=each) for each in (1, 4, 16)]
    run = Run(first_plan(1), lambda now: states[int(now / (0.7 * SECOND)) % 3])
    run.until(60 * SECOND)
    times = [each.at_ns for each in run.swaps if not each.is_back]
    gaps = [later - before for before, later in pairwise(times)]
    assert min(gaps) >= Limits().apart_ns
    assert gaps[-1] > 4 * Limits().apart_ns


def test_in_another_situation_gpus_of_one_type_may_differ() -> None:
    two: Profile = profiles.layered(("h200", "h200"), 2)
    there = situation.in_situation(two, situation.class_places(two), Situation(4, (1.0, 2.0)))
    assert there.machine.gpus == (0, 1)
    assert [time.ns for time in there.classes[0].times if time is not None] == [300e3, 600e3]
    assert len(planfile.make(there, planner.plan(problem_of(there, Wanted(requests=4)).problem)).groups) == 2
