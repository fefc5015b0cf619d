"""Plans as files: JSON with a schema and a version, the same bytes for the same plan.

A plan names what it was made for: the classes of launches, their order, and the GPUs. Whoever has another program or
other GPUs is told so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import lcm
from pathlib import Path
from typing import NamedTuple

import numpy as np

from controlplane.base import valuefile
from controlplane.graph.nodes import What
from controlplane.graph.versions import dependencies
from controlplane.plan.candidate import MOST_TURNS, Candidate
from controlplane.plan.planner import Planned
from controlplane.plan.problem import Ints, Objective
from controlplane.profile.model import Profile
from controlplane.profile.program import unrolled
from ptxtools.errors import ConfigError

SCHEMA = "tessera.plan/2"
AGAIN = "tessera plan PROFILE -o FILE makes one"


class Run(NamedTuple):
    """Operations first to end - 1 of the iteration, on a kind of GPU."""

    first: int
    end: int
    kind: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Of so many of the requests, in proportion."""

    weight: float
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Equal GPUs, by their numbers: they take requests in turn."""

    name: str
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClassHint:
    """A class of operations. cost: how long one takes on each group, over the shortest. groups: where it runs, by its
    place in the iteration the first one first; more than one where the plan needs several. is_tied: in each of its
    places on the same. bytes, from_host: of a copy or memset.
    """

    function: str
    module: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    cost: tuple[float, ...]
    groups: tuple[int, ...]
    is_tied: bool = True
    what: What = What.LAUNCH
    bytes: int = 0
    from_host: bool = False


@dataclass(frozen=True, slots=True)
class Baseline:
    name: str
    period_ns: float
    latency_ns: float
    worth: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """For one request. busy, out, into: shares of the period, of one GPU of each group and its ports."""

    period_ns: float
    latency_ns: float
    bound_ns: float
    gap: float
    worth: float
    busy: tuple[float, ...]
    out: tuple[float, ...]
    into: tuple[float, ...]
    memory_bytes: tuple[float, ...]
    moved_bytes: float


@dataclass(frozen=True, slots=True)
class Plan:
    """program: the profile's; code: a hash of its classes and their order; gpus: the type of each, as in the profile.

    operations: the class of each operation of the iteration, its place in `classes`. continues: operations that read
    what the one before them in their stream wrote. carries: iterations need what earlier ones of their thread left.
    signals: operations that other GPUs wait for. fallback: where launches go that the plan does not know.
    """

    program: str
    code: str
    gpus: tuple[str, ...]
    home: int
    objective: Objective
    requests: int
    chosen: str
    groups: tuple[Group, ...]
    placements: tuple[Placement, ...]
    operations: tuple[int, ...]
    continues: tuple[int, ...]
    carries: bool
    signals: tuple[int, ...]
    classes: tuple[ClassHint, ...]
    predicted: Prediction
    baselines: tuple[Baseline, ...]
    fallback: str = "rule"
    notes: tuple[str, ...] = ()


def make(profile: Profile, planned: Planned, notes: Sequence[str] = ()) -> Plan:
    chosen = planned.chosen
    weights = np.array([weight for weight, _ in chosen.mixture])
    order = np.argsort(-weights, kind="stable")
    mixture = [chosen.mixture[each] for each in order.tolist()]
    classes, operations = _classes(profile, chosen)
    return Plan(
        profile.program,
        code_of(profile),
        tuple(profile.machine.types[of].name for of in profile.machine.gpus),
        profile.machine.home,
        planned.given.objective,
        planned.given.requests,
        chosen.name,
        tuple(Group(kind.name, kind.numbers) for kind in chosen.given.kinds),
        tuple(Placement(round(weight, 9), _runs(kind)) for weight, kind in mixture),
        operations,
        _continues(profile),
        bool(profile.iteration.carried),
        _signals(chosen),
        classes,
        _predicted(planned),
        tuple(Baseline(each.name, each.period_ns, each.latency_ns, each.worth) for each in planned.candidates),
        notes=tuple(notes),
    )


def code_of(profile: Profile) -> str:
    """What a plan's places are places of."""
    text = hashlib.sha256()
    for each in profile.classes:
        text.update(repr((each.what.value, each.function or each.name, each.module, each.grid, each.block)).encode())
    text.update(repr([operation.of for operation in profile.iteration.operations]).encode())
    return f"sha256:{text.hexdigest()}"


def _runs(kind: Ints) -> tuple[Run, ...]:
    begins = np.concatenate([[0], np.flatnonzero(np.diff(kind)) + 1, [len(kind)]]).tolist()
    return tuple(Run(first, end, int(kind[first])) for first, end in pairwise(begins))


def _signals(chosen: Candidate) -> tuple[int, ...]:
    values, found = chosen.given.values, set[int]()
    owner, reader = values.consumers.owners(), values.consumers.members
    writer = values.producer[owner]
    for _, kind in chosen.mixture:
        found.update(writer[kind[writer] != kind[reader]].tolist())
    return tuple(sorted(found))


def _continues(profile: Profile) -> tuple[int, ...]:
    fresh, found, last = dependencies(unrolled(profile)).fresh, list[int](), dict[int, int]()
    for number, operation in enumerate(profile.iteration.operations):
        if operation.stream in last and any(writer == last[operation.stream] for *_, writer in fresh[number]):
            found.append(number)
        last[operation.stream] = number
    for each in profile.iteration.carried:  # of the first ones of their streams
        stream = profile.iteration.operations[each.reader].stream
        first = all(one.stream != stream for one in profile.iteration.operations[: each.reader])
        if first and each.back == 1 and last[stream] == each.writer:
            found.append(each.reader)
    return tuple(sorted(set(found)))


