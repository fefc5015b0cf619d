"""What a report says, as plain values: of a profile and the placements that were simulated for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from controlplane.base.demangle import short
from controlplane.base.tables import amount, duration
from controlplane.graph.nodes import What
from controlplane.profile.model import HOST, Profile, Role
from controlplane.report.page.charts import Bar, Dot, Roofs
from controlplane.simulate.comparison import Compared
from controlplane.simulate.engine import Ran
from controlplane.simulate.result import Result
from controlplane.simulate.text import has_latency

NAME = 60
SHOWN = 8000  # slices in a timeline
ITERATIONS = 2.5  # so long a timeline is, if it has not too many slices


def chosen(of: Compared) -> int:
    """The placement that is shown: a plan's, if there is one that is as good as any; else the best."""
    best = max(range(len(of.results)), key=lambda each: of.results[each].per_second)
    for number, each in enumerate(of.results):
        if each.name == "plan" and each.per_second > 0.99 * of.results[best].per_second:
            return number
    return best


def facts(of: Compared) -> list[tuple[str, str, str]]:
    """(what, how much, what that means)."""
    profile, iteration = of.profile, of.profile.iteration
    counts = Counter(profile.classes[each.of].what for each in iteration.operations)
    work = sum(profile.ns(number) or 0.0 for number in range(len(iteration.operations)))
    host = sum(each.host_ns for each in iteration.operations)
    best = of.results[chosen(of)]
    return [
        ("launches", f"{counts[What.LAUNCH]:,}", f"in each iteration, which was seen {iteration.count} times"),
        ("work", duration(work), "of a GPU's time in each iteration"),
        ("thread", duration(host), "of the program's own time to issue it"),
        ("kinds", f"{len(profile.classes)}", "of launches: the same kernel and shape"),
        (
            "weights",
            amount(profile.constant_bytes()),
            f"read and never written, of {amount(profile.peak_bytes)} in use",
        ),
        ("best", f"{of.gain(best):.2f} x", f"{best.name}, against the program's GPU alone"),
    ]


