"""Who says on which GPU a simulated launch runs: a placement that is known before, or the rule of real runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from controlplane.graph.rule import Figures, Guard, GuardRule, Part, Place, Rule
from controlplane.profile.model import Machine
from controlplane.simulate.work import Task, Way

MARKS = 5  # in the work of a lead (interpose/schedule/automatic.c)


class Asked(NamedTuple):
    """A launch that has to go somewhere. request: how many iterations began before its own; place: in its iteration;
    stream: its thread's number, and its own; ticket: its number among all, from 1 on; last: that of its stream's last,
    or 0.
    """

    task: Task
    request: int
    place: int
    stream: tuple[int, int]
    ticket: int
    last: int
    now_ns: float
    parts: Sequence[Part]


class Placement(Protocol):
    """by_data: launches wait only where data flows; else streams keep their order across GPUs. mark_ns: of work, after
    which a strand signals other GPUs how far it is; they wait for what follows a producer up to there. 0: at once.
    """

    name: str
    by_data: bool
    mark_ns: float

    def choose(self, asked: Asked) -> int: ...
    def waited(self, ticket: int, began_ns: float, ended_ns: float) -> None: ...


class Fixed:
    """patterns: GPUs by place in the iteration, each with a weight: requests are dealt to them in these proportions.
    Producers signal at once, as a plan names them.
    """

    mark_ns = 0.0

    def __init__(self, name: str, patterns: Sequence[tuple[float, Sequence[int]]], *, by_data: bool = True) -> None:
        self.name, self.patterns, self.by_data = name, patterns, by_data
        self.whole = sum(weight for weight, _ in patterns)
        self.dealt = [0] * len(patterns)
        self.chosen: list[int] = []  # by request

    def choose(self, asked: Asked) -> int:
        while len(self.chosen) <= asked.request:
            self.deal()
        return self.patterns[self.chosen[asked.request]][1][asked.place]

    def deal(self) -> None:
        """The next request goes where the deficit is largest, as in deficit round robin."""
        deficits = [
            round((len(self.chosen) + 1) * weight / self.whole - dealt, 9)
            for (weight, _), dealt in zip(self.patterns, self.dealt, strict=True)
        ]
        best = deficits.index(max(deficits))
        self.dealt[best] += 1
        self.chosen.append(best)

    def waited(self, ticket: int, began_ns: float, ended_ns: float) -> None:
        """Nothing to learn from it."""


def alone(tasks: int, gpu: int, name: str = "one GPU") -> Fixed:
    return Fixed(name, [(1.0, [gpu] * tasks)])


def router(tasks: int, speeds: Sequence[float], name: str = "router") -> Fixed:
    """Whole requests, to each GPU in proportion to how many of them it does in a second when it is alone."""
    return Fixed(name, [(speed, [gpu] * tasks) for gpu, speed in enumerate(speeds) if speed > 0])


class ByStream:
    """Each new stream is given the next GPU, as the rule `by_stream` of a policy does."""

    by_data, mark_ns = False, 0.0

    def __init__(self, gpus: int, name: str = "by stream") -> None:
        self.name, self.gpus = name, gpus
        self.given: dict[tuple[int, int], int] = {}

    def choose(self, asked: Asked) -> int:
        return self.given.setdefault(asked.stream, len(self.given) % self.gpus)

    def waited(self, ticket: int, began_ns: float, ended_ns: float) -> None:
        """Nothing to learn from it."""


class ByRule:
    """Launch by launch (interpose/schedule/place.c); all else is at home, or where its bytes are.

    On emulated GPUs the host's time stands still for the rule, but where it waits (interpose/schedule/automatic.c).
    """

    by_data = True

    def __init__(self, machine: Machine, name: str = "rule", *, guarded: bool = True) -> None:
        self.name, self.home = name, machine.home
        self.mark_ns = Rule().lead_ns / MARKS

        def figures(source: int, target: int) -> Figures:
            link, usual = machine.link(source, target), Rule()
            rate = link.bytes_per_s / 1e9 if link is not None and link.bytes_per_s else usual.bytes_per_ns
            return Figures(usual.fence_ns, link.latency_ns if link is not None else usual.copy_ns, rate)

        self.rule = Place(len(machine.gpus), Rule(), machine.home, figures)
        self.guard = Guard(GuardRule()) if guarded else None
        self.frozen_ns = 0.0 if machine.emulated else None
        self.stays = False

    def choose(self, asked: Asked) -> int:
        task = asked.task
        if task.way is Way.TO_HOST and not task.joins and asked.parts:
            return next(gpu for gpu in range(self.rule.gpus) if asked.parts[-1].holders >> gpu & 1)
        answer = self.rule.next(
            asked.ticket,
            asked.last,
            asked.now_ns if self.frozen_ns is None else self.frozen_ns,
            task.ns,
            asked.parts,
            like=task.of + 1,
            written=task.written,
            allowed=1 << self.home if task.joins else None,
            stays=self.stays,
        )
        if self.guard is not None:
            self.stays = self.guard.stays(self.rule.clocks)
        return answer.gpu

    def waited(self, ticket: int, began_ns: float, ended_ns: float) -> None:
        if self.frozen_ns is not None:
            began_ns, ended_ns = self.frozen_ns, max(self.frozen_ns, ended_ns)
            self.frozen_ns = ended_ns
        self.rule.waited(ticket, began_ns, ended_ns)
