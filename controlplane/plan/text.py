"""A plan in words: what was chosen and why, what limits it, and all that was compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controlplane.base.tables import Part, amount, columns, duration
from controlplane.plan.candidate import CHAIN, KERNEL, MIXED, PATTERN, ROUTER, SINGLE, Candidate
from controlplane.plan.planner import Planned
from controlplane.plan.problem import Kind, Objective

WORDS = {
    SINGLE: "all requests run there",
    ROUTER: "each GPU serves whole requests: nothing is gained by dividing one",
    CHAIN: "each request goes from GPU to GPU, part by part",
    PATTERN: "each layer's launches are divided between the GPUs in the same way",
    KERNEL: "each request's launches are divided between the GPUs",
    MIXED: "requests take turns in several placements",
}
LEAST_SHARE = 0.02  # of what limits, to be named
HALF = 0.005


def words_for(name: str) -> str:
    return next(text for start, text in WORDS.items() if name.startswith(start))


def to_text(planned: Planned, notes: Sequence[str] = ()) -> list[Part]:
    chosen, given = planned.chosen, planned.given
    lines: list[Part] = [_headline(planned), f"  {words_for(chosen.name)}", ""]
    lines += _gain(planned)
    lines += ["", "What limits:", *(f"  {line}" for line in limits(planned)), ""]
    lines += _compared(planned)
    lines += ["", *_uses(chosen)]
    if notes:
        lines += ["", *(f"note: {note}" for note in notes)]
    if len(given.kinds) == 1 and given.kinds[0].count == 1:
        lines += ["", "note: there is one GPU only; --devices names others"]
    return lines


def _headline(planned: Planned) -> str:
    chosen, given = planned.chosen, planned.given
    requests = f"{given.requests} request{'s' if given.requests > 1 else ''} in flight"
    if given.objective is Objective.LATENCY:
        return f"{chosen.name}: a request takes {duration(chosen.latency_ns)}"
    figure = f"{chosen.name}: a request every {duration(chosen.period_ns)} with {requests}"
    if given.objective is Objective.COST:
        return f"{figure}, {chosen.worth * 1000:.4g} dollars for 1,000 requests, on {machine(chosen)}"
    if given.objective is Objective.ENERGY:
        return f"{figure}, {chosen.worth:.4g} J for each, on {machine(chosen)}"
    return f"{figure}; one takes {duration(chosen.latency_ns)} when it is alone"


def labels(kinds: Sequence[Kind]) -> list[str]:
    """Names, with the GPUs' numbers where several kinds have the same."""
    names = [kind.name for kind in kinds]
    return [
        name
        if names.count(name) == 1
        else f"{name} (GPU{'s' if kind.count > 1 else ''} {', '.join(str(number) for number in kind.numbers)})"
        for name, kind in zip(names, kinds, strict=True)
    ]


def machine(candidate: Candidate) -> str:
    return " + ".join(f"{kind.count} x {kind.name}" for kind in candidate.given.kinds)


def _gain(planned: Planned) -> list[str]:
    chosen = planned.chosen
    lines = []
    if planned.given.objective in (Objective.THROUGHPUT, Objective.LATENCY):
        what = "latency" if planned.is_latency else "period"
        within, divided = percent(planned.gap), planned.dividing_gap
        bound = f"No placement has a shorter {what} than {duration(planned.bound_ns)}: this one is within {within}"
        if planned.gap > divided + HALF and not planned.is_latency:
            bound += f" ({percent(divided)} by how work is divided, the rest since GPUs wait for each other)"
        lines.append(f"{bound}.")
    coarse = [
        each
        for each in planned.candidates
        if each.name.startswith((SINGLE, ROUTER)) and (each.name, machine(each)) != (chosen.name, machine(chosen))
    ]
    if coarse:
        best = min(coarse, key=lambda each: each.worth)
        gain = best.worth / chosen.worth - 1 if chosen.worth else 0.0
        than = (
            f"{best.name} ({machine(best)})"
            if planned.given.objective in (Objective.COST, Objective.ENERGY)
            else best.name
        )
        lines.append(f"{percent(gain)} better than {than}." if gain > HALF else f"As good as {than}.")
    lines += [f"{name} is no choice: {why}." for name, why in planned.left_out.items()]
    return lines


