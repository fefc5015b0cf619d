"""A plan and what it was compared with, as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.plan.candidate import Candidate
from controlplane.plan.planner import Planned
from controlplane.plan.text import limits


def to_json(planned: Planned, notes: Sequence[str] = ()) -> dict[str, object]:
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


def _candidate(each: Candidate) -> dict[str, object]:
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
