"""A profile as a problem: what its iteration reads of whom, what has to be in memory, and which GPUs are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from controlplane.graph.nodes import UNWRITTEN, Why
from controlplane.graph.versions import dependencies
from controlplane.plan.problem import Floats, Kind, Links, Objective, Problem, Residents, Values, sets
from controlplane.policy.decide import Decider, Launch
from controlplane.policy.language import Policy
from controlplane.profile.model import HOST, Machine, Profile, Role
from controlplane.profile.program import unrolled
from ptxtools.errors import ConfigError

STREAM_NS = 400.0  # what a message takes of the streams of both sides: a wait, a fence
T = TypeVar("T")
NO_STREAM = -1  # of a launch of which it is not known
NOT_IN_PROFILES = "stream", "process", "library_call"  # of the conditions of a rule
SLOWEST = 1e-3  # bytes per ns of a link that nobody has
MUCH_SLOWER = 0.5  # of the rate of the fastest link between two types


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. policy: its rules pin launches, its executors are the GPUs besides home. figures of GPUs by
    key or name: dollars per hour, and watts when busy and idle.
    """

    objective: Objective = Objective.THROUGHPUT
    requests: int = 1
    policy: Policy | None = None
    dollars: Mapping[str, float] | None = None
    watts: Mapping[str, tuple[float, float]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """notes: what a reader of the plan should know of the problem."""

    problem: Problem
    notes: tuple[str, ...]


def problem_of(profile: Profile, wanted: Wanted) -> Given:
    """Errors: ConfigError, of a policy for other GPUs; PlanError."""
    machine, notes = profile.machine, list[str]()
    gpus = _gpus(machine, wanted.policy)
    pins = _pins(profile, wanted.policy)
    kinds, types = _kinds(machine, gpus, set(pins.values()), wanted)
    ns = _times(profile, types, notes)
    count = len(ns)
    allowed = np.ones((count, len(kinds)), dtype=np.bool_)
    for operation, gpu in pins.items():
        allowed[operation] = [gpu in kind.numbers for kind in kinds]
    if pins:
        pinned = sum(gpu == machine.home for gpu in pins.values())
        notes.append(
            f"{pinned} of {count} operations have to be at home, {len(pins) - pinned} on another GPU by a rule"
        )
    notes += _not_known(wanted.policy)
    label = np.array([operation.of for operation in profile.iteration.operations], dtype=np.int64)
    given = Problem(
        kinds,
        ns,
        label,
        np.arange(count),
        allowed,
        _state(profile, count),
        _values(profile),
        _residents(profile),
        _links(machine, kinds),
        wanted.objective,
        wanted.requests,
        sum(operation.host_ns for operation in profile.iteration.operations),
        float(sum(allocation.bytes_of(Role.OWN) for allocation in profile.allocations)),
    )
    return Given(given, tuple(notes))


def _gpus(machine: Machine, policy: Policy | None) -> list[int]:
    if policy is None:
        return list(range(len(machine.gpus)))
    numbers = [policy.home, *(executor.device for executor in policy.executors)]
    for number in numbers:
        if number >= len(machine.gpus):
            raise ConfigError(
                f"its GPU {number} is not in the profile",
                expected=f"a policy for GPUs 0 to {len(machine.gpus) - 1}, or a profile of the machine that it is for",
                file=policy.file,
            )
    if policy.home != machine.home:
        raise ConfigError(
            f"its home is GPU {policy.home}, the profile's is {machine.home}",
            expected="a policy and a profile of the same program",
            file=policy.file,
        )
    return numbers


def _pins(profile: Profile, policy: Policy | None) -> dict[int, int]:
    """GPUs by operation: what may touch anything is at home; then rules."""
    home, found = profile.machine.home, dict[int, int]()
    decider = Decider(policy) if policy is not None else None
    for number, operation in enumerate(profile.iteration.operations):
        of = profile.classes[operation.of]
        if operation.unknown:
            found[number] = home
        elif decider is not None and policy is not None and of.function:
            blocks, threads = (int(np.prod(shape)) for shape in (of.grid, of.block))
            place = decider.decide(Launch(of.function, blocks, threads, NO_STREAM, module=(of.module,)))
            if place is not None and policy.rules[place].device >= 0:
                found[number] = policy.rules[place].device
    return found


def _not_known(policy: Policy | None) -> list[str]:
    """Notes of rules with conditions of which a profile says nothing: a profile's streams have numbers of its own."""
    found = []
    for rule in policy.rules if policy is not None else ():
        words = [word.replace("_", " ") for word in NOT_IN_PROFILES if getattr(rule.match, word) is not None]
        if words:
            what = " and ".join(words)
            found.append(f"the rule in line {rule.line} is not held: a profile does not say the {what} of launches")
    return found


def _kinds(
    machine: Machine, gpus: Sequence[int], pinned: set[int], wanted: Wanted
) -> tuple[tuple[Kind, ...], list[int]]:
    """Kinds, home's first, and the profile's type of each. GPUs that launches are pinned to are kinds of their own; so
    are equal ones of which some have much slower links to others.
    """
    limits = {each.device: each.memory_limit_bytes for each in wanted.policy.executors} if wanted.policy else {}
    groups: dict[tuple[int, int, int, tuple[int, ...]], list[int]] = {}
    fast = _fast_links(machine, gpus)
    for number in sorted(gpus, key=lambda each: (each != machine.home, each)):
        key = machine.gpus[number], limits.get(number) or 0, number if number in pinned else -1, fast[number]
        groups.setdefault(key, []).append(number)
    kinds = []
    for (of, limit, *_), numbers in groups.items():
        kind = machine.types[of]
        name = kind.key or kind.name
        if kind.sm_limit and kind.sm_limit < kind.sm_count:
            name += f" ({kind.sm_limit} SMs)"
        busy, idle = _figure(wanted.watts, kind.key, kind.name, (0.0, 0.0))
        dollars = _figure(wanted.dollars, kind.key, kind.name, 0.0)
        memory = min(limit, kind.memory_bytes) if limit else kind.memory_bytes
        kinds.append(Kind(name, len(numbers), memory, dollars, busy, idle, tuple(numbers)))
    return tuple(kinds), [of for of, *_ in groups]


def _fast_links(machine: Machine, gpus: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """By GPU: to how many GPUs of each type, and from how many, it has links that are not much slower than the fastest
    one between these types.
    """
    rates = {(link.source, link.target): link.bytes_per_s for link in machine.links}
    pairs = [(source, target) for source in gpus for target in gpus if source != target]
    best: dict[tuple[int, int], float] = {}
    for source, target in pairs:
        types = machine.gpus[source], machine.gpus[target]
        best[types] = max(best.get(types, 0), rates.get((source, target), 0))
    found = {number: [0] * (2 * len(machine.types)) for number in gpus}
    for source, target in pairs:
        of, to = machine.gpus[source], machine.gpus[target]
        if rates.get((source, target), 0) >= MUCH_SLOWER * best[of, to]:
            found[source][2 * to] += 1
            found[target][2 * of + 1] += 1
    return {number: tuple(counts) for number, counts in found.items()}


def _figure(figures: Mapping[str, T] | None, key: str, name: str, none: T) -> T:
    return (figures or {}).get(key, (figures or {}).get(name, none))


def _times(profile: Profile, types: Sequence[int], notes: list[str]) -> Floats:
    machine = profile.machine
    times = np.zeros((len(profile.iteration.operations), len(types)))
    by_class = np.zeros((len(profile.classes), len(types)))
    for column, of in enumerate(types):
        unknown = 0
        for number, each in enumerate(profile.classes):
            time = each.times[of]
            if time is None:
                time = each.times[machine.home_type]
                unknown += 1
            by_class[number, column] = time.ns if time is not None else 0.0
        if unknown and of != machine.home_type:
            home = machine.types[machine.home_type].name
            notes.append(
                f"times of {unknown} of {len(profile.classes)} classes on {machine.types[of].name} are not known: "
                f"those on {home} are taken"
            )
    for number, operation in enumerate(profile.iteration.operations):
        times[number] = by_class[operation.of]
    return times


def _values(profile: Profile) -> Values:
    """Fresh bytes, by writer and piece; and what an iteration needs of an earlier one, as if of itself."""
    found = dependencies(unrolled(profile, 1))
    sizes: dict[tuple[int, int], dict[int, int]] = {}
    for reader, needs in enumerate(found.fresh):
        for piece, size, why, writer in needs:
            if writer != UNWRITTEN and why is not Why.ANYTHING:
                while found.parents[piece] != piece:
                    piece = found.parents[piece]
                readers = sizes.setdefault((writer, piece), {})
                readers[reader] = readers.get(reader, 0) + size
    for place, each in enumerate(profile.iteration.carried):
        if each.writer != each.reader:
            sizes.setdefault((each.writer, -1 - place), {})[each.reader] = each.bytes
    keys = sorted(sizes)
    return Values(
        np.array([writer for writer, _ in keys], dtype=np.int64),
        np.array([max(sizes[key].values()) for key in keys], dtype=np.float64),
        np.ones(len(keys)),
        sets([sorted(sizes[key]) for key in keys]),
    )


def _residents(profile: Profile) -> Residents:
    """Constants, cut where their users change."""
    spans: list[list[tuple[int, int, int]]] = [[] for _ in profile.allocations]
    for number, operation in enumerate(profile.iteration.operations):
        for access in operation.accesses:
            spans[access.allocation].append((access.offset, access.offset + access.size, number))
    total: dict[tuple[int, ...], int] = {}
    for allocation, some in zip(profile.allocations, spans, strict=True):
        for extent in allocation.extents:
            if extent.role is Role.CONSTANT:
                _cut(extent.offset, extent.offset + extent.size, some, total)
    keys = sorted(total)
    return Residents(np.array([total[key] for key in keys], dtype=np.float64), sets([list(key) for key in keys]))


def _cut(first: int, end: int, spans: Sequence[tuple[int, int, int]], total: dict[tuple[int, ...], int]) -> None:
    inside = [(max(a, first), min(b, end), user) for a, b, user in spans if a < end and b > first]
    events = sorted([(a, 1, user) for a, _, user in inside] + [(b, 0, user) for _, b, user in inside])
    active: dict[int, int] = {}
    before = first
    for at, is_begin, user in events:
        if at > before and active:
            key = tuple(sorted(active))
            total[key] = total.get(key, 0) + at - before
        before = at
        active[user] = active.get(user, 0) + (1 if is_begin else -1)
        if not active[user]:
            del active[user]


def _state(profile: Profile, count: int) -> Floats:
    """What an iteration leaves to later ones, by the operation that writes it last."""
    state = np.zeros(count)
    writers: dict[int, list[tuple[int, int, int]]] = {}
    for number, operation in enumerate(profile.iteration.operations):
        for access in operation.accesses:
            if access.kind.value == "w":
                writers.setdefault(access.allocation, []).append((access.offset, access.offset + access.size, number))
    for number, allocation in enumerate(profile.allocations):
        for extent in allocation.extents:
            if extent.role is Role.CARRIED:
                end = extent.offset + extent.size
                users = [user for a, b, user in writers.get(number, []) if a < end and b > extent.offset]
                if users:
                    state[max(users)] += extent.size
    return state


def _links(machine: Machine, kinds: Sequence[Kind]) -> Links:
    """Of the slowest pair of each two kinds."""
    size = len(kinds)
    per_byte, message, latency = np.zeros((3, size, size))
    stream = np.full((size, size), STREAM_NS)
    figures = {(link.source, link.target): link for link in machine.links if HOST not in (link.source, link.target)}
    for a, sender in enumerate(kinds):
        for b, receiver in enumerate(kinds):
            for source in sender.numbers:
                for target in receiver.numbers:
                    if source == target:
                        continue
                    link = figures.get((source, target))
                    rate = max(link.bytes_per_s / 1e9, SLOWEST) if link is not None else SLOWEST
                    per_byte[a, b] = max(per_byte[a, b], 1 / rate)
                    message[a, b] = max(message[a, b], link.latency_ns if link is not None else 0.0)
                    latency[a, b] = max(latency[a, b], link.fence_ns if link is not None else 0.0)
    return Links(per_byte, message, latency, stream)