def limits(planned: Planned) -> list[str]:
    """Shadow prices: what more of something would give."""
    if planned.is_latency or planned.given.requests == 1:
        return ["one request: the chain of launches that need each other, and links between them"]
    if planned.limiting is None:
        return [_busiest(planned.chosen)]
    given, prices = planned.limiting
    kinds, period = len(given.kinds), planned.free_ns
    lines, names = [], labels(given.kinds)
    if planned.chosen.period_ns > planned.chosen.limit_ns * (1 + 2 * HALF):
        lost = 1 - planned.chosen.limit_ns / planned.chosen.period_ns
        lines.append(
            f"requests in flight: GPUs wait for each other {percent(lost)} of the time; more requests would fill them"
        )
    total = max(float(prices.rows[:-1].sum()), 1e-12)
    for number, kind in enumerate(names):
        share = float(prices.rows[number]) / total
        if share > LEAST_SHARE:
            lines.append(f"time on {kind}: 1 % more speed there gives {percent(share / 100, 2)}")
    for name, first in (("from", kinds), ("to", 2 * kinds)):
        for number, kind in enumerate(names):
            share = float(prices.rows[first + number]) / total
            if share <= LEAST_SHARE / 10:
                continue
            some = np.delete(given.links.ns_per_byte[number if first == kinds else slice(None)].ravel(), number)[:1]
            rate = 1 / float(some[0]) if len(some) and some[0] > 0 else 0.0
            more = f"1 GB/s more gives {percent(share / max(rate, 1.0), 2)}" if rate else "links take no time"
            lines.append(f"the link {name} {kind} ({rate:.3g} GB/s): {more}")
    for number, kind in enumerate(names):
        gain = float(prices.memory[number]) * 1e9 / max(period, 1e-9)
        if gain > 1e-5:
            lines.append(f"memory of {kind}: 1 GB more gives {percent(gain, 2)}")
    return lines or [_busiest(planned.chosen)]


def _busiest(candidate: Candidate) -> str:
    kinds = len(candidate.given.kinds)
    busiest = int(np.argmax(candidate.rows[:kinds]))
    return f"time on {labels(candidate.given.kinds)[busiest]}"


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _compared(planned: Planned) -> list[Part]:
    objective = planned.given.objective
    heading = ["", "placement", "period", "latency", "GPUs and links alone", "against the plan"]
    if objective in (Objective.COST, Objective.ENERGY):
        heading.append("for 1,000 requests, on" if objective is Objective.COST else "J for each, on")
    rows: list[tuple[str, ...]] = [tuple(heading)]
    for each in best_by_name(planned):
        ratio = planned.chosen.worth / each.worth if each.worth else 1.0
        row: list[str] = [
            "*" if each is planned.chosen else "",
            each.name,
            duration(each.period_ns) + ("" if each.simulated else " or more"),
            duration(each.latency_ns),
            duration(each.limit_ns),
            f"{ratio:.3f}",
        ]
        if objective is Objective.COST:
            row.append(f"{each.worth * 1000:.4g} dollars, {machine(each)}")
        elif objective is Objective.ENERGY:
            row.append(f"{each.worth:.4g}, {machine(each)}")
        rows.append(tuple(row))
    return columns(rows, (2, 3, 4, 5))


def best_by_name(planned: Planned) -> list[Candidate]:
    """The best candidate of each name and machine, in the order in which they were made."""
    found: dict[str, Candidate] = {}
    by_machine = planned.given.objective in (Objective.COST, Objective.ENERGY)
    for each in planned.candidates:
        key = f"{each.name} {machine(each)}" if by_machine else each.name
        before = found.get(key)
        if before is None or each is planned.chosen or (each.worth < before.worth and before is not planned.chosen):
            found[key] = each
    return list(found.values())


def _uses(chosen: Candidate) -> list[Part]:
    kinds, period = chosen.given.kinds, max(chosen.period_ns, 1e-9)
    rows: list[tuple[str, ...]] = [("GPUs", "busy", "link out", "link in", "memory", "of")]
    for number, (kind, label) in enumerate(zip(kinds, labels(kinds), strict=True)):
        load = [percent(float(chosen.rows[k * len(kinds) + number]) / period, 0) for k in range(3)]
        name = f"{label} x {kind.count}" if kind.count > 1 else label
        rows.append((name, *load, amount(int(chosen.memory[number])), amount(int(kind.memory_bytes))))
    lines = columns(rows, (1, 2, 3, 4, 5))
    if len(kinds) > 1:
        lines.append(f"  {amount(int(chosen.sent.sum()))} are moved between GPUs for each request")
    return lines
