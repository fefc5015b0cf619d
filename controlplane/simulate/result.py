"""What a simulation says: throughput, latency, how busy each GPU and link is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from controlplane.profile.model import Profile
from controlplane.simulate.engine import Ran, Simulation
from controlplane.simulate.load import Load
from controlplane.simulate.place import Placement
from controlplane.simulate.work import Work

LEAST, MOST, OPERATIONS = 12, 400, 120_000  # requests that are simulated, unless it is said how many; operations of all
SETTLING = 0.25  # of the requests, before what is measured


@dataclass(frozen=True, slots=True)
class Result:
    """period_ns: from one request's end to the next one's. latency_ns: by percentile, from arrival to end. busy: by
    GPU, share of the time in which it runs something; links: bytes per second, by (source, target). moved_bytes: by
    request.
    """

    name: str
    requests: int
    period_ns: float
    latency_ns: dict[int, float]
    busy: tuple[float, ...]
    links: dict[tuple[int, int], float]
    moved_bytes: float
    launches: tuple[int, ...]
    end_ns: float

    @property
    def per_second(self) -> float:
        return 1e9 / self.period_ns if self.period_ns else 0.0


PERCENTILES = (50, 90, 99)


def enough(work: Work, servers: int) -> int:
    """Requests, for a steady state."""
    wanted = OPERATIONS // max(len(work.tasks), 1)
    return max(min(wanted, MOST), LEAST, 4 * servers)


def simulate(
    profile: Profile, work: Work, placement: Placement, load: Load, *, keep: bool = False
) -> tuple[Result, Ran]:
    simulation = Simulation(work, profile.machine, placement, keep=keep)
    ran = simulation.run(load)
    return measured(placement.name, simulation, ran), ran


def measured(name: str, simulation: Simulation, ran: Ran) -> Result:
    done = list(accumulate(ran.done_ns, max))  # when all up to a request are: what is dealt unevenly shows
    count = len(done)
    period = _slope(done[int(count * SETTLING) :]) or done[-1] / count
    latency = sorted(end - start for start, end in zip(ran.arrived_ns, ran.done_ns, strict=True))
    end = done[-1] if done else 0.0
    carried: dict[tuple[int, int], int] = {}
    for copy in ran.copies:
        carried[copy.source, copy.target] = carried.get((copy.source, copy.target), 0) + copy.bytes
    return Result(
        name,
        count,
        period,
        {percent: _percentile(latency, percent) for percent in PERCENTILES},
        tuple(round(min(curve.busy_ns / end, 1.0), 6) if end else 0.0 for curve in simulation.sms),
        {ends: size / end * 1e9 for ends, size in sorted(carried.items())},
        sum(carried.values()) / max(count, 1),
        tuple(ran.launches),
        end,
    )


def _slope(times: Sequence[float]) -> float:
    """From one to the next, where several may come at once: by least squares."""
    if len(times) < 3:
        return 0.0
    middle, mean = (len(times) - 1) / 2, sum(times) / len(times)
    spread = sum((number - middle) ** 2 for number in range(len(times)))
    return sum((number - middle) * (time - mean) for number, time in enumerate(times)) / spread


def _percentile(some: Sequence[float], percent: int) -> float:
    """Of sorted values: the nearest rank."""
    return some[max(-(-percent * len(some) // 100) - 1, 0)] if some else 0.0
