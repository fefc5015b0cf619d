"""What is planned: the work of one request, the GPUs, and what is wanted. Plain values, checked when they are made.

A *node* is a launch, or several that belong together. A *value* is bytes that one node writes and others read: they are
shipped once to each kind of GPU that reads them and lacks them. A *resident* is memory that is on every kind of GPU
where one of its users runs: weights, or the state of each request, whose users then all run in one place.

GPUs are given by *kind*: `count` equal ones that take requests in turn, each of them having what its kind has.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ptxtools.errors import PlanError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_KINDS = 16


class Objective(Enum):
    """What is made as small as possible: time between ends of requests, time of one, dollars or energy for one."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    COST = "cost"
    ENERGY = "energy"


@dataclass(frozen=True, slots=True)
class Kind:
    """Equal GPUs. numbers: which ones of the machine; first of them, those that a policy names."""

    name: str
    count: int
    memory_bytes: float
    dollars_per_hour: float = 0.0
    watts: float = 0.0
    idle_watts: float = 0.0
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Sets:
    """Sets of nodes, one after another: the i-th is members[start[i] : start[i + 1]]."""

    start: Ints
    members: Ints

    def __len__(self) -> int:
        return len(self.start) - 1

    def owners(self) -> Ints:
        """For each member, the number of its set."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.start))


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """By value: who writes it, bytes, messages that ship it (several that were joined count several), readers."""

    producer: Ints
    bytes: Floats
    messages: Floats
    consumers: Sets


@dataclass(frozen=True, slots=True, eq=False)
class Residents:
    """By resident: bytes and users."""

    bytes: Floats
    users: Sets


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """From kind (row) to kind (column). message_ns: a port is busy for each message besides its bytes; latency_ns:
    until it is seen; stream_ns: what each message takes of the streams of both sides.
    """

    ns_per_byte: Floats
    message_ns: Floats
    latency_ns: Floats
    stream_ns: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """ns: of each node (row) on each kind. label: equal for nodes that are alike. tie: equal for nodes that have to be
    on one GPU. allowed: which kinds may run a node. state_bytes: of each request, by node that keeps them; they are
    where it runs. requests: in flight at once. host_ns: what the host needs to launch one request. own_bytes: that each
    request has for itself, on every GPU that it may run on.
    """

    kinds: tuple[Kind, ...]
    ns: Floats
    label: Ints
    tie: Ints
    allowed: Flags
    state_bytes: Floats
    values: Values
    residents: Residents
    links: Links
    objective: Objective = Objective.THROUGHPUT
    requests: int = 4
    host_ns: float = 0.0
    own_bytes: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def nodes(self) -> int:
        return len(self.ns)

    @property
    def counts(self) -> Floats:
        return np.array([kind.count for kind in self.kinds], dtype=np.float64)

    @property
    def held(self) -> Floats:
        """Bytes that requests have for themselves on one GPU of each kind."""
        return np.asarray(np.ceil(self.requests / self.counts) * self.own_bytes)

    @property
    def capacity(self) -> Floats:
        """Bytes of one GPU of each kind, less what requests have there in any case."""
        return np.array([kind.memory_bytes for kind in self.kinds], dtype=np.float64) - self.held


def summed(place: Ints, amounts: Floats, size: int) -> Floats:
    """By place, the sum of the amounts there."""
    return np.asarray(np.bincount(place, amounts, size), dtype=np.float64)


def sets(lists: list[list[int]]) -> Sets:
    start = np.cumsum([0, *(len(each) for each in lists)], dtype=np.int64)
    return Sets(start, np.array([member for each in lists for member in each], dtype=np.int64))


def links(
    kinds: int, bytes_per_ns: float, message_ns: float = 0.0, latency_ns: float = 0.0, stream_ns: float = 0.0
) -> Links:
    """The same between any two."""
    shape = (kinds, kinds)
    return Links(*(np.full(shape, each) for each in (1 / bytes_per_ns, message_ns, latency_ns, stream_ns)))


def problem(
    kinds: tuple[Kind, ...],
    ns: Floats,
    values: list[tuple[int, float, list[int]]],
    links: Links,
    *,
    label: Ints | None = None,
    tie: Ints | None = None,
    allowed: Flags | None = None,
    state_bytes: Floats | None = None,
    residents: list[tuple[float, list[int]]] | None = None,
    objective: Objective = Objective.THROUGHPUT,
    requests: int = 4,
) -> Problem:
    """From lists: values as (producer, bytes, consumers), residents as (bytes, users)."""
    nodes = len(ns)
    weights = residents or []
    return Problem(
        kinds,
        np.asarray(ns, dtype=np.float64),
        np.arange(nodes) if label is None else label,
        np.arange(nodes) if tie is None else tie,
        np.ones((nodes, len(kinds)), dtype=np.bool_) if allowed is None else allowed,
        np.zeros(nodes) if state_bytes is None else state_bytes,
        Values(
            np.array([value[0] for value in values], dtype=np.int64),
            np.array([value[1] for value in values], dtype=np.float64),
            np.ones(len(values)),
            sets([value[2] for value in values]),
        ),
        Residents(np.array([each[0] for each in weights], dtype=np.float64), sets([each[1] for each in weights])),
        links,
        objective,
        requests,
    )


def _check(given: Problem) -> None:
    kinds, nodes = len(given.kinds), len(given.ns)
    if not 1 <= kinds <= MOST_KINDS:
        raise PlanError(f"{kinds} kinds of GPUs; expected 1 to {MOST_KINDS}")
    if nodes == 0:
        raise PlanError("there is nothing to plan: no launches")
    for number, kind in enumerate(given.kinds):
        if kind.count < 1 or not kind.memory_bytes > 0:
            raise PlanError(f"GPU kind {number} ({kind.name}): expected one GPU at least, with some memory")
    if given.requests < 1:
        raise PlanError(f"{given.requests} requests in flight; expected 1 at least")
    _shapes(given, kinds, nodes)
    _numbers(given)
    _places(given)


def _shapes(given: Problem, kinds: int, nodes: int) -> None:
    wanted: dict[str, tuple[NDArray[np.generic], tuple[int, ...]]] = {
        "times": (given.ns, (nodes, kinds)),
        "labels": (given.label, (nodes,)),
        "ties": (given.tie, (nodes,)),
        "allowed kinds": (given.allowed, (nodes, kinds)),
        "state": (given.state_bytes, (nodes,)),
    }
    wanted |= {
        f"links' {name}": (getattr(given.links, name), (kinds, kinds))
        for name in ("ns_per_byte", "message_ns", "latency_ns", "stream_ns")
    }
    for name, (array, shape) in wanted.items():
        if array.shape != shape:
            raise PlanError(f"{name}: an array of {array.shape}; expected {shape}")
    for name, each in (("readers of values", given.values.consumers), ("users of memory", given.residents.users)):
        if len(each.members) and not 0 <= each.members.min() <= each.members.max() < nodes:
            raise PlanError(f"{name}: a launch that does not exist; expected numbers from 0 to {nodes - 1}")
    producer = given.values.producer
    if len(producer) and not 0 <= producer.min() <= producer.max() < nodes:
        raise PlanError(f"writers of values: a launch that does not exist; expected numbers from 0 to {nodes - 1}")


def _numbers(given: Problem) -> None:
    runs = np.where(given.allowed, given.ns, 0.0)
    bad = np.argwhere(~(np.isfinite(runs) & (runs >= 0)))
    if len(bad):
        node, kind = bad[0]
        raise PlanError(
            f"launch {node} takes {given.ns[node, kind]} ns on {given.kinds[kind].name}; expected a time, 0 or more"
        )
    for name, array in (
        ("values", given.values.bytes),
        ("memory", given.residents.bytes),
        ("state", given.state_bytes),
        ("links", given.links.ns_per_byte),
        ("links", given.links.message_ns),
        ("links", given.links.latency_ns),
        ("links", given.links.stream_ns),
    ):
        if len(array) and not (np.isfinite(array) & (array >= 0)).all():
            raise PlanError(f"{name}: a figure that is negative or not finite")


def _places(given: Problem) -> None:
    if not given.allowed.any(axis=1).all():
        raise PlanError(f"launch {int(np.flatnonzero(~given.allowed.any(axis=1))[0])}: no GPU may run it")
    _, group = np.unique(given.tie, return_inverse=True)
    never = np.zeros((int(group.max()) + 1, len(given.kinds)), dtype=np.int64)
    np.add.at(never, group, ~given.allowed)
    stuck = np.flatnonzero((never > 0).all(axis=1))
    if len(stuck):
        nodes = np.flatnonzero(group == stuck[0])
        raise PlanError(f"launches {nodes[0]} to {nodes[-1]} have to be on one GPU, and none may run all of them")