def _classes(profile: Profile, chosen: Candidate) -> tuple[tuple[ClassHint, ...], tuple[int, ...]]:
    """And of which each operation is."""
    groups: dict[int, dict[int, None]] = {}
    _, kind = max(chosen.mixture, key=lambda each: each[0])
    rows: dict[int, list[float]] = {}
    for number, operation in enumerate(profile.iteration.operations):
        groups.setdefault(operation.of, {})[int(kind[number])] = None
        rows.setdefault(operation.of, chosen.given.ns[number].tolist())
    found, places = list[ClassHint](), dict[int, int]()
    for of, used in groups.items():
        each = profile.classes[of]
        least = max(min(rows[of]), 1e-9)
        places[of] = len(found)
        found.append(
            ClassHint(
                each.function,
                each.module,
                each.grid,
                each.block,
                each.shared_bytes,
                tuple(round(ns / least, 4) for ns in rows[of]),
                tuple(used),
                len(used) == 1,
                each.what,
                0 if each.what is What.LAUNCH else each.bytes,
                each.from_host,
            )
        )
    return tuple(found), tuple(places[operation.of] for operation in profile.iteration.operations)


def _predicted(planned: Planned) -> Prediction:
    chosen = planned.chosen
    kinds, period = len(chosen.given.kinds), max(chosen.period_ns, 1e-9)
    busy, out, into = (
        tuple(round(float(each) / period, 6) for each in chosen.rows[part * kinds : (part + 1) * kinds])
        for part in range(3)
    )
    return Prediction(
        round(chosen.period_ns, 3),
        round(chosen.latency_ns, 3),
        round(planned.bound_ns, 3),
        round(planned.gap, 6),
        chosen.worth,
        busy,
        out,
        into,
        tuple(round(float(each)) for each in chosen.memory),
        round(float(chosen.sent.sum())),
    )


def pack(plan: Plan) -> bytes:
    return valuefile.pack(plan, SCHEMA)


def write(plan: Plan, file: Path, option: str = "-o ") -> None:
    """Errors: ConfigError when it cannot be written."""
    try:
        file.write_bytes(pack(plan))
    except OSError as error:
        raise ConfigError(f"{option}{file}: {error.strerror}", expected="a writable file") from error


def read(file: Path) -> Plan:
    """Errors: ConfigError, with the file, the place in it, and what is expected there."""
    plan = valuefile.read(file, Plan, SCHEMA, again=AGAIN)

    def wrong(place: str, what: str, expected: str) -> ConfigError:
        return ConfigError(f"{place}: {what}", expected=f"{expected} ({AGAIN})", file=file)

    for number, group in enumerate(plan.groups):
        if not group.gpus or not all(0 <= gpu < len(plan.gpus) for gpu in group.gpus):
            raise wrong(
                f"groups[{number}]", f"its GPUs are {list(group.gpus)}", f"numbers from 0 to {len(plan.gpus) - 1}"
            )
    if not plan.placements:
        raise wrong("placements", "there are none", "at least one")
    if not all(0 <= of < len(plan.classes) for of in plan.operations):
        raise wrong("operations", "one is of no class", f"numbers from 0 to {len(plan.classes) - 1}")
    if not all(0 <= number < len(plan.operations) for number in (*plan.continues, *plan.signals)):
        raise wrong("continues, signals", "one is no operation", f"numbers from 0 to {len(plan.operations) - 1}")
    for number, placement in enumerate(plan.placements):
        place = 0
        for run in placement.runs:
            if run.first != place or run.end <= run.first or not 0 <= run.kind < len(plan.groups):
                raise wrong(f"placements[{number}]", f"{list(run)} does not continue it", f"a run from {place} on")
            place = run.end
        if placement.weight <= 0 or place != len(plan.operations):
            raise wrong(
                f"placements[{number}]", "its weight or its length is wrong", "a weight, and as many operations"
            )
    return plan


def patterns(plan: Plan, profile: Profile, file: Path) -> list[tuple[float, list[int]]]:
    """(weight, GPU of each operation): one for each turn of the GPUs. Errors: ConfigError, of a plan for others."""
    check(plan, profile, file)
    found = []
    for placement in plan.placements:
        used = sorted({run.kind for run in placement.runs})
        turns = min(lcm(*(len(plan.groups[kind].gpus) for kind in used)), MOST_TURNS)
        for turn in range(turns):
            gpus: list[int] = []
            for run in placement.runs:
                members = plan.groups[run.kind].gpus
                gpus += [members[turn % len(members)]] * (run.end - run.first)
            found.append((placement.weight / turns, gpus))
    return found


def check(plan: Plan, profile: Profile, file: Path) -> None:
    """Errors: ConfigError, of a plan for others."""
    there = tuple(profile.machine.types[of].name for of in profile.machine.gpus)
    if there != plan.gpus:
        raise ConfigError(
            f"it is for {', '.join(plan.gpus)}, the profile is of {', '.join(there)}",
            expected=f"a plan for these GPUs ({AGAIN})",
            file=file,
        )
    if plan.code != code_of(profile):
        raise ConfigError(
            f"it is for other launches: of {plan.program}, the profile is of {profile.program}",
            expected=f"a plan of this profile's program ({AGAIN})",
            file=file,
        )
