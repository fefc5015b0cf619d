"""A plan and what it was compared with, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from controlplane.plan.candidate import Candidate
from controlplane.plan.planner import Planned
from controlplane.plan.text import limits


class GpuJson(TypedDict):
    """GPUs of one kind under a candidate. numbers: those of the machine. busy_ns: of a request's time that each of them
    computes, out_ns and in_ns: that its links send and receive. memory_bytes: what it has to hold.
    """

    name: str
    count: int
    numbers: list[int]
    busy_ns: float
    out_ns: float
    in_ns: float
    memory_bytes: float
    capacity_bytes: float


class CandidateJson(TypedDict):
    """A placement that was compared. period_ns: from one request's end to the next one's; is_simulated: that the
    simulator says so; limit_ns: what the fullest part alone takes. worth: by the objective, less is better. placements:
    how many there are in turn, each by its share. sent_bytes: by request, from each kind of GPU to each.
    """

    name: str
    period_ns: float
    is_simulated: bool
    limit_ns: float
    latency_ns: float
    worth: float
    placements: list[float]
    gpus: list[GpuJson]
    sent_bytes: list[list[float]]


class PlanJson(TypedDict):
    """A plan. bound_ns: no placement has a shorter period. gap: of the chosen one above that; dividing_gap: of the best
    that divides requests. free_ns: the period if nothing had to be sent. left_out: why GPUs or candidates were not
    considered. limits: what keeps the chosen one from being better, in words.
    """

    objective: str
    requests: int
    bound_ns: float
    gap: float
    free_ns: float
    dividing_gap: float | None
    chosen: CandidateJson
    candidates: list[CandidateJson]
    left_out: dict[str, str]
    limits: list[str]
    notes: list[str]


def to_json(planned: Planned, notes: Sequence[str] = ()) -> PlanJson:
    return {
        "objective": planned.given.objective.value,
        "requests": planned.given.requests,
        "bound_ns": planned.bound_ns,
        "gap": planned.gap,
        "free_ns": planned.free_ns,
        "dividing_gap": planned.dividing_gap,
        "chosen": _candidate(planned.chosen),
        "candidates": [_candidate(each) for each in planned.candidates],
        "left_out": planned.left_out,
        "limits": limits(planned),
        "notes": list(notes),
    }


def _candidate(each: Candidate) -> CandidateJson:
    kinds = len(each.given.kinds)
    rows: list[float] = each.rows.tolist()
    return {
        "name": each.name,
        "period_ns": each.period_ns,
        "is_simulated": each.simulated,
        "limit_ns": each.limit_ns,
        "latency_ns": each.latency_ns,
        "worth": each.worth,
        "placements": [weight for weight, _ in each.mixture],
        "gpus": [
            {
                "name": kind.name,
                "count": kind.count,
                "numbers": list(kind.numbers),
                "busy_ns": rows[number],
                "out_ns": rows[kinds + number],
                "in_ns": rows[2 * kinds + number],
                "memory_bytes": float(each.memory[number]),
                "capacity_bytes": kind.memory_bytes,
            }
            for number, kind in enumerate(each.given.kinds)
        ],
        "sent_bytes": each.sent.tolist(),
    }
