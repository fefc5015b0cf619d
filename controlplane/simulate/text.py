"""What a simulation says, for people and as JSON. docs/profile.md says what the keys mean."""

from __future__ import annotations

from typing import TypedDict

from controlplane.base.tables import Part, amount, columns, duration
from controlplane.profile.model import Profile, Source
from controlplane.profile.scale import error_of
from controlplane.simulate.comparison import Compared, carries
from controlplane.simulate.result import PERCENTILES


def to_text(of: Compared) -> list[Part]:
    profile = of.profile
    heading = f"{_who(of)}, {len(profile.iteration.operations)} operations each, on {_machine(profile)}"
    rows = [("placement", "requests/s", "of GPU alone", *(f"p{each}" for each in PERCENTILES), "busy", "moved")]
    for result in of.results:
        busy = " ".join(f"{share:.0%}" for share in result.busy)
        latency = (duration(result.latency_ns[each] if has_latency(of) else None) for each in PERCENTILES)
        moved = amount(round(result.moved_bytes))
        rows.append((result.name, f"{result.per_second:,.1f}", f"{of.gain(result):.2f}", *latency, busy, moved))
    return [heading, "", *columns(rows, range(1, len(rows[0]))), *(f"  {note}" for note in notes(of))]


def has_latency(of: Compared) -> bool:
    """A program that issues requests without waiting for any has none of interest."""
    return bool(of.load.servers or any(each.waits or each.returned for each in of.profile.iteration.operations))


def _who(of: Compared) -> str:
    load, count = of.load, of.load.requests
    if load.at_ns:
        rate = count / load.at_ns[-1] * 1e9 if load.at_ns[-1] else 0.0
        return f"{count} requests, {rate:,.1f} per second on average"
    return f"{count} requests, {load.servers} at a time" if load.servers else f"{count} requests, one after the other"


def _machine(profile: Profile) -> str:
    names = [profile.machine.types[of].name for of in profile.machine.gpus]
    return ", ".join(
        f"{names.count(name)} x {name}" if names.count(name) > 1 else name for name in dict.fromkeys(names)
    )


def notes(of: Compared) -> list[str]:
    profile, found = of.profile, []
    for number, kind in enumerate(profile.machine.types):
        sources = {time.source for each in profile.classes if (time := each.times[number]) is not None}
        if Source.SCALED in sources:
            found.append(f"times on {kind.name} are scaled from another GPU: +-{error_of(profile, number):.0%}")
        need = profile.constant_bytes()
        if kind.memory_bytes and need > kind.memory_bytes:
            found.append(f"constants of {amount(need)} do not fit into {kind.name} ({amount(kind.memory_bytes)})")
    if of.work.missing:
        found.append(f"how long launches take on {', '.join(of.work.missing)} is not known: as long as on the home GPU")
    if carries(profile) and of.load.servers < 2:
        found.append("each iteration needs what the one before left: --requests R simulates R clients at a time")
    if 0 < of.load.servers < len(profile.machine.gpus):
        found.append(
            f"with {of.load.servers} at a time, more GPUs have something to do only where requests are divided"
        )
    coverage = profile.coverage
    if coverage.unknown:
        count = sum(each for _, each in coverage.unknown)
        found.append(f"{count} operations may touch anything: everything waits for them, at home")
    if coverage.untimed_share > 0.01:
        found.append(f"{coverage.untimed_share:.0%} of the time on the home GPU was not measured")
    return found


class LinkJson(TypedDict):
    """What goes from one GPU to another, -1: the host."""

    source: int
    target: int
    bytes_per_s: int


class PlacementJson(TypedDict):
    """One placement. period_ns: from one request's end to the next one's. gain: times the home GPU alone. latency_ns:
    p50, p90, p99, from arrival to end; empty where nobody waits. busy: share of the time in which each GPU runs
    something. launches: on each GPU. moved_bytes: by request.
    """

    name: str
    requests_per_s: float
    period_ns: int
    gain: float
    latency_ns: dict[str, int]
    busy: list[float]
    launches: list[int]
    moved_bytes: int
    links: list[LinkJson]


class ComparedJson(TypedDict):
    """A simulation. operations: in one iteration. gpus: the type of each. requests: that were simulated; at_a_time: how
    many at once, 0: as the program does. error: of times that were scaled, by type of GPU.
    """

    operations: int
    gpus: list[str]
    requests: int
    at_a_time: int
    placements: list[PlacementJson]
    error: dict[str, float]
    notes: list[str]


def to_json(of: Compared) -> ComparedJson:
    machine = of.profile.machine
    return {
        "operations": len(of.profile.iteration.operations),
        "gpus": [machine.types[each].name for each in machine.gpus],
        "requests": of.load.requests,
        "at_a_time": of.load.servers,
        "placements": [
            {
                "name": result.name,
                "requests_per_s": round(result.per_second, 4),
                "period_ns": round(result.period_ns),
                "gain": round(of.gain(result), 4),
                "latency_ns": {f"p{each}": round(result.latency_ns[each]) for each in PERCENTILES if has_latency(of)},
                "busy": list(result.busy),
                "launches": list(result.launches),
                "moved_bytes": round(result.moved_bytes),
                "links": [
                    {"source": source, "target": target, "bytes_per_s": round(rate)}
                    for (source, target), rate in result.links.items()
                ],
            }
            for result in of.results
        ],
        "error": {kind.name: round(error_of(of.profile, number), 4) for number, kind in enumerate(machine.types)},
        "notes": notes(of),
    }