def bars_of(of: Compared) -> list[Bar]:
    best = of.results[chosen(of)]
    return [
        Bar(each.name, each.per_second, f"{_number(each.per_second)} per second, {of.gain(each):.2f} x", each is best)
        for each in of.results
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def compared(of: Compared) -> list[tuple[str, ...]]:
    """A heading, then a row for each placement."""
    links = {(link.source, link.target): link.bytes_per_s for link in of.profile.machine.links}
    rows: list[tuple[str, ...]] = [
        (
            "placement",
            "requests/s",
            "times one GPU",
            "latency p50",
            "p99",
            "GPUs busy",
            "moved by request",
            "fullest link",
        )
    ]
    for each in of.results:
        latency = [duration(each.latency_ns[percent]) if has_latency(of) else "-" for percent in (50, 99)]
        busy = ", ".join(f"{share:.0%}" for share in each.busy)
        loads = [rate / links[ends] for ends, rate in each.links.items() if links.get(ends)]
        full = f"{max(loads):.1%}" if loads else "-"
        moved = amount(round(each.moved_bytes))
        rows.append((each.name, _number(each.per_second), f"{of.gain(each):.2f}", *latency, busy, moved, full))
    return rows


def traffic(of: Compared, result: Result) -> list[tuple[str, ...]]:
    """A heading, then a row for each GPU: what goes from it to each other one, with the link's load."""
    machine = of.profile.machine
    gpus = range(len(machine.gpus))
    rows: list[tuple[str, ...]] = [("from, to", *(f"GPU {gpu}" for gpu in gpus))]
    for source in gpus:
        cells = []
        for target in gpus:
            rate, link = result.links.get((source, target), 0.0), machine.link(source, target)
            load = f" ({rate / link.bytes_per_s:.1%})" if rate and link is not None and link.bytes_per_s else ""
            cells.append("" if source == target else f"{amount(round(rate))}/s{load}" if rate else "-")
        rows.append((f"GPU {source}", *cells))
    return rows


def classes(profile: Profile, most: int = 30) -> list[tuple[str, ...]]:
    counts, ns = _shares(profile)
    whole = sum(ns.values()) or 1.0
    heads = [kind.key or kind.name for kind in profile.machine.types]
    rows: list[tuple[str, ...]] = [("kernel", "shape", "launches", "share of time", *heads, "bytes", "times are")]
    for of in sorted(ns, key=lambda each: -ns[each])[:most]:
        made = profile.classes[of]
        shape = f"{'x'.join(map(str, made.grid))} of {'x'.join(map(str, made.block))}" if made.block[0] else "-"
        times = [duration(time.ns) if time is not None else "-" for time in made.times]
        sources = {time.source.value: None for time in made.times if time is not None}
        name = short(made.name, NAME)
        rows.append(
            (
                name,
                shape,
                str(counts[of]),
                f"{ns[of] / whole:.1%}",
                *times,
                amount(made.bytes),
                ", ".join(sources) or "-",
            )
        )
    return rows


def _shares(profile: Profile) -> tuple[Counter[int], dict[int, float]]:
    """Of classes: how often, and the time of an iteration on the home GPU."""
    counts = Counter(each.of for each in profile.iteration.operations)
    home = profile.machine.home_type
    ns = {}
    for of, count in counts.items():
        time = profile.classes[of].times[home]
        ns[of] = count * time.ns if time is not None else 0.0
    return counts, ns


def dots(profile: Profile) -> tuple[list[Dot], Roofs]:
    """On the home GPU."""
    counts, ns = _shares(profile)
    whole = sum(ns.values()) or 1.0
    kind = profile.machine.types[profile.machine.home_type]
    found = [
        Dot(short(profile.classes[of].name, NAME), profile.classes[of].bytes, ns[of] / counts[of], ns[of] / whole)
        for of in ns
        if profile.classes[of].what is What.LAUNCH
    ]
    return found, Roofs(kind.memory_bytes_per_s, kind.l2_bytes_per_s, kind.fixed_ns)


def memory(profile: Profile) -> list[tuple[str, str]]:
    by_role = {role: sum(each.bytes_of(role) for each in profile.allocations) for role in Role}
    return [
        ("weights and other constants", amount(by_role[Role.CONSTANT])),
        ("carried from one iteration to the next", amount(by_role[Role.CARRIED])),
        ("each iteration's own", amount(by_role[Role.OWN])),
        ("in use at most", amount(profile.peak_bytes)),
    ]


def machine(profile: Profile) -> list[tuple[str, ...]]:
    found = profile.machine
    rows: list[tuple[str, ...]] = [
        ("GPU", "SMs", "memory", "memory bandwidth", "tensor arithmetic", "to its neighbour")
    ]
    for number, of in enumerate(found.gpus):
        kind = found.types[of]
        link = next((each for each in found.links if each.source == number and each.target != HOST), None)
        rows.append(
            (
                f"{number}: {kind.name}" + (", the program's own" if number == found.home else ""),
                f"{kind.sm_limit} of {kind.sm_count}" if kind.sm_limit else str(kind.sm_count or "-"),
                amount(kind.memory_bytes) if kind.memory_bytes else "-",
                f"{kind.memory_bytes_per_s / 1e12:.2f} TB/s" if kind.memory_bytes_per_s else "-",
                f"{kind.tensor_ops_per_s / 1e12:,.0f} TFLOP/s" if kind.tensor_ops_per_s else "-",
                f"{link.kind}, {link.bytes_per_s / 1e9:.0f} GB/s" if link is not None else "-",
            )
        )
    return rows


def layers(profile: Profile, placed: Sequence[int]) -> list[list[int]]:
    """An iteration's GPUs, cut into rows where its kernels begin to repeat: layers, as far as there are some."""
    names = [profile.classes[each.of].name for each in profile.iteration.operations]
    length = _layer(names)
    first = next((at for at in range(len(names) - length) if names[at] == names[at + length]), 0)
    cuts = [0, *range(first, len(names), length), len(names)]
    return [list(placed[a:b]) for a, b in pairwise(cuts) if a < b]


def _layer(names: Sequence[str], least: int = 6, wide: int = 80) -> int:
    """How many launches it has; of a sequence that does not repeat, as many as fit into a row."""
    best, score = min(wide, max(len(names), 1)), 0.6
    for shift in range(least, min(len(names) // 2, 400) + 1):
        same = sum(a == b for a, b in zip(names, names[shift:], strict=False)) / (len(names) - shift)
        if same > score + 0.02:
            best, score = shift, same
    return wide if len(set(names)) == 1 else best


def timeline(of: Compared) -> dict[str, object]:
    """Of each placement: what ran where and when, of some requests in the middle; microseconds."""
    profile = of.profile
    return {
        "names": [short(each.name, NAME) for each in profile.classes],
        "gpus": [profile.machine.types[each].name for each in profile.machine.gpus],
        "chosen": chosen(of),
        "placements": [
            {"name": result.name, "gain": round(of.gain(result), 2), **_window(of, ran)}
            for result, ran in zip(of.results, of.runs, strict=True)
        ],
    }


def _window(of: Compared, ran: Ran) -> dict[str, object]:
    """From where a request in the middle begins, so long that requests on all GPUs are seen."""
    order = sorted(range(len(ran.begun_ns)), key=lambda each: ran.begun_ns[each])
    middle = order[len(order) // 2]
    begin = min((each.start_ns for each in ran.slices if each.request == middle), default=0.0)
    took = [end - start for start, end in _spans(ran).values()]
    end = begin + ITERATIONS * (sorted(took)[len(took) // 2] if took else 0.0)
    slices = [each for each in ran.slices if each.end_ns > begin and each.start_ns < end]
    if len(slices) > SHOWN:
        slices = sorted(slices, key=lambda each: each.start_ns)[:SHOWN]
        end = slices[-1].end_ns
    copies = [each for each in ran.copies if each.end_ns > begin and each.start_ns < end]
    lanes = _lanes([(each.gpu, each.start_ns, each.end_ns) for each in slices])
    tasks = of.work.tasks
    return {
        "slices": [
            [each.gpu, lane, *_cut(each.start_ns, each.end_ns, begin), tasks[each.place].of, each.request]
            for each, lane in zip(slices, lanes, strict=True)
        ],
        "copies": [[each.source, each.target, *_cut(each.start_ns, each.end_ns, begin), each.bytes] for each in copies],
    }


def _spans(ran: Ran) -> dict[int, tuple[float, float]]:
    """Of each request, when it first and last runs."""
    found: dict[int, tuple[float, float]] = {}
    for each in ran.slices:
        start, end = found.get(each.request, (each.start_ns, each.end_ns))
        found[each.request] = (min(start, each.start_ns), max(end, each.end_ns))
    return found


def _cut(start: float, end: float, begin: float) -> tuple[float, float]:
    """Begin and length, from the window's beginning on."""
    return _us(max(start, begin) - begin), _us(end - max(start, begin))


def _us(ns: float) -> float:
    return round(ns / 1000, 2)


def _lanes(some: Sequence[tuple[int, float, float]]) -> list[int]:
    """What runs at the same time on a GPU is drawn beside each other."""
    ends: dict[int, list[float]] = {}
    found = [0] * len(some)
    for number in sorted(range(len(some)), key=lambda each: some[each][1]):
        gpu, start, end = some[number]
        lanes = ends.setdefault(gpu, [])
        place = next((lane for lane, until in enumerate(lanes) if until <= start + 1), len(lanes))
        if place == len(lanes):
            lanes.append(end)
        lanes[place] = end
        found[number] = place
    return found
